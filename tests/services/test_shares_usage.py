"""The arithmetic of actuators: weights from tickets, usage from counters, and when a class needs more."""

from __future__ import annotations

from fractions import Fraction

import pytest
from loops import over

from subord.services.shares.actuators.usage import Counters, grown, has_waited, percents, runnable_min
from subord.services.shares.actuators.weights import SHARES, WEIGHT, Scale, weight_of
from subord.services.shares.tickets import TICKETS, TICKETS_OF_MANY

S = 1_000_000_000


# -- weights --------------------------------------------------------------------------------------------------------


@over("scale", [SHARES, WEIGHT])
@over("of", [TICKETS, TICKETS_OF_MANY])
def test_whole_tickets_are_exact_in_proportion(of: int, scale: Scale) -> None:
    one = weight_of(1, of, 1, scale)
    assert one >= scale.low
    assert all(Fraction(weight_of(tickets, of, 1, scale), one) == tickets for tickets in range(1, of))
    assert weight_of(of, of, 1, scale) <= scale.high


@over(
    ("tickets", "groups", "scale", "weight"),
    [
        (60, 1, SHARES, 6000),
        (60, 1, WEIGHT, 600),
        (60, 4, WEIGHT, 150),
        (10, 3, WEIGHT, 33),  # the nearest
        (1, 40, WEIGHT, 1),  # at least what the kernel takes
        (1, 80, SHARES, 2),
    ],
)
def test_the_groups_of_a_class_divide_its_tickets(tickets: int, groups: int, scale: Scale, weight: int) -> None:
    assert weight_of(tickets, TICKETS, groups, scale) == weight


@over(("scale", "unset"), [(SHARES, 1024), (WEIGHT, 100)])
def test_a_group_beside_the_classes_is_not_starved(scale: Scale, unset: int) -> None:
    assert unset / (scale.whole + unset) == pytest.approx(0.09, abs=0.003)


# -- counters -------------------------------------------------------------------------------------------------------


@over(
    ("before", "after", "growth"),
    [
        ((5, 2), (9, 3), (4, 1)),
        ((5, 2), (5, 2), (0, 0)),
        (None, (9, 3), (9, 3)),  # a new group
        ((9, 3), (4, 1), (4, 1)),  # made anew
        ((5, 3), (9, 1), (4, 1)),  # only one counter went back
        ((5, None), (9, 3), (4, None)),  # pressure was switched on meanwhile
        ((5, 2), (9, None), (4, None)),
    ],
)
def test_growth(
    before: tuple[int, int | None] | None, after: tuple[int, int | None], growth: tuple[int, int | None]
) -> None:
    known = {} if before is None else {"group": Counters(*before)}
    assert grown(known, {"group": Counters(*after)}) == {"group": Counters(*growth)}


def test_a_group_that_is_gone_has_not_grown() -> None:
    assert grown({"a": Counters(5), "b": Counters(5)}, {"b": Counters(6)}) == {"b": Counters(1)}


@over(
    ("used", "elapsed_s", "cores", "found"),
    [
        ([1.2, 0.6, 0.2], 1.0, 2, [60, 30, 10]),
        ([0.15, 0.075, 0.025], 1.0, 0.25, [60, 30, 10]),  # of a quarter of a core
        ([0, 0, 0], 1.0, 2, [0, 0, 0]),
        ([1.0, 0, 0], 1.0, 2, [50, 0, 0]),
        ([3.0, 1.0, 0], 1.0, 2, [75, 25, 0]),  # more than there was: scaled to 100
        ([0.03, 0.01, 0], 0.02, 2, [75, 25, 0]),
        ([1.2, 0.6, 0.2], 1e-9, 2, [60, 30, 10]),
    ],
)
def test_percents(used: list[float], elapsed_s: float, cores: float, found: list[float]) -> None:
    given = dict(zip("abc", (round(each * S) for each in used), strict=True))
    got = percents(given, elapsed_s, cores)
    assert list(got.values()) == pytest.approx(found)
    assert sum(got.values()) <= 100 + 1e-9


@over(
    ("waited", "elapsed_s", "found"),
    [(0, 1.0, False), (0.09, 1.0, False), (0.1, 1.0, True), (0.1, 2.0, False), (0.03, 0.3, True)],
)
def test_a_class_that_waits_for_a_tenth_of_the_time_needs_more(waited: float, elapsed_s: float, found: bool) -> None:
    assert has_waited(round(waited * S), elapsed_s) is found


@over(
    ("used", "elapsed_s", "tasks"),
    [(0, 1.0, 1), (0.6, 1.0, 1), (1.0, 1.0, 2), (2.0, 1.0, 3), (0.075, 0.3, 1), (0.3, 0.3, 2)],
)
def test_runnable_tasks_beyond_what_was_used_are_work_left_over(used: float, elapsed_s: float, tasks: int) -> None:
    least = runnable_min(round(used * S), elapsed_s)
    assert tasks - 1 < least <= tasks
