"""Processes that orders concern, found in /proc: what they run, and the most memory that they have held.

A process that has ended holds nothing, and is not found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from netlab.lab import Lab

PROC = Path("/proc")
RESET_PEAK = "5"  # proc(5), clear_refs: the peak is what is resident now


def with_words(words: Sequence[str]) -> list[int]:
    """The processes with exactly these words."""
    wanted = "\0".join((*words, "")).encode()
    return [pid for pid in _pids() if _read(pid, "cmdline") == wanted]


def agents(lab: Lab) -> dict[int, int]:
    """Position -> process of the agents that run."""
    found = {}
    for pid in _pids():
        name = _read(pid, "comm").decode(errors="replace").strip()
        if name.startswith("agent-"):
            with suppress(OSError):
                folder = Path(os.readlink(PROC / str(pid) / "cwd"))
                if folder.parent == lab.directory.node(1).parent:
                    found[int(folder.name)] = pid
    return found


def daemons(lab: Lab) -> dict[int, int]:
    """Position -> process of the daemons that run."""
    return {node["position"]: node["pid"] for node in lab.client.ask("info")["nodes"] if node["pid"] is not None}


def begin_peak(pid: int) -> float:
    """From now on the peak counts anew; what is resident now, MiB."""
    with suppress(OSError):
        (PROC / str(pid) / "clear_refs").write_text(RESET_PEAK)
    return _status_mib(pid, b"VmRSS:")


def peak_mib(pid: int) -> float:
    """The most that was resident since then, or since the process was started."""
    return _status_mib(pid, b"VmHWM:")


def _status_mib(pid: int, name: bytes) -> float:
    for line in _read(pid, "status").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(PROC) if name.isdigit())


def _read(pid: int, file: str) -> bytes:
    try:
        return (PROC / str(pid) / file).read_bytes()
    except OSError:
        return b""


def end(words: Sequence[str]) -> None:
    """Kill what is left of a command with these words."""
    for pid in with_words(words):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
