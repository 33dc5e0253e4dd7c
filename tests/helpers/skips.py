"""The summary of skipped tests: the Debian packages that they miss, and the command that installs all.

A reason to skip names packages by ending in `apt-get install PACKAGE...`. Other reasons are listed unchanged.
Where CI is set, such tests fail, and those that need RIGHTS, too (tests/conftest.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

RIGHTS = "neither root nor user namespaces here"
"""The begin of a reason: the test needs rights that whatever runs it can be given."""
_COMMAND = re.compile(r"apt-get install ((?:[a-z0-9][a-z0-9+-]*(?:\.[a-z0-9+-]+)* ?)+)")


def packages(reason: str) -> tuple[str, ...]:
    """The missing packages of a reason, sorted; () if it names none."""
    found = _COMMAND.search(reason)
    return tuple(sorted(found[1].split())) if found else ()


def demand(reason: str) -> str:
    """What CI owes a test that was skipped for a reason; "": the test may be skipped there, too."""
    if packages(reason):
        return "CI must install it"
    return "CI must run as root, or with user namespaces" if RIGHTS in reason else ""


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """The lines for the reasons of the skipped tests; none without a skip."""
    missing: Counter[tuple[str, ...]] = Counter()
    others: Counter[str] = Counter()
    for reason in reasons:
        if found := packages(reason):
            missing[found] += 1
        else:
            others[reason] += 1
    for names, number in missing.most_common():
        yield f"{number:6} need {' '.join(names)}"
    for reason, number in others.most_common():
        yield f"{number:6} {reason}"
    if missing:
        wanted = sorted({name for names in missing for name in names})
        yield f"To run the tests that need packages: apt-get install {' '.join(wanted)}"
