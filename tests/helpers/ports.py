"""A port for a cluster on one machine: free on all its addresses, and outside the kernel's ephemeral range."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from random import SystemRandom

FIRST, LAST = 20_000, 30_000  # below ip_local_port_range


def free_port(kind: socket.SocketKind, *addresses: str) -> int:
    """A port that is free on these IPv4 addresses."""
    while True:
        port = SystemRandom().randrange(FIRST, LAST)
        with ExitStack() as stack:
            try:
                for address in addresses:
                    stack.enter_context(socket.socket(socket.AF_INET, kind)).bind((address, port))
            except OSError:
                continue
            return port
