"""The length of a service's own queue, from a file that holds a number or a program that prints one.

The agent runs such a program as root. Invariants: one that other users can change is not run; a file is read at most
to NUMBER_BYTES_MAX, and one that is no regular file is not opened.
"""

from __future__ import annotations

import math
import os
import stat
from typing import Final

from subord.services.metrics.programs import demand_safe
from subord.services.metrics.texts import TextError
from subord.services.shares.actuators.programs import ProgramError, run

RUN_S_MAX: Final = 2.0
NUMBER_BYTES_MAX: Final = 64


class QueueError(Exception):
    """Why the length is not known; follows the path."""


def length_of(path: str) -> float:
    """What is in the queue. Raises QueueError."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)  # not yet opened: that has effects on some devices
        try:
            status = os.fstat(place)
            if not stat.S_ISREG(status.st_mode):
                raise QueueError("is no regular file")
            is_program = bool(status.st_mode & stat.S_IXUSR)
            text = "" if is_program else _begin_of(place)
        finally:
            os.close(place)
    except OSError as error:
        raise QueueError(f"cannot be read: {error.strerror}") from None
    return _number(_printed(path) if is_program else text)


def _begin_of(place: int) -> str:
    """Raises OSError."""
    descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read(NUMBER_BYTES_MAX).decode(errors="replace")


def _printed(path: str) -> str:
    try:
        demand_safe(path)
        return run([path], RUN_S_MAX)
    except (TextError, ProgramError) as error:
        raise QueueError(str(error)) from None


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise QueueError("does not give a number of at least 0")
    return found
