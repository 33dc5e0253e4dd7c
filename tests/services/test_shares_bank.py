"""The bank algorithm: each step by hand, a whole round by hand, and what holds for all reports."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.carriage.shares.interface import Branch, Decision
from subord.services.shares.bank import Bank, balanced, deposited, initial, normal, reward_of
from subord.services.shares.policy import floor_of, weights_of

WANTED = (60.0, 30.0, 10.0)
ACCOUNTS = (0.0, 0.0, 0.0)
ALL = (True, True, True)
NOT_THIRD = (True, True, False)
EXAMPLE = [Branch(WANTED, (70.0, 30.0, 0.0), NOT_THIRD, 1)] * 3 + [Branch(WANTED, (60.0, 30.0, 10.0), ALL, 1)]
"""Class 3 on the last of four nodes, as in figure 3 of the paper."""


def step(decision: Decision, word: str) -> tuple[list[list[float]], list[float]]:
    (found,) = [each for each in decision.steps if each.word == word]
    return [list(column) for column in found.columns], list(found.totals)


# -- the steps ------------------------------------------------------------------------------------------------------


@over(
    ("allocation", "usage", "needy", "weights", "deposits"),
    [
        ((60, 60), (40, 60), (False, False), (1, 1), [20, 0]),
        ((60, 60), (40, 40), (True, False), (1, 1), [0, 20]),  # A2: the shortfall of a needy class is chance
        ((60, 60), (70, 50), (False, False), (1, 1), [0, 10]),  # one node's surplus is no debt of the other
        ((60, 60), (40, 50), (False, False), (1.5, 0.5), [30, 5]),
        ((60, 60), (40, 40), (0.1, 0), (1, 1), [0, 20]),  # A10: the leader of the first branch gives it to its needy
    ],
)
def test_step_1_deposits(allocation: object, usage: object, needy: object, weights: object, deposits: object) -> None:
    assert deposited(allocation, usage, needy, weights) == deposits  # type: ignore[arg-type]


def test_step_2_a_little_more_or_less_than_was_used() -> None:
    assert initial((40, 40, 2.5, 0, 0), (True, False, False, False, True), 2, 1) == [42, 38, 1, 1, 2]


def test_step_2_gives_a_branch_the_needy_part_of_it() -> None:
    """A10: 2 tickets for its needy node, not for each of its four."""
    assert initial((40, 40, 40), (1, 0.25, 0), 2, 1) == [42, 40.5, 38]


@over(
    ("want", "needy", "weights", "total", "found"),
    [
        ([41, 21], (True, True), (1, 1), 62, [41, 21]),
        ([41, 21], (True, False), (1, 1), 32, [21, 11]),  # half of the 60 above the floor
        ([41, 21], (True, False), (1.5, 0.5), 37, [21, 11]),  # half of 1.5 * 40 + 0.5 * 20
        ([41, 1], (True, False), (1, 1), 1, [1, 1]),  # never below the floor
        ([40, 20, 1], (True, True, False), (1, 1, 1), 81, [50, 30, 1]),
        ([40, 20], (1, 0.25), (1, 1), 85, [52.5, 32.5]),  # A10: whole branches
        ([40, 20], (True, True), (1.5, 0.5), 90, [50, 30]),
        ([90, 20], (True, True), (1, 1), 180, [100, 55]),  # A4: the cap is 100
        ([40, 20], (False, False), (1, 1), 80, [40, 20]),  # no needy branch
        ([102, 40], (True, False), (1, 1), 200, [102, 40]),  # a cap takes nothing away
    ],
)
def test_step_3_brings_the_total_to_the_wanted_one(
    want: list[float], needy: tuple[bool, ...], weights: tuple[float, ...], total: float, found: list[float]
) -> None:
    assert balanced(want, needy, weights, total, 1) == pytest.approx(found)


@over(
    ("account", "needy", "weights", "reward"),
    [
        (30, (True, True, False), (1, 1, 1), 15),
        (30, (1, 0.25, 0), (1, 1, 1), 15),  # A10: a reward counts whole branches
        (30, (True, False), (1.5, 0.5), 20),  # A6: 20 on each node of the larger branch are 30
        (30, (False, False), (1, 1), 0),
        (-30, (True, True), (1, 1), 0),
    ],
)
def test_step_5_rewards_needy_branches(
    account: float, needy: tuple[bool, ...], weights: tuple[float, ...], reward: float
) -> None:
    assert reward_of(account, needy, weights) == reward


@over(
    ("row", "found"),
    [
        ((60, 30, 10), [60, 30, 10]),
        ((120, 60, 20), [60, 30, 10]),
        ((60, 30, 1), [66, 33, 1]),  # what is at the floor stays there
        ((200, 97, 3), [66.66667, 32.33333, 1]),
        ((400, 150, 2), [72, 27, 1]),  # raised to the floor: 2 of 552 would be 0.4
        ((40, 1, 1), [98, 1, 1]),
        ((1, 1, 1), [60, 30, 10]),  # no class does anything
    ],
)
def test_step_6_rows_sum_to_100(row: tuple[float, ...], found: list[float]) -> None:
    assert normal(row, 1, WANTED) == pytest.approx(found)


# -- a whole round --------------------------------------------------------------------------------------------------


def test_the_example_of_the_paper_by_hand() -> None:
    """Class 1: 278 tickets of 240, 38 of the 274 above the floors go. Class 3: 15 of 40, and 30 in the bank."""
    decision = Bank().decide(EXAMPLE, WANTED, ACCOUNTS)
    assert step(decision, "deposit") == ([[0] * 4, [0] * 4, [10, 10, 10, 0]], [0, 0, 30])
    assert step(decision, "want") == ([[72, 72, 72, 62], [32] * 4, [1, 1, 1, 12]], [278, 128, 15])
    corrections, totals = step(decision, "correction")
    assert corrections[0] == pytest.approx([-9.84672, -9.84672, -9.84672, -8.45985], abs=1e-5)
    assert corrections[1:] == [pytest.approx([-2] * 4), [0, 0, 0, 25]]
    assert totals == pytest.approx([-38, -8, 25])
    assert step(decision, "withdrawal")[1] == pytest.approx([0, 0, 0])
    assert step(decision, "reward") == ([[0] * 4, [0] * 4, [0, 0, 0, 30]], [0, 0, 30])
    assert decision.rows[:3] == [pytest.approx([66.7711, 32.2289, 1], abs=1e-4)] * 3
    assert decision.rows[3] == pytest.approx([35.5654, 19.9283, 44.5064], abs=1e-4)
    assert decision.accounts == [0, 0, 0]


def test_step_4_and_keep() -> None:
    """A class without a needy branch: 60 deposited, 2 * 10 wanted and 2 set, so 18 more, and 7 from before."""
    idle = Branch((60, 10, 30), (70, 30, 0), (True, True, False), 1)
    branches, wanted, accounts = [idle, idle], (60.0, 30.0, 10.0), (0.0, 0.0, 7.0)
    assert Bank().decide(branches, wanted, accounts).accounts == [0, 0, 0]
    kept = Bank(keep=1.0).decide(branches, wanted, accounts)
    assert step(kept, "withdrawal")[1][2] == pytest.approx(-18)
    assert kept.accounts[2] == pytest.approx(7 + 60 + 18)
    assert Bank(keep=0.5).decide(branches, wanted, accounts).accounts[2] == pytest.approx(42.5)


def test_an_account_may_become_negative() -> None:
    """Floors: 2 tickets are set for a class that is wanted with 1."""
    branches = [Branch((98, 2), (100, 0), (True, False), 1)] * 2
    decision = Bank(keep=1.0).decide(branches, (99.5, 0.5), (0.0, -4.0))
    assert decision.accounts[1] == pytest.approx(-4 + 4 - 1)


def test_a_class_that_returns_is_back_after_one_round() -> None:
    nodes = [Branch((1, 74, 25), (1, 74, 25), ALL, 1)] * 4
    assert Bank().decide(nodes, WANTED, ACCOUNTS).rows == [pytest.approx(WANTED)] * 4


@pytest.mark.parametrize("classes", [3, 10, 20, 126])
def test_a_class_on_few_nodes_keeps_its_share_among_many_classes(classes: int) -> None:
    """A9: the last class has work on 3 of 10 nodes, all others everywhere; nodes serve exactly."""
    wanted = [90 / (classes - 1)] * (classes - 1) + [10.0]
    needy = [(True,) * (classes - 1) + (place < 3,) for place in range(10)]
    rows: Sequence[Sequence[float]] = [wanted] * 10
    for _ in range(30):
        found = [
            [
                share / (1 if of[-1] else 1 - row[-1] / 100) if each else 0.0
                for share, each in zip(row, of, strict=True)
            ]
            for row, of in zip(rows, needy, strict=True)
        ]
        branches = [Branch(*each, 1) for each in zip(rows, found, needy, strict=True)]
        rows = Bank().decide(branches, wanted, [0.0] * classes).rows
    assert sum(row[-1] for row in rows[:3]) / 10 == pytest.approx(10, abs=1)


# -- what holds for all reports -------------------------------------------------------------------------------------


Case = tuple[list[Branch], list[float], list[float]]


def drawn(seed: int) -> Case:
    """Branches, wanted shares, accounts. Of one seed, because hypothesis takes long to draw so many numbers."""
    rng = Random(seed)
    classes = rng.choice([2, 2, 3, 3, 5, 51, 126])

    def row() -> list[float]:
        parts = [rng.choice([0, 0, 1, rng.randrange(50)]) for _ in range(classes)]
        return [100 * part / (sum(parts) or 1) for part in parts]

    def branch() -> Branch:
        used = [each * rng.choice([0, 0.5, 1]) for each in row()]
        nodes = rng.randint(1, 40)
        return Branch(row(), used, [rng.choice([0, rng.randint(0, nodes) / nodes, 1]) for _ in used], nodes)

    floor = floor_of(classes)
    wanted = [floor + each * (100 - classes * floor) / 100 for each in row()]
    wanted[0] += 100 - sum(wanted)
    accounts = [float(rng.randint(-200, 200)) for _ in wanted]
    return [branch() for _ in range(rng.randint(1, 4))], wanted, accounts


CASES = st.integers(0, 2**32).map(drawn)


@given(CASES)
def test_rows_sum_to_100_and_keep_the_floor(case: Case) -> None:
    branches, wanted, accounts = case
    decision = Bank().decide(branches, wanted, accounts)
    floor = floor_of(len(wanted))
    assert len(decision.rows) == len(branches)
    for row in decision.rows:
        assert sum(row) == pytest.approx(100)
        assert min(row) >= floor - 1e-9


@given(CASES)
def test_no_ticket_of_an_account_is_lost(case: Case) -> None:
    branches, wanted, accounts = case
    decision = Bank(keep=1.0).decide(branches, wanted, accounts)
    deposits, withdrawals, rewards = (step(decision, word)[1] for word in ("deposit", "withdrawal", "reward"))
    for place, before in enumerate(accounts):
        after = before + deposits[place] - withdrawals[place] - rewards[place]
        assert decision.accounts[place] == pytest.approx(after, abs=1e-6)


@given(CASES)
def test_a_branch_of_two_nodes_is_two_equal_nodes(case: Case) -> None:
    branches, wanted, _ = case
    accounts = [0.0] * len(wanted)
    first = branches[0]
    apart = [first, first, *branches[1:]]
    together = [first._replace(nodes=2 * first.nodes), *branches[1:]]
    found, expected = (Bank().decide(each, wanted, accounts).rows for each in (together, apart))
    assert found[0] == pytest.approx(expected[0], abs=1e-6)
    assert found[1:] == [pytest.approx(row, abs=1e-6) for row in expected[2:]]


# -- nonsense -------------------------------------------------------------------------------------------------------

GOOD = Branch(WANTED, WANTED, ALL, 1)
NAN = float("nan")


@over(
    ("branches", "wanted", "accounts", "complaint"),
    [
        ([], WANTED, ACCOUNTS, "no branch has reported"),
        ([GOOD], (60.0, 30.0, 11.0), ACCOUNTS, "sum to 101, not to 100"),
        ([GOOD], (60.0, 30.0, NAN), ACCOUNTS, "sum to nan"),
        ([GOOD], WANTED, (0.0,), "1 accounts for 3 classes"),
        ([GOOD, GOOD._replace(usage=(50.0, 50.0))], WANTED, ACCOUNTS, "branch 1 reports other classes"),
        ([GOOD._replace(nodes=0)], WANTED, ACCOUNTS, "branch 0 reports 0 nodes"),
        ([GOOD._replace(nodes=NAN)], WANTED, ACCOUNTS, "reports nan nodes"),
        ([GOOD._replace(nodes=float("inf"))], WANTED, ACCOUNTS, "reports inf nodes"),
        ([GOOD._replace(usage=(60.0, NAN, 0.0))], WANTED, ACCOUNTS, "reports a usage below 0, or above 100"),
        ([GOOD._replace(usage=(NAN, 10.0, 0.0))], WANTED, ACCOUNTS, "reports a usage below 0, or above 100"),
        ([GOOD._replace(usage=(60.0, 30.0, 11.0))], WANTED, ACCOUNTS, "reports a usage below 0, or above 100"),
        ([GOOD._replace(allocation=(-1.0, 91.0, 10.0))], WANTED, ACCOUNTS, "reports an allocation below 0"),
        ([GOOD._replace(needy=(1.1, 0, 0))], WANTED, ACCOUNTS, "reports work left over on fewer than none or more"),
        ([GOOD._replace(needy=(0, -0.1, 0))], WANTED, ACCOUNTS, "reports work left over on fewer than none or more"),
        ([GOOD._replace(needy=(0, 0, NAN))], WANTED, ACCOUNTS, "reports work left over on fewer than none or more"),
    ],
)
def test_nonsense_is_refused(
    branches: list[Branch], wanted: tuple[float, ...], accounts: tuple[float, ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Bank().decide(branches, wanted, accounts)


def test_weights_have_a_mean_of_one() -> None:
    assert weights_of([GOOD._replace(nodes=30), GOOD._replace(nodes=10)]) == [1.5, 0.5]


@over(("classes", "floor"), [(2, 1), (50, 1), (100, 0.5), (125, 0.4)])
def test_floors_leave_half_of_a_node(classes: int, floor: float) -> None:
    assert floor_of(classes) == floor
