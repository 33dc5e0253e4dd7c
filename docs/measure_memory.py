#!/usr/bin/env python3
"""Measures the memory of a sealed daemon alone and its processor time until it is ready, for docs/evaluation/rest.md.

    .venv/bin/python docs/measure_memory.py --json docs/figures/memory.json
    .venv/bin/python docs/measure_memory.py --against ../before

A daemon is started as a service is, alone in a network namespace, until READY=1 (sd_notify(3)). Then it is asked over
its control socket, scraped, and given a neighbour. Beside it one process imports what the daemon imports, step by
step, and `-X importtime` lists the modules of a ready daemon. `--against` measures another checkout, by turns.

The first run of a checkout is not counted: it writes the byte code into a scratch directory, as an installation does
beside the sources.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import http.client
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "netns-lab"), str(REPOSITORY / "docs")]

import records  # noqa: E402 - found by the line above
from measures import natural  # noqa: E402
from netlab.common import linux, measure, results  # noqa: E402
from netlab.common.waiting import wait_until  # noqa: E402
from netlab.errors import LabError  # noqa: E402

from subord.client.daemon import ask  # noqa: E402
from subord.client.errors import CommandError  # noqa: E402

NETWORK = "10.9.0"
PORT, WEB_PORT = 7117, 9717
READY_S_MAX = 60.0
SETTLED_S = 0.5
ESTABLISHED = "01"  # proc(5), net/tcp
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1  # netdevice(7)
PACKAGES_SHOWN = 15
STATES = ("ready", "asked", "scraped", "neighbour")
STEPS = {
    "the interpreter": "pass",
    "the command line": "import subord.cli; subord.cli.parser('run')",
    "ssl": "import ssl",
    "trio": "import trio",
    "msgspec": "import msgspec",
    "netifaces": "import netifaces",
    "AES-GCM (cryptography)": "from cryptography.hazmat.primitives.ciphers.aead import AESGCM",
    "the core (subord.core)": "import subord.core.node",
    "the configuration (subord.config)": "import subord.config.load",
    "the rest of the daemon": "import subord.daemon",
    "late: h11": "import h11",
    "late: X.509 (cryptography)": "import subord.sealing.authority",
    "late: Prometheus (prometheus_client)": "import subord.api.handlers.metrics",
}
"""In the order of import, so that each step costs what its predecessors do not need."""
MEASURED_IMPORTS = """
import sys, time
for step in sys.argv[1:]:
    began = time.process_time() if step != "pass" else 0.0
    exec(step)
    spent_s = time.process_time() - began
    with open("/proc/self/smaps_rollup") as file:
        found = dict(line.split()[:2] for line in file if line.startswith(("Rss:", "Anonymous:")))
    print(found["Rss:"], found["Anonymous:"], spent_s)
