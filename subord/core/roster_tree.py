"""The tree as the roster of a node shows it to the engine of orders.

Inputs are the roster, the leader and the phase of a node, and its register of members; outputs are those of
tree.Tree. `split` looks up single positions, or passes over all rows, whichever is less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from subord.core.carriage.engine.causes import DOWN, LEFT, MOVED, UNKNOWN
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.engine.tree import Split
from subord.core.claims import Claim
from subord.core.members.listing import has_ended
from subord.core.members.membership import Membership
from subord.core.members.register import Register, State
from subord.core.node import Node
from subord.core.state.states import Phase
from subord.core.view import Incarnation, Position

REMEMBERED = {State.UP: MOVED, State.DOWN: DOWN, State.LEFT: LEFT}
AGE_S_STEP = 1.0  # ages of rows come in whole seconds
LEVELS_MAX = 128  # rows that cross may name each other as leaders


def tree_of(node: Node, membership: Membership | None) -> RosterTree:
    """The tree of a node, with the members that it remembers."""
    if membership is None:
        return RosterTree(node)
    return RosterTree(node, membership.register, membership.history.pending, membership.is_settled)


class RosterTree:
    """Reads one node, which may change between two calls.

    `register`: the members that it remembers. `pending`: nodes that have vanished and may return; the register of a
    young cluster does not have them yet. `settles`: whether a root knows all members, by the node and the time.
    """

    def __init__(
        self,
        node: Node,
        register: Register | None = None,
        pending: Callable[[], Iterable[Position]] = tuple,
        settles: Callable[[Node, float], bool] = lambda _node, _now: True,
    ) -> None:
        self._node = node
        self._register = register
        self._pending = pending
        self._settles = settles

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

    def is_settled(self, now: float) -> bool:
        return self.is_root and self._settles(self._node, now)

    def every(self) -> Ranges:
        expected = (each for each, (_, claim) in self._node.roster.rows.items() if not self._is_over(each, claim))
        known = Ranges.of((self.position, *expected, *self._pending()))
        return known | self._remembered(State.UP, State.DOWN)

    def _is_over(self, position: Position, claim: Claim) -> bool:
        """Whether a node said goodbye, or is forgotten, that its leader still reports as missing."""
        if self._register is None or not claim.change.missing:
            return False
        return has_ended(self._register.at(position))

    def _remembered(self, *states: State) -> Ranges:
        runs = () if self._register is None else self._register.runs
        return Ranges.of_pairs((run.first, run.last) for run in runs if run.record.state in states)

    def branches(self) -> Mapping[Position, int]:
        """The living nodes of each subordinate's branch (carriage/reports)."""
        return {via: self._node.roster.below(via) for via in self._node.downlink.slots.taken}

    def listed(self, via: Position, nodes: Ranges) -> Ranges:
        """Those of the nodes that are in the branch of a subordinate (carriage/reports)."""
        rows = self._node.roster.rows
        known = (
            (each for each in nodes if each in rows) if len(nodes) <= len(rows) else filter(nodes.__contains__, rows)
        )
        return Ranges.of(each for each in known if rows[each][0] == via)

    def split(self, targets: Ranges) -> Split:
        rows = self._node.roster.rows
        if len(targets) <= len(rows):
            found = [(each, rows[each]) for each in targets if each in rows]
        else:
            found = [(each, row) for each, row in rows.items() if each in targets]
        below, absent = defaultdict[Position, list[Position]](list), defaultdict[str, list[Position]](list)
        for position, row in found:
            if position != self.position:
                cause = self._absence(row)
                (absent[cause] if cause else below[self._branch(position, row)]).append(position)
        unlisted = targets - Ranges.of((self.position, *(each for each, _ in found)))
        split = self._unlisted(unlisted) if unlisted else {}
        for cause, nodes in absent.items():
            split[cause] = split.get(cause, NONE) | Ranges.of(nodes)
        return Split(self.position in targets, {via: Ranges.of(nodes) for via, nodes in below.items()}, split)

    def _branch(self, position: Position, row: tuple[Position, Claim]) -> Position:
        """The subordinate whose branch has a node. After a move of a node above it both its former and its new branch
        report it, in equal rows: its leaders decide."""
        roster, each = self._node.roster, position
        if position not in roster.rivals:
            return row[0]
        for _ in range(LEVELS_MAX):
            above = roster.rows.get(each)
            if above is None or above[1].change.missing:
                break
            if above[1].change.leader == self.position:
                return above[0]
            each = above[1].change.leader
        return row[0]

    def _absence(self, row: tuple[Position, Claim]) -> str:
        """Why a node of the roster cannot be asked; "": it can."""
        via, claim = row
        if claim.change.missing:
            return DOWN
        return "" if via in self._node.downlink.slots.taken else MOVED

    def _unlisted(self, nodes: Ranges) -> dict[str, Ranges]:
        """Why nodes cannot be asked that the roster does not list. A member that is up is on its way, or cut off."""
        split: dict[str, Ranges] = {}
        for state, cause in REMEMBERED.items():
            found = nodes & self._remembered(state)
            if found:
                split[cause], nodes = found, nodes - found
        pending = nodes & Ranges.of(self._pending())
        if pending:
            split[MOVED], nodes = split.get(MOVED, NONE) | pending, nodes - pending
        if nodes:
            split[UNKNOWN] = nodes
        return split

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
