"""The bank algorithm: the shares of each branch from one round of reports, by arithmetic alone.

The paper gives six steps, under "Now we present our bank algorithm". Each function below names its step. Where the
text leaves a choice, the decision has a number:

A1  "Fully utilized" is work left over at the end of a period, not `usage >= allocation`: chance alone makes that
    false in half of the periods.
A2  Only a class without work left over deposits what it did not use. The shortfall of a needy class is chance;
    a deposit of it draws all shares together (60/30/10 becomes 58.5/31.5/9.9).
A3  No share is below the floor of one ticket, as in cluster reserves, so a returning class is noticed.
A4  Step 3 takes from all branches in proportion to what they have above the floor, and gives to the needy ones in
    equal shares, at most up to 100 each; it corrects the whole difference.
A5  "Still over-allocated" after step 3: floors, caps, or no needy branch. So accounts may become negative.
A6  A reward is split in equal shares for each node of the needy branches.
A7  "Clear" multiplies an account by `keep`: 0 compensates in space only, 1 over all time, between is a mixture.
    Step 5 empties the accounts of all classes with a needy branch, so `keep` counts for the others alone.
A8  The period is the caller's, the same at all levels; the paper uses 0.3 s.
A9  With more than 10 classes the adjustment of 2 tickets is smaller, in all 20 for a node. Step 3 draws the branches
    together by it: 2 tickets for each of 126 classes outweigh their shares, and a class whose work is on 30 of 100
    nodes lost a sixth of its share.
A10 In step 2 a branch gains the adjustment times the part of its nodes that are needy: the others cannot use it. Only
    a branch without any needy node deposits, or gets "a little less". In another one its leader gives what idle nodes
    leave over to the needy ones; deposited in part at each level once more, it became 10.3 to 11.6 percent for a
    class that should have 10. Steps 3 and 5 count whole branches (A4, A6): by parts a class that returns gets more
    than its share for longer (figure 8: 7 of 60 seeds need 5 rounds, with whole branches 2), and a leader that lies
    moves more than the nodes of its branch.

The paper does not say how to divide a node on which no class does anything. Here it gets the wanted shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from subord.core.carriage.shares.interface import Branch, Decision, Row, Step
from subord.services.shares.policy import PERCENT, checked, floor_of, total_of, weights_of

ADJUSTMENT: Final = 2.0
"""Tickets that a needy class gains, and another loses, in a round ("a small adjustment number of 2 is used")."""
ADJUSTMENTS_SUM_MAX: Final = 20.0
"""Of all classes (decision A9)."""
_ROUNDING: Final = 1e-9


class _Reports(NamedTuple):
    """What the branches report of one class, one entry for each branch."""

    allocation: Row
    usage: Row
    needy: Row
    """A part of the nodes, 0 to 1."""


class _Tickets(NamedTuple):
    """Of a class on a node."""

    adjustment: float
    floor: float


class _Class(NamedTuple):
    """One class after steps 1 to 5. A list has one number for each branch."""

    deposits: list[float]
    want: list[float]
    corrected: list[float]
    withdrawn: float
    reward: float
    """For each needy branch."""
    rewarded: list[float]
    account: float


class Bank:
    """The policy with its two settings."""

    def __init__(self, *, adjustment: float = ADJUSTMENT, keep: float = 0.0) -> None:
        self._adjustment = adjustment
        self._keep = keep

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        """The shares of each branch for the next period. Raises ValueError for reports that make no sense."""
        checked(branches, wanted, accounts)
        weights, floor = weights_of(branches), floor_of(len(wanted))
        tickets = _Tickets(min(self._adjustment, ADJUSTMENTS_SUM_MAX / len(wanted)), floor)
        reports = map(
            _Reports,
            zip(*[branch.allocation for branch in branches], strict=True),
            zip(*[branch.usage for branch in branches], strict=True),
            zip(*[branch.needy for branch in branches], strict=True),
        )
        classes = [
            _class_of(each, weights, share * len(weights), account, tickets)
            for each, share, account in zip(reports, wanted, accounts, strict=True)
        ]
        rows = [normal(row, floor, wanted) for row in zip(*[each.rewarded for each in classes], strict=True)]
        return Decision(rows, [each.account * self._keep for each in classes], _steps(classes, rows, weights))


def _class_of(reports: _Reports, weights: Row, total: float, account: float, tickets: _Tickets) -> _Class:
    """`total`: the wanted tickets of all branches."""
    allocation, usage, needy = reports
    adjustment, floor = tickets
    deposits = deposited(allocation, usage, needy, weights)
    account += sum(deposits)
    want = initial(usage, needy, adjustment, floor)
    corrected = balanced(want, needy, weights, total, floor)
    withdrawn = total_of(weights, corrected) - total  # step 4: "withdraw if still over, deposit if under"
    account -= withdrawn
    reward = reward_of(account, needy, weights)
    if not reward:
        return _Class(deposits, want, corrected, withdrawn, 0.0, corrected, account)
    rewarded = [each + reward if part else each for each, part in zip(corrected, needy, strict=True)]
    return _Class(deposits, want, corrected, withdrawn, reward, rewarded, 0.0)


def deposited(allocation: Row, usage: Row, needy: Row, weights: Row) -> list[float]:
    """Step 1: "deposit unused tickets", which other classes of the node have used meanwhile (A1, A2, A10)."""
    return [
        0.0 if part or given <= used else weight * (given - used)
        for given, used, part, weight in zip(allocation, usage, needy, weights, strict=True)
    ]


def initial(usage: Row, needy: Row, adjustment: float, floor: float) -> list[float]:
    """Step 2: "assign initial values", a little more than was used, or a little less (A1, A3, A10)."""
    return [
        max(floor, used + adjustment * part if part else used - adjustment)
        for used, part in zip(usage, needy, strict=True)
    ]


def balanced(want: list[float], needy: Row, weights: Row, total: float, floor: float) -> list[float]:
    """Step 3: "subtract from the over-allocated and add to the needy and under-allocated" (A4)."""
    over = total_of(weights, want) - total
    if over > 0:
        above = sum(weight * (each - floor) for weight, each in zip(weights, want, strict=True))
        kept = 1.0 - min(1.0, over / above) if above > 0 else 0.0
        return [floor + (each - floor) * kept for each in want]
    each_gets = _for_each_needy(-over, needy, weights)
    if not each_gets:
        return want
    return [
        max(each, min(PERCENT, each + each_gets)) if part else each for each, part in zip(want, needy, strict=True)
    ]


def reward_of(account: float, needy: Row, weights: Row) -> float:
    """Step 5: "reward to the needy nodes" what a class has in the bank: this much for each needy branch (A6)."""
    return _for_each_needy(account, needy, weights) if account > 0 else 0.0


def _for_each_needy(tickets: float, needy: Row, weights: Row) -> float:
    """Equal percents for branches are equal tickets for nodes, whatever the sizes of the branches."""
    whole = total_of(weights, [part > 0 for part in needy])
    return tickets / whole if whole else 0.0


def normal(row: Row, floor: float, wanted: Row) -> list[float]:
    """Step 6: "normalize allocation on each node" to 100, where shares at the floor stay there (A3)."""
    at_floor = [each <= floor + _ROUNDING for each in row]
    while not all(at_floor):
        free = sum(each for each, is_low in zip(row, at_floor, strict=True) if not is_low)
        scale = (PERCENT - floor * sum(at_floor)) / free
        low = [is_low or each * scale <= floor for each, is_low in zip(row, at_floor, strict=True)]
        if low == at_floor:
            return [floor if is_low else each * scale for each, is_low in zip(row, at_floor, strict=True)]
        at_floor = low
    return _idle(floor, wanted)


def _idle(floor: float, wanted: Row) -> list[float]:
    """No class does anything here: the wanted shares, raised to the floor."""
    free = PERCENT - floor * len(wanted)
    above = [max(0.0, each - floor) for each in wanted]
    return [floor + each * free / sum(above) for each in above]


def _steps(classes: Sequence[_Class], rows: Sequence[Row], weights: Row) -> tuple[Step, ...]:
    def difference(after: Row, before: Row) -> list[float]:
        return [new - old for new, old in zip(after, before, strict=True)]

    corrections = [difference(each.corrected, each.want) for each in classes]
    rewards = [difference(each.rewarded, each.corrected) for each in classes]
    shares = list(zip(*rows, strict=True))
    return (
        Step("deposit", [each.deposits for each in classes], [sum(each.deposits) for each in classes]),
        Step("want", [each.want for each in classes], [total_of(weights, each.want) for each in classes]),
        Step("correction", corrections, [total_of(weights, each) for each in corrections]),
        Step("withdrawal", (), [each.withdrawn for each in classes]),
        Step("reward", rewards, [total_of(weights, each) for each in rewards]),
        Step("share", shares, [total_of(weights, each) for each in shares]),
    )
