"""JSON lines over a stream socket, the one protocol between the processes of a lab.

A message is a JSON object on a line of at most LINE_BYTES_MAX; everything else is refused.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

LINE_BYTES_MAX = 16 << 20
Message = dict[str, Any]


def encode(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """One end of a connection."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._rest = bytearray()
        self.ended = False

    def fileno(self) -> int:
        return self._stream.fileno()

    def send(self, message: Message) -> None:
        """Raises OSError when the other end is gone."""
        self._stream.sendall(encode(message))

    def receive(self) -> list[Message]:
        """Wait for bytes, return the complete messages among them; `ended` is set at the end of the stream.

        Raises ValueError for a line that is too long or no JSON object.
        """
        try:
            chunk = self._stream.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        self.ended = not chunk
        self._rest += chunk
        if b"\n" not in chunk:
            if len(self._rest) > LINE_BYTES_MAX:
                raise ValueError("line too long")
            return []
        *complete, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        messages = list(map(json.loads, complete))
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("not a JSON object")
        return messages

    def __iter__(self) -> Iterator[Message]:
        """Messages until the other end closes."""
        while not self.ended:
            yield from self.receive()

    def ask(self, message: Message) -> Message | None:
        """The answer to this message; None when the other end is gone (`ended`), or silent for the time of the
        stream."""
        try:
            self.send(message)
            return next(iter(self), None)
        except TimeoutError:
            return None
        except OSError:
            self.ended = True
            return None

    def close(self) -> None:
        self._stream.close()
