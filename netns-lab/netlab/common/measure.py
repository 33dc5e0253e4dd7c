"""What nodes cost, read from the kernel, and what daemons count themselves, asked over their control sockets.

Reading the kernel does not disturb a daemon. Asking a daemon costs it some milliseconds, so it is asked after
everything else was measured. A process that has ended costs 0.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from subord.client.daemon import ask
from subord.client.errors import CommandError

REPOSITORY = Path(__file__).resolve().parents[3]
_CPUCLOCK_SCHED = 2  # include/linux/posix-timers.h: the clock of a whole process, by the scheduler's account


def cpu_s(pid: int) -> float:
    """Seconds of processor time since the fork, of all threads, also ended ones.

    Source: clock_getcpuclockid(3); in nanoseconds, where /proc/PID/schedstat forgets the threads that are gone.
    """
    try:
        return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def _memory_mib(names: tuple[str, ...], pid: int) -> float:
    """Source: proc(5), smaps_rollup."""
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
    "pss_mib": partial(_memory_mib, ("Pss:",)),  # shared pages divided by their users
    "private_mib": partial(_memory_mib, ("Private_Clean:", "Private_Dirty:")),
    "resident_mib": partial(_memory_mib, ("Rss:",)),  # shared pages included: a copy on a write does not change it
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


def exchanges_per_node(control_sockets: Iterable[Path]) -> float | None:
    """Mean of the exchanges that the daemons counted; None when one of them does not tell."""
    try:
        told = [ask(str(path), "/v1/counters", gives_up_s=0)["exchanges"] for path in control_sockets]
    except (CommandError, KeyError):
        return None
    return statistics.fmean(told) if told else None


def commit(checkout: Path = REPOSITORY) -> str:
    """Of the program that is measured; `+changes` when its files were changed since. Empty outside a repository."""
    head = _git(checkout, "rev-parse", "--short", "HEAD")
    changes = head and _git(checkout, "status", "--porcelain", "--", "subord", "netns-lab")
    return head + "+changes" if changes else head


def _git(checkout: Path, *words: str) -> str:
    try:
        ran = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return ran.stdout.strip()


def machine() -> dict[str, Any]:
    memory_kib = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory_kib / (1 << 20), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }
