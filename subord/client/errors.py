"""How a command ends when it does not end well.

Intuition: a user's mistake deserves one sentence, ours deserves a full report. So expected failures are a
CommandError, shown as one line `subord: ...` on standard error; everything else is a bug and keeps its
traceback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable
from typing import Literal, TextIO

from subord.client import exit_codes

WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What `print` meets when the output is a file on a full or broken disk."""


class CommandError(Exception):
    """An expected failure: one plain line that says whose fault it is and what to do, and the exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code


def guarded(work: Callable[[], int]) -> int:
    """Do the work and write out its output; turn every way to fail into an exit code and at most one line.

    A bug is shown with its traceback besides. SystemExit passes: argparse has said what there is to say.
    """
    try:
        return _to_the_end(work)
    except SystemExit:
        raise
    except CommandError as error:
        return _said(str(error), error.exit_code)
    # Outside of trio, and the last handler before the interpreter ends.
    except BaseException as error:  # noqa: ASYNC103
        return _ended(error)  # noqa: ASYNC104


def _to_the_end(work: Callable[[], int]) -> int:
    """The output is flushed here: the interpreter's end would print a warning and choose an exit code of its own."""
    _open_closed_doors()
    try:
        return work()
    finally:
        sys.stdout.flush()


def _open_closed_doors() -> None:
    """Which standard stream the caller closed, commands need not know.

    `print` to a standard error of None would write to standard output, and the next file or socket that is opened
    would get the free descriptor, and with it what is meant for the stream.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets this one: it is the lowest that is free
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")


def _ended(error: BaseException) -> int:
    """The exit code of what no command expects."""
    if _is_only(error, KeyboardInterrupt):
        _drop(sys.stdout)
        return exit_codes.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _drop(sys.stdout)
        return exit_codes.PIPE_CLOSED
    if isinstance(error, OSError) and error.errno in WRITE_ERRORS and error.filename is None:
        _drop(sys.stdout)
        return _said(f"cannot write the output: {error.strerror}", exit_codes.OUTPUT)
    tell("".join(traceback.format_exception(error)), end="")
    whose = f"this is a mistake in subord, not yours ({type(error).__name__})"
    return _said(f"{whose}; please report it with the lines above", exit_codes.INTERNAL)


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error, at once. What it does not take (a full disk, a reader that went away) is lost: there
    is nowhere else to say it, and the exit code shall stay what it is."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _said(line: str, exit_code: int) -> int:
    tell(f"{_priority()}subord: {line}")
    return exit_code


def _priority() -> str:
    """Where systemd's journal reads, a complaint is an error (sd-daemon(3)): `journalctl --priority` shows it."""
    if "JOURNAL_STREAM" not in os.environ:
        return ""
    from subord.runtime.log import journal

    return f"<{journal.ERROR}>" if journal.is_behind(2, os.environ) else ""


def _drop(stream: TextIO) -> None:
    """What is still buffered goes nowhere, so that the interpreter's end has nothing to complain about."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # one without a descriptor
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _is_only(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether it is of that kind, or a trio nursery's group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_only(each, kind) for each in error.exceptions)
    return isinstance(error, kind)
