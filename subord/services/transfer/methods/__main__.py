"""`python -m subord.services.transfer.methods METHOD --socket PATH ...`: the words of a method, and its exit status.

METHOD is `start`, `suspend`, `resume`, `terminate` or `sensor`. The words of a job follow those of `start` as the
batch system has them, so they are not read as options of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from subord.services.transfer.methods import METHODS, SOCKET

USAGE: Final = 2


def main(words: Sequence[str]) -> int:
    if len(words) < 3 or words[0] not in METHODS or words[1] != SOCKET:
        print(f"subord transfer: expected {'|'.join(METHODS)} {SOCKET} PATH ...", file=sys.stderr)
        return USAGE
    method, path, rest = words[0], words[2], words[3:]
    match method:
        case "start":
            from subord.services.transfer.methods import starting

            return starting.start(path, rest)
        case "sensor":
            from subord.services.transfer.methods import sensing

            return sensing.sense(path, rest, sys.stdin, sys.stdout)
        case _:
            from subord.services.transfer.methods import wanting

            return wanting.want(path, method, rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
