"""The end of a command: exit code and message for every failure.

An expected failure is a CommandError, printed as one line `subord: ...` on standard error, with a further line for
each of several faults. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Literal, TextIO

from subord.client import exit_codes

WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errors of `print` when the output is a file on a full or broken disk."""


class CommandError(Exception):
    """An expected failure: one plain line with the cause and the remedy, and the exit code. `faults`: what is wrong,
    if it is more than has room in the line."""

    def __init__(self, message: str, exit_code: int, faults: Iterable[str] = ()) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code
        self.faults = tuple(" ".join(each.split()) for each in faults)


def guarded(work: Callable[[], int]) -> int:
    """Do the work and flush its output; turn every failure into an exit code and its lines.

    A bug also prints its traceback. SystemExit passes: argparse has printed the reason.
    """
    try:
        return _to_the_end(work)
    except SystemExit:
        raise
    except CommandError as error:
        return _failed("\n  ".join((str(error), *error.faults)), error.exit_code)
    # Outside of trio, and the last handler before the interpreter ends.
    except BaseException as error:  # noqa: ASYNC103
        return _unexpected(error)  # noqa: ASYNC104


def _to_the_end(work: Callable[[], int]) -> int:
    """Flushes the output: at its end the interpreter would print a warning and choose its own exit code."""
    _open_closed_streams()
    try:
        return work()
    finally:
        sys.stdout.flush()


def _open_closed_streams() -> None:
    """Opens standard streams that the caller closed.

    `print` to a standard error of None would write to standard output, and the next file or socket that is opened
    would get the free descriptor, and with it what is meant for the stream.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets this descriptor, the lowest free one
    sys.stdin = sys.stdin or _null_stream("r")
    sys.stdout = sys.stdout or _null_stream("w")
    sys.stderr = sys.stderr or _null_stream("w")


def _null_stream(mode: Literal["r", "w"]) -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")


def _unexpected(error: BaseException) -> int:
    """The exit code of an exception that no command expects."""
    if _is_only(error, KeyboardInterrupt):
        _drop(sys.stdout)
        return exit_codes.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _drop(sys.stdout)
        return exit_codes.PIPE_CLOSED
    if isinstance(error, OSError) and error.errno in WRITE_ERRORS and error.filename is None:
        _drop(sys.stdout)
        return _failed(f"cannot write the output: {error.strerror}", exit_codes.OUTPUT)
    to_stderr("".join(traceback.format_exception(error)), end="")
    what = f"this is a bug in subord ({type(error).__name__})"
    return _failed(f"{what}; please report it with the lines above", exit_codes.INTERNAL)


def to_stderr(text: str, end: str = "\n") -> None:
    """Write to standard error at once. A failure (full disk, closed pipe) is ignored and changes no exit code."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _failed(line: str, exit_code: int) -> int:
    to_stderr(f"{_priority()}subord: {line}")
    return exit_code


def _priority() -> str:
    """The prefix that marks an error for systemd's journal (sd-daemon(3)); "" where standard error is no journal."""
    if "JOURNAL_STREAM" not in os.environ:
        return ""
    from subord.runtime.log import journal

    return f"<{journal.ERROR}>" if journal.is_behind(2, os.environ) else ""


def _drop(stream: TextIO) -> None:
    """Discard what is still buffered, so the interpreter reports no error at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # one without a descriptor
        os.dup2(null, stream.fileno())
    os.close(null)


def _is_only(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether the error is of that kind, or a trio nursery's group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_only(each, kind) for each in error.exceptions)
    return isinstance(error, kind)
