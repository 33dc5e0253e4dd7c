"""Limits that the checkers demand, as numbers of their own.

A limit that is read from the core moves together with a fault in the core. So the numbers of docs/protocol.md are
written here a second time, and what follows from the settings of a scenario is computed here.
"""

from __future__ import annotations

from math import inf, log2

from subord.core.state.settings import Settings
from subord.core.state.view import Position

JITTER = 1.1  # a pause lasts up to a tenth longer
PATH = 64  # positions of one path (section 6)
ALTERNATES = 16
HINTS = 8
ROWS_OF_A_BEAT = 24
NEAR_DOORS, COMMON_DOORS = 11, 128  # that a walk holds besides the common list
PEERS, OTHER_PEERS = 16, 8  # remembered positions below us, and of others that have answered
LIKELY_DOORS = 2  # lower neighbours that a root asks again and again
CALLS = 64
DOORS_OF_A_ROW = 6
QUESTIONS = 128 + 16  # those of a walk; and home, rejoining, a better place
FORMER = 256  # subordinates of the past
ANSWERS, REFUSALS, STANDINGS, HIDDEN = 64, 64, 1024, 64
DISTANCES = 2 * 64 + 16 * 4 + 8  # known ones, samples of one look, tips
ASKED = 256  # questions whose round trips are measured
ROW_PROBES = 24  # of one sample of the rows of a subordinate
SLOW = 8  # times what the preset says: the longest that a question waits where answers take long
SLOW_ANSWERS = 7  # beats more in vain where answers take long
VAIN_BEATS_SPARE = 16  # vain beats while news hurry
LATENCY_RARER = 8  # a look for a nearer leader costs a dozen probes, so it is so much rarer
CLASS_OF_ONE, CLASSES_PER_DOUBLING, STAY = 128, 2, 1.55  # classes of performance (docs/mappings.md)
CLASSES = 255


def home_slots(settings: Settings, position: Position) -> int:
    """p, but for the paper's numbering, whose level 0 holds p - 1 nodes that position 1 leads."""
    extra = settings.fanout - 2 if settings.numbering_name == "paper" and position == 1 else 0
    return settings.fanout + extra


def silence_s(settings: Settings) -> float:
    """The longest time from the last word of a neighbour until it is given up.

    A beat comes at most a tenth late, `attempts` answers are waited for, and one more is on its way.
    """
    timing = settings.timing
    return JITTER * timing.beat_interval_s + (timing.attempts + 1) * timing.answer_s


def tables(settings: Settings, position: Position, nodes: int) -> dict[str, float]:
    """Entries of every table of a node in a cluster where `nodes` addresses have had a daemon.

    A flipped bit can name one more, so `nodes` counts each of them as well.
    """
    slots = home_slots(settings, position) + settings.guest_slots
    return {
        "subordinates": slots,
        "former": FORMER,
        "questions": QUESTIONS,
        "candidates": COMMON_DOORS + NEAR_DOORS + CALLS + 2 * (PEERS + 128 * HINTS) + ALTERNATES,
        "peers": PEERS + OTHER_PEERS,
        "answers": ANSWERS,
        "asked": ASKED,
        "vain_beats": settings.timing.attempts + SLOW_ANSWERS + VAIN_BEATS_SPARE,
        "refusals": REFUSALS,
        "hidden": HIDDEN,
        "row_probes": ROW_PROBES * slots,
        "rows": nodes,
        "claims": nodes * (slots + 1),
        "unreported": nodes + ROWS_OF_A_BEAT,
        "distances": DISTANCES,
        "standings": STANDINGS,
    }


def exact_class(jobs: float) -> float:
    """The class of a performance, not rounded; below the lowest for none."""
    return min(max(log2(jobs) * CLASSES_PER_DOUBLING + CLASS_OF_ONE, 1), CLASSES) if jobs > 0 else -inf


def is_class_of(standing: float, jobs: float) -> bool:
    """May a node with this performance stand by that class? A class is left only when STAY classes away from it."""
    return abs(exact_class(jobs) - standing) <= STAY + 1e-9
