"""What of a command's output is held while it runs, and what goes to the disk.

Inputs are pieces of two streams; outputs are the two parts of a result. Held are the first and the last bytes of
each, as many as a result has room for. When both have more, all of it goes to the disk of the node (kept.py).
Invariant: memory does not grow with the output.
"""

from __future__ import annotations

from typing import Final

import trio

from subord.services.exec.kept import Sink
from subord.services.exec.outcome import Held, Part, fitted

READ_BYTES: Final = 65_536


class _Stream:
    """One stream. `tail`: the last bytes of those that came after `head`."""

    def __init__(self, sink: Sink, bytes_max: int) -> None:
        self.sink = sink
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._bytes_max = bytes_max

    def hold(self, data: bytes) -> None:
        self.size += len(data)
        room = self._bytes_max - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._tail += data[room:]
            del self._tail[: -self._bytes_max or None]

    @property
    def held(self) -> Held:
        return Held(bytes(self._head), bytes(self._tail), self.size)


class Output:
    """Both streams of one command."""

    def __init__(self, output: Sink, errors: Sink, bytes_max: int, *, keeps_all: bool) -> None:
        self._streams = (_Stream(output, bytes_max), _Stream(errors, bytes_max))
        self._bytes_max = bytes_max
        self._room = 0 if keeps_all else bytes_max
        self._is_kept = False
        self._turn = trio.Lock()

    async def read(self, pipe: trio.abc.ReceiveStream, number: int) -> None:
        """Take all of a stream, 0 or 1. The disk is waited for, so a slow one slows the command down."""
        async with pipe:
            while data := bytes(await pipe.receive_some(READ_BYTES)):
                async with self._turn:
                    await self._take(self._streams[number], data)

    async def _take(self, stream: _Stream, data: bytes) -> None:
        """What came before the output had no room is in the heads."""
        if not self._is_kept and sum(each.size for each in self._streams) + len(data) > self._room:
            self._is_kept = True
            for each in self._streams:
                await trio.to_thread.run_sync(each.sink.write, each.held.head)
        if self._is_kept and stream.sink.is_whole:
            await trio.to_thread.run_sync(stream.sink.write, data)
        stream.hold(data)

    def close(self) -> None:
        for each in self._streams:
            each.sink.close()

    @property
    def is_kept(self) -> bool:
        """Whether the whole output is on the disk."""
        return self._is_kept and all(each.sink.is_whole for each in self._streams)

    def parts(self) -> tuple[Part, Part]:
        output, errors = self._streams
        return fitted(output.held, errors.held, self._bytes_max)
