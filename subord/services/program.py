"""The program of a command, which is read before a process starts with it.

Inputs are the words of a command, its directory and its environment; there is no output. The kernel waits for the
program in the start of a process, which cannot be ended before its time. So a file system that hangs is to hang
here, in a look-up (looking.py). Invariant: only what may be executed is opened, so no device and no pipe is.

All functions block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress


def read_start(word: bytes, directory: str, environment: Mapping[bytes, bytes]) -> None:
    """Read the program that a word names, as the start of a process does. The start says what is wrong with it."""
    for path in _candidates(word, os.fsencode(directory), environment):
        with suppress(OSError, ValueError):
            if _is_read(path):
                return


def _candidates(word: bytes, directory: bytes, environment: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """Where the program may be, in the order in which it is looked for."""
    if b"/" in word:
        yield os.path.join(directory, word)
        return
    for each in environment.get(b"PATH", b"").split(b":"):
        yield os.path.join(directory, each, word)


def _is_read(path: bytes) -> bool:
    """Whether it is a program. Raises OSError, ValueError."""
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(found).st_mode
        if not stat.S_ISREG(mode) or not mode & 0o111:
            return False
        with open(f"/proc/self/fd/{found}", "rb", buffering=0) as file:  # the same file, whatever has its name now
            file.read(1)
        return True
    finally:
        os.close(found)
