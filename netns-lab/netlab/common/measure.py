"""What nodes cost, read from the kernel; and what they count themselves, asked over their control sockets.

Intuition: the meter in the cellar and the diary of the lodger. The meter does not disturb anybody; the diary costs
the lodger some milliseconds to read out, so it is asked for once, after everything was measured.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
ANSWER_BYTES_MAX = 1 << 20
_CPUCLOCK_SCHED = 2  # include/linux/posix-timers.h: the clock of a whole process, by the scheduler's account


def cpu_s(pid: int) -> float:
    """Seconds of processor time since the fork, of all threads, also ended ones. 0 when the process has ended.

    Source: clock_getcpuclockid(3); in nanoseconds, where /proc/PID/schedstat forgets the threads that are gone.
    """
    try:
        return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def pss_mib(pid: int) -> float:
    """Memory in MiB, shared pages divided by their users (proc(5): smaps_rollup). 0 when it has ended."""
    return _memory_mib(pid, "Pss:")


def private_mib(pid: int) -> float:
    """Memory in MiB that nobody shares. 0 when it has ended."""
    return _memory_mib(pid, "Private_Clean:", "Private_Dirty:")


def resident_mib(pid: int) -> float:
    """Memory in MiB, shared pages included: copying a page on write does not change it. 0 when it has ended."""
    return _memory_mib(pid, "Rss:")


def _memory_mib(pid: int, *names: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(names)) / 1024


def datagrams_sent(pid: int) -> int:
    """UDP datagrams sent by the network namespace of `pid`, of both IP versions. 0 when it has ended.

    Source: proc(5), net/snmp; net/snmp6 is one `NAME VALUE` a line.
    """
    try:
        lines = [line.split() for line in Path(f"/proc/{pid}/net/snmp").read_text().splitlines()]
    except OSError:
        return 0
    names, values = (line for line in lines if line[0] == "Udp:")
    return int(values[names.index("OutDatagrams")]) + _datagrams_sent_6(pid)


def _datagrams_sent_6(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/net/snmp6").read_text().splitlines()
    except OSError:  # ended, or a kernel without IPv6
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Udp6OutDatagrams")), 0)


def counters_of(control_socket: Path, timeout_s: float = 2.0) -> dict[str, Any] | None:
    """`GET /v1/counters` of one daemon, or None when it does not answer that."""
    return document_of(control_socket, "/v1/counters", timeout_s)


def document_of(control_socket: Path, path: str, timeout_s: float = 2.0) -> dict[str, Any] | None:
    """What one daemon shows there, or None when it does not answer that."""
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
    """Mean of the exchanges that the daemons counted; None when not all of them tell."""
    told = []
    for path in control_sockets:
        counters = counters_of(path)
        if counters is None or "exchanges" not in counters:
            return None
        told.append(int(counters["exchanges"]))
    return sum(told) / len(told) if told else None


def memory_available_bytes() -> int:
    """What can be used without swapping (proc(5): meminfo)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def commit() -> str:
    """Of the program that is measured; `+changes` when files of it were changed since. Empty outside a repository."""
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
