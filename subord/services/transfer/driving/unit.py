"""Which lines of subord-agent-transfer.conf the unit of the agent lacks, as the kernel shows it to the process.

Input is what the process sees of itself; output is a sentence, "" if nothing is lacking, or if the process is not of
the unit. Without these lines the faults are told elsewhere, and look like others: a batch system and another cluster
that are silent, a path that cannot be made. Invariants: a line is named only if what it allows is forbidden, and not
for a capability that the machine itself lacks, as far as the unit lets the process see that; of LimitNOFILE and
MemoryDenyWriteExecute nothing is told. All functions block, but not for long.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

UNIT: Final = "subord-agent.service"
DROP_IN: Final = "subord-agent-transfer.conf"
RUN: Final = "/run"
FOLDER: Final = "subord-transfer"
CAPABILITIES: Final = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_SETUID": 7,
    "CAP_SETGID": 6,
    "CAP_KILL": 5,
    "CAP_AUDIT_WRITE": 29,
    "CAP_SYS_RESOURCE": 24,
}
_UNCHANGED: Final = -1


class Probes(NamedTuple):
    """What has no effect, and raises PermissionError if the unit forbids it. `send`: a datagram to this process.
    `become`: a call of @privileged, which changes to the user that it is."""

    send: Callable[[], None]
    become: Callable[[], None]


def _send() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        own.sendto(b"", own.getsockname())


def _become() -> None:
    os.setresuid(_UNCHANGED, _UNCHANGED, _UNCHANGED)


PROBES: Final = Probes(_send, _become)


def lacking(path: str, probes: Probes = PROBES, proc: str = "/proc", run: str = RUN) -> str:
    """`path`: transfer.socket. `run`: where systemd makes RuntimeDirectory."""
    if not any(line.endswith(f"/{UNIT}") for line in _lines(f"{proc}/self/cgroup")):
        return ""
    found = ", ".join(_missing(path, probes, proc, run))
    return f"install {DROP_IN} as a drop-in of {UNIT} (docs/transfer.md), which lacks {found}" if found else ""


def _missing(path: str, probes: Probes, proc: str, run: str) -> Iterator[str]:
    status = _status(f"{proc}/self")
    if _is_denied(probes.send):
        yield "IPAddressDeny="
    if Path(path).parent == Path(RUN, FOLDER) and not Path(run, FOLDER).is_dir():
        yield f"RuntimeDirectory={FOLDER}"
    wanted, held = _among(_status(f"{proc}/1")), _among(status)
    if names := [each for each in wanted if each not in held]:
        yield f"CapabilityBoundingSet={'' if names == wanted else ' '.join(names)}"
    if status.get("NoNewPrivs") == "1":
        yield "NoNewPrivileges=no"
    yield from _mounted(_lines(f"{proc}/self/mountinfo"))
    if _is_denied(probes.become):
        yield "SystemCallFilter="


def _status(folder: str) -> dict[str, str]:
    """Of a process; empty: it cannot be seen."""
    return dict(line.split(":\t", 1) for line in _lines(f"{folder}/status") if ":\t" in line)


def _among(status: Mapping[str, str]) -> list[str]:
    """Which of CAPABILITIES a process may have; one that cannot be seen: all."""
    bounding = int(status.get("CapBnd", "-1"), 16)
    return [name for name, number in CAPABILITIES.items() if bounding >> number & 1]


def _mounted(lines: list[str]) -> Iterator[str]:
    """proc_pid_mountinfo(5): of several mounts at a place the last one counts."""
    words = {each[4]: (each[3], each[-1]) for each in map(str.split, lines) if len(each) > 6}
    if "inaccessible" in words.get("/home", ("", ""))[0]:
        yield "ProtectHome=no"
    if "systemd-private-" in words.get("/tmp", ("", ""))[0]:  # noqa: S108 - nothing is written there
        yield "PrivateTmp=no"
    options = words.get("/proc", ("", ""))[1].split(",")
    if any(each.startswith("hidepid=") and each not in ("hidepid=0", "hidepid=off") for each in options):
        yield "ProtectProc=default"
    if "subset=pid" in options:
        yield "ProcSubset=all"


def _is_denied(probe: Callable[[], None]) -> bool:
    try:
        probe()
    except PermissionError:
        return True
    except OSError:
        return False  # for another reason, which is told where it matters
    return False


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
