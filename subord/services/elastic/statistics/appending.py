"""The file that lines of statistics are appended to, by one command or several at once, each line once.

Inputs are the path and lines; output is how many were new. Invariants: a file that is not of statistics is not
changed; after a failure the file has its whole lines, and no part of another. What a broken machine has cut off goes
with the next line, and the line comes again if its poll is still known.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from subord.services.elastic.statistics import Statistics, read

TAIL_BYTES: Final = 1 << 20
"""What new lines are compared with: more than the lines of all polls that a daemon keeps."""
READ_BYTES: Final = 16 << 20
"""What pictures are made of: half a year of polls each minute."""
_HEAD_BYTES: Final = 256
_MODE: Final = 0o666  # less the umask
_CUT: Final = re.compile(r"[-0-9 :,.\0]*")
"""What the beginning of a line can have; zeros are what some file systems leave of it when the power fails."""


class NotStatisticsError(ValueError):
    """The file has other content; the text is where it begins."""


def append(path: str, rows: Sequence[Statistics]) -> int:
    """Makes the file if it is not there. Raises OSError, NotStatisticsError: nothing was appended."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return _append(file, [each.line() for each in rows])


def last_rows(path: str) -> list[Statistics]:
    """Those of the last READ_BYTES. Raises OSError."""
    with _opened(path, os.O_RDONLY) as file:
        return read(_last(file, READ_BYTES).decode(errors="replace"))


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """Does not wait for the other end of a pipe."""
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, _MODE)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        yield file
    finally:
        os.close(file)


def _append(file: int, lines: Sequence[str]) -> int:
    _check_head(os.pread(file, _HEAD_BYTES, 0).decode(errors="replace"))
    tail = _last(file, TAIL_BYTES)
    cut = tail[tail.rfind(b"\n") + 1 :]
    known = {line.decode(errors="replace") for line in tail.splitlines(keepends=True)}
    keep, start = os.fstat(file).st_size - len(cut), ""
    if _is_whole(cut):  # only its end is missing
        keep, start = keep + len(cut), "\n"
        known.add(f"{cut.decode()}\n")
    fresh = [line for line in dict.fromkeys(lines) if line not in known]
    if fresh:
        _write(file, keep, (start + "".join(fresh)).encode())
    return len(fresh)


def _check_head(head: str) -> None:
    line, end, _ = head.partition("\n")
    if not (read(line) if end else _is_whole(line.encode()) or _CUT.fullmatch(line)):
        raise NotStatisticsError(line[:60])


def _is_whole(line: bytes) -> bool:
    text = line.decode(errors="replace")
    return any(each.line() == f"{text}\n" for each in read(text))


def _last(file: int, size: int) -> bytes:
    there = os.fstat(file).st_size
    return os.pread(file, size, max(0, there - size))


def _write(file: int, keep: int, content: bytes) -> None:
    """After `keep` bytes. With fsync, because some file systems tell only then that there is no room."""
    try:
        os.ftruncate(file, keep)
        written = 0
        while written < len(content):
            written += os.pwrite(file, content[written:], keep + written)
        os.fsync(file)
    except OSError:
        os.ftruncate(file, keep)
        raise
