"""Requests of rtnetlink, put together byte by byte where many or unusual ones are sent (rtnetlink(7))."""

from __future__ import annotations

import struct


def request(kind: int, flags: int, body: bytes) -> bytes:
    """A request to the kernel; `flags` beside NLM_F_REQUEST."""
    return struct.pack("=IHHII", 16 + len(body), kind, 0x1 | flags, 0, 0) + body


def attribute(kind: int, content: bytes) -> bytes:
    """Padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def error_of(answer: bytes) -> int:
    """The errno of an answer; 0: an acknowledgement."""
    (code,) = struct.unpack_from("=i", answer, 16)
    return -int(code)
