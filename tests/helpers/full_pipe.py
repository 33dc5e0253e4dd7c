"""A full pipe without a reader."""

from __future__ import annotations

import os
from contextlib import suppress


def full_pipe() -> tuple[int, int]:
    """(reader, writer): the next write blocks."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    return reader, writer
