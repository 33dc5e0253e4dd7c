"""Frames on a stream: 4 bytes length, big endian, then the content. The reader sets the largest length it accepts.

Several tasks may send on one stream; each frame is sent whole, or the stream is closed.
"""

from __future__ import annotations

from contextlib import suppress

import trio

READ_BYTES = 65536
LENGTH_BYTES = 4
SEND_S_MAX = 3.0
TURN_S = 0.01  # frames that have arrived together are handled so long, then other tasks and timers have a turn

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def frame(data: bytes) -> bytes:
    """`data` with its length in front."""
    return b"".join(_framed(data))


def _framed(data: bytes) -> tuple[bytes, bytes]:
    return len(data).to_bytes(LENGTH_BYTES, "big"), data


class Sender:
    """Sends the frames of one stream. `peer`: the address of the other side."""

    def __init__(self, stream: Stream, peer: str) -> None:
        self.peer = peer
        self.stream = stream
        self._lock = trio.Lock()

    async def send(self, *frames: bytes) -> None:
        """Send frames within SEND_S_MAX, else close the stream: a partial frame cannot be resumed."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            with trio.move_on_after(SEND_S_MAX):
                await self._acquire()
                try:
                    await self.stream.send_all(b"".join(piece for each in frames for piece in _framed(each)))
                finally:
                    self._lock.release()
                return
        await trio.aclose_forcefully(self.stream)

    async def _acquire(self) -> None:
        """The lock; without a turn of the event loop if it is free."""
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()


class Frames:
    """Reads the frames of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._turn_at = trio.current_time()

    async def next(self, bytes_max: int) -> bytes | None:
        """The next frame; None: the stream ended, or the frame is too long, and no further frame can be read.

        Raises trio.BrokenResourceError.
        """
        buffer = self._buffer
        while len(buffer) < LENGTH_BYTES or len(buffer) < LENGTH_BYTES + self._length():
            if len(buffer) >= LENGTH_BYTES and self._length() > bytes_max:
                return None
            chunk = await self._stream.receive_some(READ_BYTES)
            if not chunk:
                return None
            buffer += chunk
            self._turn_at = trio.current_time()
        if self._length() > bytes_max:
            return None
        if trio.current_time() - self._turn_at > TURN_S:
            await trio.lowlevel.checkpoint()
            self._turn_at = trio.current_time()
        end = LENGTH_BYTES + self._length()
        with memoryview(buffer) as whole:
            found = bytes(whole[LENGTH_BYTES:end])
        del buffer[:end]
        return found

    @property
    def rest(self) -> bool:
        """Whether bytes of the next frame have already arrived."""
        return bool(self._buffer)

    def _length(self) -> int:
        return int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