"""
IMPORTED = re.compile(r"import time: +(\d+) \| +\d+ \| +(\S+)")
Run = dict[str, Any]
Process = subprocess.Popen[bytes]


def main(words: list[str]) -> int:
    """The exit code."""
    given = _options(words)
    if given.json is not None:
        results.check_writable(given.json)
    about = {"machine": measure.machine()}
    _enter_namespace()
    checkouts = [REPOSITORY] if given.against is None else [given.against.resolve(), REPOSITORY]
    found: list[Run] = []
    with TemporaryDirectory(prefix="m") as scratch:  # short: a socket path has 107 bytes
        for number in range(-1, given.repeat):
            for checkout in checkouts:
                program = {**about, **_program(checkout), "is_before": checkout != REPOSITORY, "repeat": number}
                with_neighbour = given.neighbour and number >= 0
                runs = _of_checkout(checkout, Path(scratch), with_neighbour=with_neighbour)
                found += [{**run, **program} for run in runs if number >= 0]
    _show(found)
    if given.json is not None:
        results.write_json(given.json, found)
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what a daemon alone costs")
    parser.add_argument("--repeat", type=natural, default=7)
    parser.add_argument("--against", type=Path, metavar="DIR", help="also measure this checkout, by turns")
    parser.add_argument("--alone", dest="neighbour", action="store_false", help="without a neighbour: 10 s less")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    return parser.parse_args(words)


def _enter_namespace() -> None:
    """A network of this process alone, with two addresses on its loopback."""
    linux.enter_private(rootless=os.geteuid() != 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("=16sh22x", b"lo", IFF_UP))
        for number in (1, 2):
            address = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(f"{NETWORK}.{number}"))
            fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack("=16s16s8x", f"lo:{number}".encode(), address))


def _program(checkout: Path) -> Run:
    text = (checkout / "subord" / "__init__.py").read_text(encoding="utf-8")
    git = subprocess.run(["git", "-C", checkout, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)  # noqa: PLW1510, S603, S607
    version = re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)
    if version is None:
        raise LabError(f"{checkout}/subord/__init__.py names no version: is this a checkout of subord?")
    return {"version": version[1], "commit": git.stdout.strip()}


def _of_checkout(checkout: Path, scratch: Path, *, with_neighbour: bool) -> Iterator[Run]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LOG_LEVEL"))}
    # Else the working directory would come before PYTHONPATH, and both checkouts would be this one.
    environment |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(checkout)}
    environment |= {"PYTHONPYCACHEPREFIX": str(scratch / "byte-code")}
    which = [sys.executable, "-c", "import subord; print(subord.__file__)"]
    ran = subprocess.run(which, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    if Path(ran.stdout.strip()).parents[1] != checkout:
        raise LabError(f"{ran.stdout.strip()} would be measured instead of {checkout}.")
    yield from _alone(environment, with_neighbour=with_neighbour)
    yield from _imports(environment)
    with _daemon(environment, 1, "-X", "importtime") as (_, log):
        modules = {name: int(own_us) / 1000 for own_us, name in IMPORTED.findall(log.read_text(encoding="utf-8"))}
    yield {"what": "modules", "own_ms": modules}


def _alone(environment: dict[str, str], *, with_neighbour: bool) -> Iterator[Run]:
    """One daemon: ready, then after each event that loads something late."""
    with ExitStack() as stack:
        process, log = stack.enter_context(_daemon(environment, 1))
        yield {"what": "alone", "state": "ready", **_memory(process.pid, measure.cpu_s(process.pid))}
        ask(str(log.with_name("control")), "/v1/status", gives_up_s=0)
        yield {"what": "alone", "state": "asked", **_memory(process.pid, measure.cpu_s(process.pid))}
        connection = http.client.HTTPConnection(f"{NETWORK}.1", WEB_PORT, timeout=READY_S_MAX)
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        yield {"what": "alone", "state": "scraped", **_memory(process.pid, measure.cpu_s(process.pid))}
    if with_neighbour:
        with ExitStack() as stack:
            process, _ = stack.enter_context(_daemon(environment, 1))
            stack.enter_context(_daemon(environment, 2))
            if not wait_until(lambda: _has_stream(process.pid), READY_S_MAX, interval_s=0.1):
                raise LabError("The two daemons open no stream.")
            yield {"what": "alone", "state": "neighbour", **_memory(process.pid, measure.cpu_s(process.pid))}


def _has_stream(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return any(line.split()[1].endswith(f":{PORT:04X}") and line.split()[3] == ESTABLISHED for line in lines)


@contextmanager
def _daemon(environment: dict[str, str], number: int, *options: str) -> Iterator[tuple[Process, Path]]:
    """A ready daemon, and its log. Raises LabError."""
    with TemporaryDirectory(prefix="m") as name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        folder = Path(name)
        key, log = folder / "cluster.key", folder / "log"
        key.touch(mode=0o600)
        key.write_text(f"primary {base64.b64encode(bytes(range(32))).decode()}\n", encoding="ascii")
        notified.bind(str(folder / "notify"))
        notified.settimeout(READY_S_MAX)
        given = {
            "cluster.key_file": key,
            "cluster.network": f"{NETWORK}.0/24",
            "cluster.timing": "lab",
            "cluster.port": PORT,
            "node.address": f"{NETWORK}.{number}",
            "node.control_socket": folder / "control",
            "node.metrics": f"{NETWORK}.{number}:{WEB_PORT}",
        }
        words = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        with open(log, "wb") as file:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, *options, "-m", "subord", "run", *words],
                env={**environment, "NOTIFY_SOCKET": str(folder / "notify")},
                stderr=file,
            )
        try:
            while b"READY=1" not in notified.recv(4096):
                pass
            yield process, log
        except TimeoutError:
            raise LabError(f"The daemon does not become ready: {log.read_text(encoding='utf-8')[-500:]}") from None
        finally:
            process.kill()
            process.wait()


def _memory(pid: int, cpu_s: float) -> Run:
    """MiB, after the work that goes on has settled."""
    time.sleep(SETTLED_S)
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    mib = {name: int(value) / 1024 for name, value, *_ in map(str.split, lines)}
    resident, anonymous = mib["Rss:"], mib["Anonymous:"]
    return {
        "resident_mib": resident,
        "anonymous_mib": anonymous,
        "file_mib": resident - anonymous,
        "pss_mib": mib["Pss:"],
        "cpu_s": cpu_s,
    }


def _imports(environment: dict[str, str]) -> Iterator[Run]:
    """What each step adds."""
    command = [sys.executable, "-c", MEASURED_IMPORTS, *STEPS.values()]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    before = (0.0, 0.0)
    for step, line in zip(STEPS, ran.stdout.splitlines(), strict=True):
        resident_kib, anonymous_kib, cpu_s = map(float, line.split())
        resident_mib, anonymous_mib = resident_kib / 1024, anonymous_kib / 1024
        yield {
            "what": "import",
            "step": step,
            "resident_mib": resident_mib - before[0],
            "anonymous_mib": anonymous_mib - before[1],
            "cpu_s": cpu_s,
        }
        before = resident_mib, anonymous_mib


def _show(found: list[Run]) -> None:
    keys = ("resident_mib", "anonymous_mib", "file_mib", "pss_mib")
    for is_before in sorted({run["is_before"] for run in found}, reverse=True):
        here = [run for run in found if run["is_before"] == is_before]
        print(f"\nsubord {here[0]['version']} at {here[0]['commit']}: MiB resident, anonymous, of files, PSS; CPU, s")
        for state in STATES:
            runs = [run for run in here if run["what"] == "alone" and run["state"] == state]
            cells = [records.spread(records.values(runs, key), 1) for key in keys]
            print(f"{state:>10}: {'; '.join(cells)}; {records.spread(records.values(runs, 'cpu_s'), 3)}")
        print("\nimport by import: MiB resident, anonymous; CPU, ms")
        for step in STEPS:
            runs = records.one(here, what="import", step=step)
            cells = [records.spread(records.values(runs, key), 2) for key in keys[:2]]
            spent_ms = records.spread([1000 * value for value in records.values(runs, "cpu_s")], 1)
            print(f"{step:>36}: {'; '.join(cells)}; {spent_ms}")
        own_ms = records.one(here, what="modules")[-1]["own_ms"]
        count, spent = Counter(map(_package, own_ms)), Counter[str]()
        for name, ms in own_ms.items():
            spent[_package(name)] += ms
        print(f"\n{len(own_ms)} modules of the ready daemon, in the last run; packages by the time of their import:")
        for package, ms in spent.most_common(PACKAGES_SHOWN):
            print(f"{package:>20}: {count[package]} modules, {ms:.1f} ms")


def _package(module: str) -> str:
    return module.partition(".")[0]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (LabError, CommandError, OSError) as error:
        sys.exit(f"measure_memory: {error}")
