"""How many connections a listener takes before other tasks have their turn."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio

from subord.runtime.net.listening import ACCEPTED_MAX, Listener

WAITING = ACCEPTED_MAX + 4


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """With connections that wait."""
    with socket.create_server(("127.0.0.1", 0), backlog=WAITING) as listening:
        clients = [socket.create_connection(listening.getsockname()) for _ in range(WAITING)]
        yield listening
        for each in clients:
            each.close()


async def taken_at_once(listener: Listener) -> int:
    """The first, and those that come without a checkpoint, where cancellation would be noticed."""
    count = 1
    await trio.aclose_forcefully(await listener.accept())
    with trio.CancelScope() as scope:
        scope.cancel()
        while True:
            stream = await listener.accept()
            stream.socket.close()
            count += 1
    return count


async def test_others_have_their_turn_after_a_number_of_connections(sock: socket.socket) -> None:
    async with Listener(sock) as listener:
        assert await taken_at_once(listener) == ACCEPTED_MAX
        assert await taken_at_once(listener) == WAITING - ACCEPTED_MAX


async def test_without_room_they_have_it_after_each(sock: socket.socket) -> None:
    async with Listener(sock, lambda: False) as listener:
        assert [await taken_at_once(listener) for _ in range(WAITING)] == [1] * WAITING


async def test_one_that_is_closed_takes_no_more(sock: socket.socket) -> None:
    listener = Listener(sock)
    await trio.aclose_forcefully(await listener.accept())
    await listener.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await listener.accept()
