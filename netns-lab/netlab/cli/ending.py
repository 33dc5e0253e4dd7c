"""How a command of the lab ends: its own exit code, or one for what is expected to go wrong.

Exit codes: 0 done; 1 not, with one line why; 130 Ctrl-C; 141 the reader of the output went away.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, TextIO

from netlab.errors import LabError

PIPE_CLOSED = 141  # 128 + SIGPIPE, as `subord` does


def exit_code(call: Callable[[], int]) -> int:
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    try:
        return _called(call)
    except BrokenPipeError:
        if not (gone := [stream for stream in (sys.stdout, sys.stderr) if _is_reader_gone(stream)]):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:  # drop what is still buffered
            os.dup2(nowhere, stream.fileno())
        return PIPE_CLOSED


def _called(call: Callable[[], int]) -> int:
    try:
        code = call()
        sys.stdout.flush()
    except LabError as reason:
        print(f"\n{reason}" if sys.stderr.isatty() else str(reason), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; everything the lab had made is gone.", file=sys.stderr)
        return 130
    return code


def _is_reader_gone(stream: TextIO) -> bool:
    """Of a pipe; anything else has no reader that could go."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(what & select.POLLERR for _, what in poll.poll(0))


def _terminated(number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does: by way of every `with` and `finally`."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
