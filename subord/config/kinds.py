"""Parses elastic.kinds: the kinds of nodes that a cluster can add, with the slots of each.

In: texts such as `small=4`. Out: a map in the same order, the cheapest kind first, or the reason why a text is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from subord.config.source import quoted

NAME: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
SLOTS_MAX: Final = 1_000_000


class KindsError(ValueError):
    """What is wrong with a text, with its verb."""


def kinds_of(texts: Iterable[str]) -> dict[str, int]:
    """Slots by kind. Raises KindsError."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, slots = text.partition("=")
        if not NAME.fullmatch(name) or not slots.isdecimal() or not 1 <= int(slots) <= SLOTS_MAX:
            raise KindsError(f"must be kinds with their slots, such as small=4, not {quoted(text)}")
        if name in found:
            raise KindsError(f"has {quoted(name)} twice")
        found[name] = int(slots)
    return found
