"""The limits that the checkers demand, stated independently of the core.

A limit read from the core would move together with a fault in the core. So the numbers of docs/protocol.md are
repeated here, and limits that follow from the settings of a scenario are computed here.
"""

from __future__ import annotations

from math import inf, log2

from subord.core.settings import Settings
from subord.core.view import Position

JITTER = 1.1  # of a timer: up to a tenth longer
PATH = 64  # positions of one path (section 6)
ALTERNATES = 16
HINTS = 8
ROWS_OF_A_BEAT = 24
PROVEN_ROWS_OF_A_BEAT = 7  # with key and proof
NEAR_TARGETS, COMMON_TARGETS = 11, 128  # targets of a prober besides the common list
PEERS, OTHER_PEERS = 16, 8  # remembered lower positions, and others that have answered
LIKELY_TARGETS = 2  # lower neighbours that a root probes repeatedly
CALLS = 64
TARGETS_OF_A_ROW = 6
QUESTIONS = 128 + 16  # of a prober; and home, rejoining, a better place
FORMER = 256  # former subordinates
ANSWERS, REFUSALS, STANDINGS, HIDDEN = 64, 64, 1024, 64
DISTANCES = 2 * 64 + 16 * 4 + 8  # known ones, samples of one round, tips
ASKED = 256  # questions with a measured round trip
ROW_PROBES = 24  # of one sample of the rows of a subordinate
UNPROVEN = 64  # rows of one subordinate that were refused in this session
SLOW = 8  # times `answer_s` of the preset: the longest answer timeout
SLOW_ANSWERS = 7  # more unanswered beats with the longest answer timeout
UNANSWERED_BEATS_SPARE = 16  # more unanswered beats while news are pending
LATENCY_RARER = 8  # the search for a nearer leader costs a dozen probes, so it is rarer by this factor
CLASS_OF_ONE, CLASSES_PER_DOUBLING, STAY = 128, 2, 1.55  # classes of performance (docs/mappings.md)
CLASSES = 255


def has_homes(settings: Settings) -> bool:
    """Whether each node has a home: only where ranks never change and no node looks for a nearer leader."""
    return settings.mapping == "ip"


def guest_places(settings: Settings) -> int:
    """The number of guests of a leader: g, without homes p + g."""
    return settings.guest_slots if has_homes(settings) else settings.fanout + settings.guest_slots


def home_slots(settings: Settings, position: Position) -> int:
    """p; but in the paper's numbering level 0 holds p - 1 nodes, which position 1 leads."""
    extra = settings.fanout - 2 if settings.numbering_name == "paper" and position == 1 else 0
    return settings.fanout + extra


def silence_s(settings: Settings) -> float:
    """The longest time from the last message of a neighbour until it is given up.

    A beat comes at most a tenth late, `attempts` answers are waited for, and one more is on its way.
    """
    timing = settings.timing
    return JITTER * timing.beat_interval_s + (timing.attempts + 1) * timing.answer_s


def tables(settings: Settings, position: Position, nodes: int) -> dict[str, float]:
    """The limit of every table of a node in a cluster where `nodes` addresses have had a daemon.

    A flipped bit can name one more address, so `nodes` includes one for each.
    """
    slots = home_slots(settings, position) + settings.guest_slots
    return {
        "subordinates": slots,
        "former": FORMER,
        "questions": QUESTIONS,
        "candidates": COMMON_TARGETS + NEAR_TARGETS + CALLS + 2 * (PEERS + 128 * HINTS) + ALTERNATES,
        "peers": PEERS + OTHER_PEERS,
        "answers": ANSWERS,
        "asked": ASKED,
        "vain_beats": settings.timing.attempts + SLOW_ANSWERS + UNANSWERED_BEATS_SPARE,
        "refusals": REFUSALS,
        "hidden": HIDDEN,
        "row_probes": ROW_PROBES * slots,
        "rows": nodes,
        "claims": nodes * (slots + 1),
        "unreported": nodes + ROWS_OF_A_BEAT,
        "distances": DISTANCES,
        "standings": STANDINGS,
        "unproven": UNPROVEN * slots,
        "pins": 2 * nodes,
    }


def exact_class(jobs: float) -> float:
    """The class of a performance, not rounded; -inf for none."""
    return min(max(log2(jobs) * CLASSES_PER_DOUBLING + CLASS_OF_ONE, 1), CLASSES) if jobs > 0 else -inf


def is_class_of(standing: float, jobs: float) -> bool:
    """Whether a node with this performance may have that class: a class is kept up to STAY classes away."""
    return abs(exact_class(jobs) - standing) <= STAY + 1e-9
