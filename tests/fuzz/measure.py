"""What stays in memory, and how much memory the process holds.

Intuition: weigh the letter box before the post comes and after it was thrown away; a letter that somebody kept
is on the scales.
"""

from __future__ import annotations

import gc
import os
import platform
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path


def kept_bytes(decode: Callable[[bytes], object], datagrams: Iterable[bytes]) -> int:
    """Bytes that Python holds more after decoding all of them than before; caches are filled first."""
    heap = list(datagrams)
    for data in heap[: len(heap) // 10]:
        decode(data)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for data in heap:
            decode(data[:1] + data[1:])  # a copy, as every datagram from a socket is one
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def resident_mib(process: int | str = "self") -> float:
    """Memory in RAM, of this process or of another one."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def machine() -> dict[str, object]:
    """What it ran on."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
