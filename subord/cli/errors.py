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

from subord.cli import exit_codes

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
    try:
        return work()
    finally:
        if sys.stdout is not None:  # None: the caller closed it
            sys.stdout.flush()


def _ended(error: BaseException) -> int:
    """The exit code of what no command expects."""
    if _is_only(error, KeyboardInterrupt):
        _drop_output()
        return exit_codes.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return exit_codes.PIPE_CLOSED
    if isinstance(error, OSError) and error.errno in WRITE_ERRORS and error.filename is None:
        _drop_output()
        return _said(f"cannot write the output: {error.strerror}", exit_codes.OUTPUT)
    traceback.print_exception(error)
    whose = f"this is a mistake in subord, not yours ({type(error).__name__})"
    return _said(f"{whose}; please report it with the lines above", exit_codes.INTERNAL)


def _said(line: str, exit_code: int) -> int:
    print(f"subord: {line}", file=sys.stderr)
    return exit_code


def _drop_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter's end has nothing to complain about."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(AttributeError, OSError):  # no stdout, or one without a descriptor
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _is_only(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether it is of that kind, or a trio nursery's group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_only(each, kind) for each in error.exceptions)
    return isinstance(error, kind)
