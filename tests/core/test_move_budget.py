"""The limit on moves by choice (core/placement/move_budget.py)."""

from __future__ import annotations

from loops import over

from subord.core.placement.move_budget import HOUR_S, MOVES_PER_HOUR_MAX, MoveBudget


@over(
    ("spent_at", "now", "allowed"),
    [
        ([], 0.0, True),
        ([0.0] * (MOVES_PER_HOUR_MAX - 1), 1.0, True),
        ([0.0] * MOVES_PER_HOUR_MAX, 1.0, False),
        ([0.0] * MOVES_PER_HOUR_MAX, HOUR_S - 1, False),
        ([0.0] * MOVES_PER_HOUR_MAX, HOUR_S, True),  # all of them are an hour old
        ([0.0, *[100.0] * (MOVES_PER_HOUR_MAX - 1)], HOUR_S + 1, True),  # one is
        ([100.0] * MOVES_PER_HOUR_MAX, HOUR_S + 1, False),
    ],
)
def test_so_many_moves_in_any_hour(spent_at: list[float], now: float, allowed: bool) -> None:
    budget = MoveBudget()
    for at in spent_at:
        assert budget.allows(at)
        budget.spend(at)
    assert budget.allows(now) is allowed
    assert (budget.moves, budget.held) == (len(spent_at), int(not allowed))


def test_a_query_costs_nothing() -> None:
    budget = MoveBudget()
    assert all(budget.allows(float(second)) for second in range(1000))
    assert (budget.moves, budget.held) == (0, 0)


def test_the_window_is_bounded() -> None:
    budget = MoveBudget()
    for second in range(10 * MOVES_PER_HOUR_MAX):
        budget.spend(float(second))
    assert (budget.moves, len(budget._window._at)) == (10 * MOVES_PER_HOUR_MAX, MOVES_PER_HOUR_MAX)
