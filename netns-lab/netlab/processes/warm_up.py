"""What is done once before the clock starts, so that no daemon pays for it: memory touched, libraries initialised."""

from __future__ import annotations

import contextlib
import mmap
import ssl

from netlab.common.measure import memory_available_bytes

PORTION_MIB = 8  # private memory of a daemon and its page tables
MEMORY_SHARE_MAX = 0.5
PASSES = 4  # hello, hello and certificate, certificate, done


class MemoryPool:
    """Portions of touched memory, invisible for forked copies, freed one by one before a daemon is forked.

    In a virtual machine the host lends a page when it is touched first and takes it back soon after it is freed: 3 s
    a GiB were measured, more than all the work of starting 500 daemons.
    """

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

    def free_portion(self) -> None:
        if self._portions:
            self._portions.pop().close()


def seal() -> None:
    """One handshake and one sealed datagram: two cryptographic libraries initialise 4 MiB at first use.

    The copies share that memory; the keys are thrown away.
    """
    from subord.runtime.security.tls import Tls, certificates_of
    from subord.sealing.keys import keyring_of, new_key
    from subord.sealing.sealer import Sealer

    ring = keyring_of(new_key())
    ends = ("127.0.0.1", 1), ("127.0.0.2", 1)
    sealers = [Sealer(ring, end, 1, bytes(32), 0.0) for end in ends]
    sealers[1].open(sealers[0].seal(bytes(32), ends[1]), ends[0], 0.0)
    _shake_hands(Tls(lambda: certificates_of(ring, "127.0.0.1")))


def _shake_hands(tls: object) -> None:
    contexts = tls.contexts()  # type: ignore[attr-defined]
    (name, client), (server,) = next(iter(contexts.clients.items())), contexts.servers.values()
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(here, there, server_hostname=f"{name}.subord"),
        server.wrap_bio(there, here, server_side=True),
    ]
    for _ in range(PASSES):
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    sides[0].write(bytes(32))
    sides[1].read(32)
