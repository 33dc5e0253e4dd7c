"""The end of a test run: the skipped tests by the Debian packages that they miss, and the command that installs all.

A reason to skip names packages by ending in `apt-get install PACKAGE...`. Any other reason is listed as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

_COMMAND = re.compile(r"apt-get install ((?:[a-z0-9][a-z0-9+-]*(?:\.[a-z0-9+-]+)* ?)+)")


def packages(reason: str) -> tuple[str, ...]:
    """The packages that the skipped test misses, sorted; () if no package would help."""
    found = _COMMAND.search(reason)
    return tuple(sorted(found[1].split())) if found else ()


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """Lines for the end of a run, from the reason of each skipped test; none if nothing was skipped."""
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
