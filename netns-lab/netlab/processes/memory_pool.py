"""Memory that is used once before the clock starts, and handed to the daemons one by one.

Intuition: warming the plates. In a virtual machine the host lends a page when it is touched first and takes it back
soon after it is freed: 3 s a GiB were measured, more than all the work of starting 500 daemons. So the pages
are touched beforehand, held, and let go only when the next daemon is about to need them.
"""

from __future__ import annotations

import mmap

from netlab.common.measure import memory_available_bytes

PORTION_MIB = 8  # private memory of a daemon and its page tables
MEMORY_SHARE_MAX = 0.5


class Reserve:
    """Portions of touched memory, invisible for forked copies."""

    def __init__(self) -> None:
        self._portions: list[mmap.mmap] = []

    def fill(self, portions: int) -> int:
        """Touch so many portions, or as many as fit into half of the memory that is free; MiB held."""
        fitting = int(memory_available_bytes() * MEMORY_SHARE_MAX) // (PORTION_MIB << 20)
        for _ in range(min(portions, fitting)):
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
            portion = mmap.mmap(-1, PORTION_MIB << 20, flags=flags)
            portion.madvise(mmap.MADV_DONTFORK)
            self._portions.append(portion)
        return len(self._portions) * PORTION_MIB

    def let_go(self) -> None:
        """Free one portion, for whoever is started next."""
        if self._portions:
            self._portions.pop().close()
