"""Reads a scenario file for the simulator and for the lab, with the same error messages.

Only regular files of UTF-8 text up to FILE_BYTES_MAX are read; a device or a pipe is refused without blocking.
"""

from __future__ import annotations

import os
import stat

from subord.sim.scenario import definition
from subord.sim.scenario.definition import FILE_BYTES_MAX, TOO_LONG, Scenario, ScenarioError


def load(path: str | os.PathLike[str]) -> Scenario:
    """The scenario of a file. Raises ScenarioError with the file, the mistake, and that nothing was started."""
    try:
        return definition.read(_text_of(path))
    except ScenarioError as reason:
        raise ScenarioError(f"{os.fspath(path)}: {reason}. Nothing was started.") from None


def _text_of(path: str | os.PathLike[str]) -> str:
    try:
        data = _bytes_of(path)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise ScenarioError(reason) from None
    if len(data) > FILE_BYTES_MAX:
        raise ScenarioError(TOO_LONG)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"line {line} is no text in UTF-8") from None


def _bytes_of(path: str | os.PathLike[str]) -> bytes:
    """At most one byte more than a scenario may have. Raises OSError, and ScenarioError for a device or a pipe."""
    with open(path, "rb", opener=_opened_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ScenarioError("this is no regular file")
        return file.read(FILE_BYTES_MAX + 1)


def _opened_at_once(path: str, flags: int) -> int:
    """Does not wait for a writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)
