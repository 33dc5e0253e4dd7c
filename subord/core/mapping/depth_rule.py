"""When a guest moves to a place nearer the root (docs/protocol.md, section 2, rule 5).

Inputs are the root's advice and the guest's level; output is a proposal or none. Depth counts for the last node of
the party, against a full tree of all nodes (vacancies/vacancies.py): in a dense tree no node moves. Without a free
place above, a guest asks a full leader to exchange a party at most half as large. Each exchange shortens more paths
than it lengthens, so exchanges end.
"""

from __future__ import annotations

from subord.core.messages import Advice, Wish
from subord.core.view import Position

LIGHTER = 2  # the party that gives way is so many times smaller
VAIN_LOOKS_MAX = 6  # short rests in a row for a guest that stands too deep
GAIN_MIN = 2  # levels; the next move could undo a gain of one
OFF_MIN = 2  # levels: where ranks follow classes, a node that stands so far off moves without a change of its class
LOW_FANOUT = 4  # below it a level holds so few that one level more does not matter


def better_place(advice: Advice, level: int) -> tuple[Position, Wish] | None:
    """The leader and wish to propose for a guest on `level`; None: stay."""
    if not is_too_deep(advice, level):
        return None
    for hint, its_level in zip(advice.hints, advice.levels, strict=False):
        if its_level + 1 <= max(advice.wanted, level - GAIN_MIN):
            return hint, Wish.GUEST
    if advice.swap and advice.swap_level + 1 <= level - GAIN_MIN:
        return advice.swap, Wish.SWAP
    return None


def is_too_deep(advice: Advice, level: int) -> bool:
    """Whether a guest on `level` stands below the level where it belongs."""
    return 0 < advice.wanted < level


def is_light(nodes: int, other_nodes: int) -> bool:
    """Whether a party of `nodes` gives way to one of `other_nodes`."""
    return LIGHTER * nodes <= other_nodes


def off_min(fanout: int) -> int:
    """How many levels off a node may not stand, where ranks follow classes."""
    return OFF_MIN + (fanout < LOW_FANOUT)
