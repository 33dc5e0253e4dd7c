"""A port for a cluster on one machine: free on all its addresses, and outside the kernel's ephemeral range.

Between the look and the use it is free for others, too, so each worker of the tests has a part of the range.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from random import SystemRandom

FIRST, LAST = 20_000, 30_000  # below ip_local_port_range
WORKERS_MAX = 20


def free_port(kind: socket.SocketKind, *addresses: str) -> int:
    """A port that is free on these IPv4 addresses."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
    ports = range(FIRST, LAST)[worker::WORKERS_MAX]
    while True:
        port = SystemRandom().choice(ports)
        with ExitStack() as stack:
            try:
                for address in addresses:
                    stack.enter_context(socket.socket(socket.AF_INET, kind)).bind((address, port))
            except OSError:
                continue
            return port
