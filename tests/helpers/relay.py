"""Relays TCP connections out of a network namespace over a Unix socket, which belongs to no network.

The nodes of the lab have no access to other networks. One relay inside and one outside connect a browser to a node:

    python relay.py unix:/tmp/hatch tcp:10.0.0.4:9717     inside
    python relay.py tcp:127.0.0.1:0 unix:/tmp/hatch       outside; the port is the first line that it prints
"""

from __future__ import annotations

import os
import sys
from functools import partial

import trio

PIECE_BYTES = 65536


async def connect(where: str) -> trio.SocketStream:
    kind, _, address = where.partition(":")
    if kind == "unix":
        return await trio.open_unix_socket(address)
    host, _, port = address.rpartition(":")
    return await trio.open_tcp_stream(host.strip("[]"), int(port))


async def listen(where: str) -> trio.SocketListener:
    kind, _, address = where.partition(":")
    if kind == "unix":
        sock = trio.socket.socket(trio.socket.AF_UNIX)
        await sock.bind(address)
        sock.listen(64)
        return trio.SocketListener(sock)
    host, _, port = address.rpartition(":")
    (listener,) = await trio.open_tcp_listeners(int(port), host=host)
    return listener


async def pour(source: trio.SocketStream, target: trio.SocketStream) -> None:
    """Copy until the source ends."""
    async for piece in source:
        await target.send_all(piece)
    await target.send_eof()


async def hand_on(target: str, caller: trio.SocketStream) -> None:
    """Copy in both directions until both have ended or one is broken."""
    try:
        async with await connect(target) as called, trio.open_nursery() as nursery:
            nursery.start_soon(pour, caller, called)
            nursery.start_soon(pour, called, caller)
    except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the caller notices the end


async def main(here: str, there: str) -> None:
    listener = await listen(here)
    name = listener.socket.getsockname()
    print(name if isinstance(name, str) else name[1], flush=True)
    await trio.serve_listeners(partial(hand_on, there), [listener])


if __name__ == "__main__":
    os.umask(0o077)
    trio.run(main, *sys.argv[1:])
