"""Exchanges two names of a directory at once (renameat2(2)), which os.rename cannot.

Inputs are names and the descriptor of their directory. Invariant: at every moment each of the two names has the whole
old directory or the whole new one.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

NOREPLACE: Final = 1
EXCHANGE: Final = 2


def exchange(one: bytes, other: bytes, folder: int) -> None:
    """Each gets what the other one had. Raises OSError."""
    _renameat2(one, other, folder, EXCHANGE)


def rename_new(old: bytes, new: bytes, folder: int) -> None:
    """Rename to a name that nothing has. Raises OSError: FileExistsError if something has it."""
    _renameat2(old, new, folder, NOREPLACE)


def _renameat2(old: bytes, new: bytes, folder: int, flags: int) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(folder, ctypes.c_char_p(old), folder, ctypes.c_char_p(new), ctypes.c_uint(flags)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
