"""What stays in memory after decoding, and how much memory a process holds."""

from __future__ import annotations

import gc
import os
import platform
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path


def kept_bytes(decode: Callable[[bytes], object], datagrams: Iterable[bytes]) -> int:
    """Bytes that Python holds after decoding all of them beyond those before; caches are filled first."""
    heap = list(datagrams)
    for data in heap[: len(heap) // 10]:
        decode(data)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for data in heap:
            decode(data[:1] + data[1:])  # a copy, as every datagram from a socket is
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def resident_mib(process: int | str = "self") -> float:
    """Resident memory of this process or of another one."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def machine() -> dict[str, object]:
    """The machine of a measurement."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
