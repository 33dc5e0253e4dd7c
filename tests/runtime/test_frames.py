"""Frames on a stream, as a reader takes them."""

from __future__ import annotations

import time

import trio
import trio.testing

from subord.runtime import frames
from subord.runtime.frames import Frames, frame


class Busy:
    """A stream on which many frames have arrived at once."""

    def __init__(self, count: int) -> None:
        self._data = frame(b"x") * count

    async def receive_some(self, _bytes_max: int) -> bytes:
        await trio.lowlevel.checkpoint()
        data, self._data = self._data, b""
        return data


async def test_frames_that_arrived_together_leave_turns_to_other_tasks() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        reader = Frames(Busy(8))  # type: ignore[arg-type]
        await trio.lowlevel.checkpoint()
        found, begun = 0, 0
        while await reader.next(1) is not None:
            begun = begun or turns
            found += 1
            until = time.monotonic() + frames.TURN_S
            while time.monotonic() < until:
                pass  # what a frame costs on a busy machine
        assert found == 8
        assert turns - begun >= 6
        nursery.cancel_scope.cancel()


async def test_frames_that_are_handled_quickly_need_no_turn() -> None:
    reader = Frames(Busy(100))  # type: ignore[arg-type]
    assert await reader.next(1) == b"x"
    reader._turn_at = trio.current_time() + 1000.0
    with trio.testing.assert_no_checkpoints():
        for _ in range(99):
            assert await reader.next(1) == b"x"
