"""Which nodes a fold covers: how many are asked, how many have told, and why the others are missing.

Inputs are the living nodes of each branch by the roster, and what each subordinate has told last; output is a
Coverage. Invariant: told and missing nodes are together those that the roster lists, so `told` never exceeds
`asked`. Nodes in a record beyond that are `unlisted`: they have just come, or left, or moved and still count at their
former leader, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.engine.causes import OLDER, WORD_CHARS_MAX
from subord.core.carriage.engine.ranges import NONE, POSITION_MAX, Ranges
from subord.core.carriage.reports import bounds
from subord.core.view import Position

STALE: Final = "stale"
NO_REPORT: Final = "no report"
BELOW_OLDER: Final = "below older release"
UNREADABLE: Final = "unreadable fold"
SENTENCES: Final = {
    OLDER: "the node runs a release of subord that knows no reports",
    STALE: "the node has not renewed its report for three intervals",
    NO_REPORT: "the node has not reported yet, or does not offer this report",
    BELOW_OLDER: "a leader of the node runs a release of subord that knows no reports",
    UNREADABLE: "the node has answered with a fold that this release of subord cannot read",
}
_Count = Annotated[int, msgspec.Meta(ge=0, le=bounds.COUNT_MAX)]


class Missing(msgspec.Struct, frozen=True, array_like=True):
    """Nodes with one cause. `numbers`: some of them as ranges; of a silent branch only its highest node."""

    cause: Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
    count: _Count
    numbers: tuple[Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)], ...] = ()

    def __post_init__(self) -> None:
        Ranges.unflat(self.numbers)

    @property
    def nodes(self) -> Ranges:
        return Ranges.unflat(self.numbers)


class Told(NamedTuple):
    """What a subordinate says of its branch."""

    nodes: int
    missing: tuple[Missing, ...] = ()


class Coverage(msgspec.Struct, frozen=True, array_like=True):
    """`unlisted`: nodes in the record that the roster does not list there."""

    asked: _Count
    told: _Count
    missing: Annotated[tuple[Missing, ...], msgspec.Meta(max_length=bounds.CAUSES_MAX)] = ()
    unlisted: _Count = 0


class _Sorted:
    """Missing nodes by cause."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._nodes: dict[str, Ranges] = {}

    def add(self, cause: str, count: int, nodes: Ranges = NONE) -> None:
        if not count:
            return
        if cause not in self._counts and len(self._counts) >= bounds.CAUSES_MAX - 1:
            cause = NO_REPORT
        self._counts[cause] = self._counts.get(cause, 0) + count
        self._nodes[cause] = self._nodes.get(cause, NONE) | nodes

    def all(self) -> tuple[Missing, ...]:
        return tuple(Missing(cause, self._counts[cause], self._named(cause)) for cause in sorted(self._counts))

    def _named(self, cause: str) -> tuple[int, ...]:
        return next(self._nodes[cause].chunks(bounds.NAMED_BYTES_MAX), NONE).flat()


def cover(
    own: Position,
    own_cause: str,
    branches: Mapping[Position, int],
    told: Mapping[Position, Told],
    absent: Mapping[Position, str],
) -> Coverage:
    """The coverage at node `own`. `own_cause`: why it has no record itself; "": it has one. `branches`: living nodes
    by subordinate. `absent`: why subordinates have no report; without entry they have not reported."""
    missing = _Sorted()
    missing.add(own_cause, bool(own_cause), Ranges.of((own,)))
    counted, unlisted = int(not own_cause), 0
    for via, living in branches.items():
        if via in told:
            branch = min(told[via].nodes, living)
            counted += branch
            unlisted += told[via].nodes - branch
            _add_branch(missing, told[via].missing, living - branch)
        elif living:
            cause = absent.get(via, NO_REPORT)
            missing.add(cause, 1, Ranges.of((via,)))
            missing.add(BELOW_OLDER if cause == OLDER else cause, living - 1)
    return Coverage(1 + sum(branches.values()), counted, missing.all(), min(unlisted, bounds.COUNT_MAX))


def widened(coverage: Coverage, absent: Mapping[str, Ranges]) -> Coverage:
    """The coverage with members that are not in the tree, by cause."""
    missing = _Sorted()
    for each in coverage.missing:
        missing.add(each.cause, each.count, each.nodes)
    for cause, nodes in absent.items():
        missing.add(cause, len(nodes), nodes)
    asked = coverage.asked + sum(map(len, absent.values()))
    return Coverage(asked, coverage.told, missing.all(), coverage.unlisted)


def _add_branch(missing: _Sorted, said: Iterable[Missing], rest: int) -> None:
    """The missing nodes of a branch: no more than the roster lists there; those that it does not explain have not
    reported."""
    for each in said:
        count = min(each.count, rest)
        missing.add(each.cause, count, each.nodes)
        rest -= count
    missing.add(NO_REPORT, rest)
