"""The tree as the roster of a node shows it to the engine of orders.

Inputs are the roster, the leader and the phase of a node; outputs are those of tree.Tree. `split` looks up single
positions, or passes over all rows, whichever is less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from subord.core.carriage.engine.causes import DOWN, MOVED, UNKNOWN
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.tree import Split
from subord.core.claims import Claim
from subord.core.node import Node
from subord.core.state.states import Phase
from subord.core.view import Incarnation, Position

AGE_S_STEP = 1.0  # ages of rows come in whole seconds
LEVELS_MAX = 128  # rows that cross may name each other as leaders


class RosterTree:
    """Reads one node, which may change between two calls. `members`: those that it remembers, also above it."""

    def __init__(self, node: Node, members: Callable[[], Iterable[Position]] = tuple) -> None:
        self._node = node
        self._members = members

    @property
    def position(self) -> Position:
        return self._node.context.position

    @property
    def incarnation(self) -> Incarnation:
        return self._node.context.incarnation

    @property
    def leader(self) -> Position | None:
        leader = self._node.uplink.leader
        return None if leader is None else leader.position

    @property
    def is_root(self) -> bool:
        return self._node.phase is Phase.ROOT

    @property
    def path(self) -> tuple[Position, ...]:
        return self._node.uplink.path

    def quiet_s(self, now: float) -> float:
        return now - self._node.roster.changed_at

    def members(self) -> Ranges:
        return self.every() | Ranges.of(self._members())

    def every(self) -> Ranges:
        return Ranges.of((self.position, *self._node.roster.rows))

    def split(self, targets: Ranges) -> Split:
        rows = self._node.roster.rows
        few = len(targets) <= len(rows)
        if few:
            found = [(each, rows.get(each)) for each in targets]
        else:
            found = [(each, row) for each, row in rows.items() if each in targets]
        below, absent = defaultdict[Position, list[Position]](list), defaultdict[str, list[Position]](list)
        for position, row in found:
            if position != self.position:
                cause = self._absence(row)
                (absent[cause] if cause or row is None else below[row[0]]).append(position)
        split = {cause: Ranges.of(nodes) for cause, nodes in absent.items()}
        own = self.position in targets
        if not few:
            listed = Ranges.of((self.position, *(each for each, _ in found)))
            unlisted = targets - listed
            if unlisted:
                split[UNKNOWN] = unlisted
        return Split(own, {via: Ranges.of(nodes) for via, nodes in below.items()}, split)

    def _absence(self, row: tuple[Position, Claim] | None) -> str:
        """Why a target cannot be asked; "": it can."""
        if row is None:
            return UNKNOWN
        via, claim = row
        if claim.change.missing:
            return DOWN
        return "" if via in self._node.downlink.slots.taken else MOVED

    def split_below(self, top: Position, targets: Ranges) -> Mapping[Position, Ranges]:
        rows = self._node.roster.rows
        branch_of: dict[Position, Position | None] = {top: None}
        branches = defaultdict[Position, list[Position]](list)
        for target in targets:
            passed, each = list[Position](), target
            while each not in branch_of:
                branch_of[each] = None  # ends a circle of reports that cross
                passed.append(each)
                row = rows.get(each)
                above = 0 if row is None or row[1].change.missing else row[1].change.leader
                if above == top:
                    branch_of[each] = each
                    break
                each = above or top
            branch = branch_of[each]
            branch_of.update(dict.fromkeys(passed, branch))
            if branch is not None:
                branches[branch].append(target)
        return {branch: Ranges.of(nodes) for branch, nodes in branches.items()}

    def moved_since(self, position: Position, at: float) -> bool:
        rows, each = self._node.roster.rows, position
        for _ in range(LEVELS_MAX):
            row = rows.get(each)
            if row is None or each == self.position:
                break
            if row[1].since >= at - AGE_S_STEP:
                return True
            each = row[1].change.leader
        return False
