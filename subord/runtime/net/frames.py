"""Words on a stream: 4 bytes length, big endian, then MessagePack. Nobody may send more than is asked for.

Intuition: parcels with their weight on the label: who announces a lorry is stopped at the gate.
"""

from __future__ import annotations

import trio

READ_BYTES = 65536
LENGTH_BYTES = 4

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def frame(data: bytes) -> bytes:
    """As it goes over the stream."""
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class Frames:
    """The frames that come out of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def next(self, bytes_max: int) -> bytes | None:
        """None: the stream ended, or it is too long; then no other can be read. Raises BrokenResourceError."""
        buffer = self._buffer
        while len(buffer) < LENGTH_BYTES or len(buffer) < LENGTH_BYTES + self._length():
            if len(buffer) >= LENGTH_BYTES and self._length() > bytes_max:
                return None
            chunk = await self._stream.receive_some(READ_BYTES)
            if not chunk:
                return None
            buffer += chunk
        if self._length() > bytes_max:
            return None
        end = LENGTH_BYTES + self._length()
        found = bytes(buffer[LENGTH_BYTES:end])
        del buffer[:end]
        return found

    @property
    def rest(self) -> bool:
        """Whether something has come already that belongs to the next frame."""
        return bool(self._buffer)

    def _length(self) -> int:
        return int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
