"""`subord transfer METHOD --socket PATH ...`: the words of a method, and its exit status.

METHOD is `start`, `suspend`, `resume`, `terminate` or `sensor`. The words of a job follow those of `start` as the
batch system has them, so they are not read as options of ours. Invariant: `start` ends with the status of a job only
if the agent has told it; a fault is STATUS_ERROR, and a method that has asked before asks again, because its job may
run elsewhere.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from subord.services import FAULTS
from subord.services.transfer.methods import METHODS, REST, SOCKET
from subord.services.transfer.methods.asked import STATE, state_in

USAGE: Final = 2


def main(words: Sequence[str]) -> int:
    """`words`: the method, and what follows it."""
    if len(words) < 3 or words[0] not in METHODS or words[1] != SOCKET:
        method = words[0] if words and words[0] in METHODS else "|".join(METHODS)
        rest = f" {REST[method]}" if REST.get(method) else ""
        line = f"subord: expected `subord transfer {method} {SOCKET} PATH{rest}`; see subord transfer --help"
        print(line, file=sys.stderr)
        return FAULTS.get(("transfer", method), USAGE)
    method, path, left = words[0], words[2], words[3:]
    match method:
        case "start":
            return _start(path, left)
        case "sensor":
            from subord.services.transfer.methods import sensing

            return sensing.sense(path, left, sys.stdin, sys.stdout)
        case _:
            from subord.services.transfer.methods import wanting

            return wanting.want(path, method, left)


def _start(path: str, words: Sequence[str]) -> int:
    """Such as while files of the program are replaced, or without enough memory."""
    try:
        from subord.services.transfer.methods import starting

        return starting.start(path, words)
    except Exception as error:
        state = state_in(os.environ.get(STATE, ""))
        if state is None:
            raise
        print(f"subord transfer start: {type(error).__name__}: {error}; it asks again", file=sys.stderr, flush=True)
        time.sleep(state.pause)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606
