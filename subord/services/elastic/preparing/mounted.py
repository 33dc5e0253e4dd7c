"""What is mounted where on this machine, as /proc/self/mountinfo says. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Mounted(NamedTuple):
    """`source`: of NFS HOST:PATH. `kind`: of file system."""

    source: str
    kind: str
    is_read_only: bool


def read(mountinfo: str) -> dict[str, Mounted]:
    """By directory. Of those that hide each other the last one counts: that is what users see."""
    found: dict[str, Mounted] = {}
    for line in mountinfo.splitlines():
        words = line.split(" ")
        if "-" not in words[6:]:
            continue
        first = words.index("-", 6) + 1
        kind, source, of_system = (*words[first:], "", "", "")[:3]
        is_read_only = "ro" in (*words[5].split(","), *of_system.split(","))
        found[_plain(words[4])] = Mounted(_plain(source), kind, is_read_only)
    return found


def _plain(word: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)
