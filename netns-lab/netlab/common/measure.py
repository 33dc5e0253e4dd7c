"""What nodes cost, read from the kernel, and what daemons count themselves, asked over their control sockets.

Reading the kernel does not disturb a daemon. Asking a daemon costs it some milliseconds, so it is asked after
everything else was measured. A process that has ended costs 0.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[3]
ANSWER_BYTES_MAX = 16 << 20
_CPUCLOCK_SCHED = 2  # include/linux/posix-timers.h: the clock of a whole process, by the scheduler's account


def cpu_s(pid: int) -> float:
    """Seconds of processor time since the fork, of all threads, also ended ones.

    Source: clock_getcpuclockid(3); in nanoseconds, where /proc/PID/schedstat forgets the threads that are gone.
    """
    try:
        return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def pss_mib(pid: int) -> float:
    """Memory in MiB, shared pages divided by their users (proc(5): smaps_rollup)."""
    return _memory_mib(pid, "Pss:")


def private_mib(pid: int) -> float:
    """Memory in MiB that no other process shares."""
    return _memory_mib(pid, "Private_Clean:", "Private_Dirty:")


def resident_mib(pid: int) -> float:
    """Memory in MiB, shared pages included: copying a page on write does not change it."""
    return _memory_mib(pid, "Rss:")


def _memory_mib(pid: int, *names: str) -> float:
    lines = _lines(f"/proc/{pid}/smaps_rollup")
    return sum(int(line.split()[1]) for line in lines if line.startswith(names)) / 1024


def datagrams_sent(pid: int) -> int:
    """UDP datagrams sent by the network namespace of `pid`, of both IP versions.

    Source: proc(5), net/snmp; net/snmp6 has one `NAME VALUE` a line.
    """
    lines = [line.split() for line in _lines(f"/proc/{pid}/net/snmp") if line.startswith("Udp:")]
    if not lines:
        return 0
    names, values = lines
    six = [line.split()[1] for line in _lines(f"/proc/{pid}/net/snmp6") if line.startswith("Udp6OutDatagrams")]
    return int(values[names.index("OutDatagrams")]) + sum(map(int, six))


OF_PROCESS: dict[str, Callable[[int], float]] = {
    "cpu_s": cpu_s,
    "pss_mib": pss_mib,
    "private_mib": private_mib,
    "resident_mib": resident_mib,
    "datagrams_sent": datagrams_sent,
}


class InterfaceCounters(NamedTuple):
    """(bytes, packets) each way, Ethernet header included, as seen from the interface."""

    received: tuple[int, int]
    sent: tuple[int, int]
    send_drops: int


def interface_counters() -> dict[str, InterfaceCounters]:
    """By interface of the present network namespace. Source: proc(5), net/dev."""
    counters = {}
    for line in _lines("/proc/self/net/dev")[2:]:
        name, _, rest = line.partition(":")
        fields = [int(field) for field in rest.split()]
        counters[name.strip()] = InterfaceCounters((fields[0], fields[1]), (fields[8], fields[9]), fields[11])
    return counters


def memory_available_bytes() -> int:
    """What can be used without swapping (proc(5): meminfo)."""
    lines = (line for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:"))
    return int(next(lines, "- 0").split()[1]) * 1024


def _lines(path: str) -> list[str]:
    """[] when there is no such file: the process has ended, or the kernel was built without it."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


# -- what a daemon says ------------------------------------------------------------------------------------


def counters_of(control_socket: Path, timeout_s: float = 2.0) -> dict[str, Any] | None:
    """`GET /v1/counters` of one daemon, or None when it does not answer that."""
    return document_of(control_socket, "/v1/counters", timeout_s)


def document_of(control_socket: Path, path: str, timeout_s: float = 2.0) -> dict[str, Any] | None:
    """The JSON object that a daemon shows at that path, or None when it does not answer that."""
    connection = http.client.HTTPConnection("localhost", timeout=timeout_s)
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(timeout_s)
    connection.sock = stream
    try:
        stream.connect(str(control_socket))
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            return None
        found = json.loads(answer.read(ANSWER_BYTES_MAX))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) else None


def exchanges_per_node(control_sockets: Iterable[Path]) -> float | None:
    """Mean of the exchanges that the daemons counted; None when one of them does not tell."""
    told: list[Any] = [(counters_of(path) or {}).get("exchanges") for path in control_sockets]
    return None if None in told or not told else sum(map(int, told)) / len(told)


# -- what was measured, and where --------------------------------------------------------------------------


def commit() -> str:
    """Of the program that is measured; `+changes` when its files were changed since. Empty outside a repository."""
    head = _git("rev-parse", "--short", "HEAD")
    return head + "+changes" if head and _git("status", "--porcelain", "--", "subord", "netns-lab") else head


def _git(*words: str) -> str:
    try:
        ran = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return ran.stdout.strip()


def machine() -> dict[str, Any]:
    """Description of this machine for a results file; `load` is that of the last minute."""
    memory_kib = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory_kib / (1 << 20), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }
