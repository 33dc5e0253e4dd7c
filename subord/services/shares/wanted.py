"""The shares that an operator wants, as a text: `web=60,batch=30,rest=10`.

Input is the text, and the classes that nodes know; output are the classes with their percents, in the order of the
text. Invariants: percents sum to exactly 100, because they are counted in thousandths; each class stands once; each
wrong text is refused with a sentence that says what to write instead. The caller adds what stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Final, NamedTuple

from subord.config.classes import NAME
from subord.core.carriage.shares.bounds import CLASSES_MAX, THOUSANDTHS
from subord.services.shares.policy import floor_of

TEXT_MAX: Final = CLASSES_MAX * 48
_PERCENT = re.compile(r"\d{1,3}(\.\d{1,3})?", re.ASCII)
_EXAMPLE: Final = "web=60,batch=30,rest=10"
_SHOWN_MAX: Final = 40


class WantedError(ValueError):
    """One sentence without a full stop: what is wrong, and what to write instead."""


class Share(NamedTuple):
    """A class and its part of all nodes together."""

    name: str
    percent: float


def parse(text: str) -> tuple[Share, ...]:
    """The shares of a text. Raises WantedError."""
    if len(text) > TEXT_MAX:
        raise WantedError(f"the shares are a text of {len(text)} characters; at most {TEXT_MAX} are read")
    found: dict[str, int] = {}
    for part in text.split(","):
        name, thousandths = _parsed(part.strip())
        if name in found:
            raise WantedError(f"class {name} stands there twice: give each class one share")
        found[name] = thousandths
    _check(found)
    return tuple(Share(name, thousandths / 1000) for name, thousandths in found.items())


def check_known(shares: Collection[Share], known: Collection[str]) -> None:
    """All shares are of classes that nodes know. Raises WantedError."""
    unknown = [share.name for share in shares if share.name not in known]
    if unknown:
        classes = ", ".join(sorted(known)) or "none"
        raise WantedError(f"no class {', '.join(unknown)} is known: correct the name; known classes: {classes}")


def _parsed(part: str) -> tuple[str, int]:
    name, equals, percent = (each.strip() for each in part.partition("="))
    if not equals:
        raise WantedError(f"{_shown(part)} is no share: write CLASS=PERCENT, such as {_EXAMPLE}")
    if not NAME.fullmatch(name):
        rule = "small letters, digits, `_`, `.` and `-`, at most 32"
        raise WantedError(f"{_shown(name)} is no name of a class: {rule}, a letter or digit first")
    if not _PERCENT.fullmatch(percent):
        rule = "write a number from 0 to 100, with at most 3 decimals and without a sign"
        raise WantedError(f"{_shown(percent)} is no percent for class {name}: {rule}")
    return name, int(Decimal(percent) * 1000)


def _check(found: dict[str, int]) -> None:
    if len(found) > CLASSES_MAX:
        raise WantedError(f"{len(found)} classes are too many: at most {CLASSES_MAX}; put some together")
    if len(found) == 1:
        raise WantedError(f"{next(iter(found))} is the only class: shares divide nodes between two or more")
    total = sum(found.values())
    if total != THOUSANDTHS:
        difference = abs(THOUSANDTHS - total) / 1000
        remedy = f"{difference:g} are missing" if total < THOUSANDTHS else f"{difference:g} are too many"
        raise WantedError(f"the shares sum to {total / 1000:g}, not to 100: {remedy}")
    least = round(floor_of(len(found)), 3)
    for name, thousandths in found.items():
        if thousandths < least * 1000:
            words = f"class {name} has {thousandths / 1000:g} percent, but keeps {least:.3g} on every node"
            raise WantedError(f"{words} (of {len(found)} classes): give it more, or leave it out")


def _shown(text: str) -> str:
    short = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
    return ascii(short) if not short.isprintable() else f'"{short}"'
