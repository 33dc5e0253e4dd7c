"""What goes into the shares of a node and what comes out: events, actions, the arithmetic, and what a node can say.

The part knows no algorithm: it is given one. Shares and usages are percent of a node, as in the paper, where a node
has 100 tickets. A branch is a subordinate with all nodes below it, or the node itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from subord.core.carriage.engine.interface import PartAction, PartEvent
from subord.core.carriage.shares.plan import Plan
from subord.core.view import Position

Row = Sequence[float]
"""One number for each class."""


class Branch(NamedTuple):
    """The report of a branch: means over its nodes, and their number."""

    allocation: Row
    usage: Row
    needy: Row
    """For each class the part of the nodes, 0 to 1, on which work was left over at the end of the period."""
    nodes: float


class Step(NamedTuple):
    """One step of a decision, for a person who asks why a row is as it is."""

    word: str
    columns: Sequence[Row]
    """For each class the tickets of each branch; a step on accounts alone has none."""
    totals: Row
    """For each class the tickets of all branches together, in units of a branch of mean size."""


class Decision(NamedTuple):
    """The outcome of one round: for each branch its shares, and for each class the account for the next round."""

    rows: Sequence[Row]
    accounts: Row
    steps: tuple[Step, ...] = ()


class UndecidedError(Exception):
    """The arithmetic has found no shares; those before stay in force. The text says why."""


class Arithmetic(Protocol):
    """How a leader decides. All nodes of a cluster need not have the same."""

    def fault_of(self, branch: Branch, classes: int) -> str:
        """What makes no sense in a report, with its verb; "": nothing."""
        ...

    def folded(self, branches: Sequence[Branch]) -> Branch:
        """The report of all branches together."""
        ...

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        """The shares of each branch for the next round. Raises UndecidedError."""
        ...


class Branches(Protocol):
    """What shares read of the tree."""

    @property
    def position(self) -> Position: ...
    @property
    def leader(self) -> Position | None: ...
    @property
    def is_root(self) -> bool: ...
    def branches(self) -> Mapping[Position, int]:
        """The living nodes of each subordinate's branch, itself included."""


# -- events and actions -------------------------------------------------------------------------------------


class Planned(PartEvent, frozen=True):
    """The plan that the node holds now. None: no operator has published one."""

    plan: Plan | None


class Measured(PartEvent, frozen=True):
    """The answer to Measure. `own` None: the node cannot say, so it has no part in what is divided."""

    plan: Plan
    own: Branch | None


class Measure(PartAction, frozen=True):
    """Say what this node alone has given to each class of the plan and what each has used since the last Measure. It
    comes once in a round."""

    plan: Plan


class Obey(PartAction, frozen=True):
    """From now on this node gives each class so many percent. None: shares are off, and what limited the classes is
    to be put back as it was."""

    plan: Plan | None
    row: tuple[float, ...] = ()


# -- what a node can say -------------------------------------------------------------------------------------

DOCUMENT = "document"
"""The node is a root: it divides by the wanted shares of the document."""
LEADER = "leader"
"""It divides by the row of its leader."""
KEPT = "kept row"
"""By a row of its leader that was not renewed."""
NO_ROW = "no row"
"""By the document, because no leader gives it a row, or none has for long."""


class OfBranch(NamedTuple):
    """A branch that counts. `said_nodes`: as it says; those of `report` count, at most as many as the roster lists.
    `round`: of its leader, 0: the node itself. `row`: what the last decision gave it; empty: none yet."""

    position: Position
    report: Branch
    said_nodes: int
    round: int
    age_s: float
    row: Row = ()


class LeftOut(NamedTuple):
    """A branch without part in the decisions. `nodes`: by the roster. `cause`: a word of branches.py. `fault`: of its
    last report, if that made no sense."""

    position: Position
    nodes: int
    cause: str
    fault: str = ""


class Overview(NamedTuple):
    """The shares of one node and its branch. `plan`: the document, also one that says that shares are off. `round`:
    of this node; `row_round`: of the leader that gave the last row. `told` of `asked` nodes are in the decisions;
    `left_out` names branches, and branches that have reported may lack nodes of their own. `order`: the branches of
    `decided`, which is None while the node gives rows to no other; `undecided`: why there was no decision in the last
    round. `dropped`: since the start, by word."""

    plan: Plan | None
    round: int
    wanted: Row
    wanted_from: str
    row_round: int
    row_age_s: float | None
    obeyed: Row
    asked: int
    told: int
    branches: tuple[OfBranch, ...]
    left_out: tuple[LeftOut, ...]
    order: tuple[Position, ...]
    decided: Decision | None
    decided_age_s: float | None
    undecided: str
    dropped: Mapping[str, int]
