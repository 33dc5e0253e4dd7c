"""`subord transfer METHOD --socket PATH ...`: the words of a method, and its exit status.

METHOD is `start`, `suspend`, `resume`, `terminate` or `sensor`. The words of a job follow those of `start` as the
batch system has them, so they are not read as options of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from subord.services.transfer.methods import METHODS, REST, SOCKET

USAGE: Final = 2


def main(words: Sequence[str]) -> int:
    """`words`: the method, and what follows it."""
    if len(words) < 3 or words[0] not in METHODS or words[1] != SOCKET:
        method = words[0] if words and words[0] in METHODS else "|".join(METHODS)
        rest = f" {REST[method]}" if REST.get(method) else ""
        line = f"subord: expected `subord transfer {method} {SOCKET} PATH{rest}`; see subord transfer --help"
        print(line, file=sys.stderr)
        return USAGE
    method, path, left = words[0], words[2], words[3:]
    match method:
        case "start":
            from subord.services.transfer.methods import starting

            return starting.start(path, left)
        case "sensor":
            from subord.services.transfer.methods import sensing

            return sensing.sense(path, left, sys.stdin, sys.stdout)
        case _:
            from subord.services.transfer.methods import wanting

            return wanting.want(path, method, left)
