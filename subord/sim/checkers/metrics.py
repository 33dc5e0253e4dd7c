"""Counts the moves between two expectations, and the time without a leader of nodes whose leader failed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from subord.core.events import Notice, PlaceChanged
from subord.core.view import Position
from subord.sim.scenario.definition import Expect, folded
from subord.sim.world.world import World


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The counts between two expectations. Restarted nodes are not among the moved."""

    at_s: float
    whole_s: float  # from the start of the expectation
    moves: int
    moved: tuple[Position, ...]
    attached_s: tuple[float, ...]  # of nodes whose leader a fault hit, ascending

    def complaint(self, step: Expect, allowed: tuple[Position, ...] | None) -> str | None:
        """The first demand of `step` that does not hold; None: all hold."""
        if allowed is not None and not set(self.moved) <= set(allowed):
            return f"{folded(set(self.moved) - set(allowed))} changed the leader, only {step.moved} may"
        if step.moves_max is not None and self.moves > step.moves_max:
            return f"{self.moves} changes of leader, at most {step.moves_max} are allowed: {folded(self.moved)}"
        worst = percentile(self.attached_s, 0.99)
        if step.attached_p99_s is not None and worst is not None and worst > step.attached_p99_s:
            return f"a leader again after {worst:.2f} s, at most {step.attached_p99_s:g} s are allowed"
        return None


def percentile(times: Sequence[float], share: float) -> float | None:
    """The smallest of the ascending `times` not exceeded by `share` of all; None if there are none."""
    if not times:
        return None
    return times[min(len(times) - 1, max(0, -int(-share * len(times) // 1) - 1))]


class MoveMetrics:
    """Counts from the notices of a world; `fault`, `exclude` and `resumed` are called for each fault."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._next = world.on_notice
        world.on_notice = self._hear
        self._waiting: dict[Position, tuple[Position, float]] = {}  # orphan -> its leader, and the time of the fault
        self._excluded: set[Position] = set()
        self._moves: list[Position] = []
        self._attached_s: list[float] = []

    def fault(self, leader: Position) -> None:
        """A fault is about to hit `leader`: its subordinates wait for a leader from now on."""
        for position in self._world.nodes[leader].downlink.slots.taken:
            if position in self._world.nodes and self._world.leader_of(position) == leader:
                self._waiting.setdefault(position, (leader, self._world.now))

    def exclude(self, position: Position) -> None:
        """The moves of this node until the next look do not count: a fault hit the node itself."""
        self._excluded.add(position)

    def resumed(self, leader: Position) -> None:
        """The leader runs again: its waiting subordinates have a leader."""
        for orphan in [o for o, (awaited, _) in self._waiting.items() if awaited == leader]:
            self._attached(orphan)

    def look(self, *, whole_s: float) -> Seen:
        """The counts since the last look."""
        moved, moves = tuple(sorted(set(self._moves))), len(self._moves)
        seen = Seen(
            at_s=self._world.now,
            whole_s=whole_s,
            moves=moves,
            moved=moved,
            attached_s=tuple(sorted(self._attached_s)),
        )
        self._moves.clear()
        self._attached_s.clear()
        self._waiting.clear()
        self._excluded.clear()
        return seen

    def _hear(self, position: Position, notice: Notice) -> None:
        if isinstance(notice, PlaceChanged):
            self._attached(position)
            self.resumed(position)
            if notice.changes and position not in self._excluded:
                self._moves.append(position)
        self._next(position, notice)

    def _attached(self, position: Position) -> None:
        if position in self._waiting:
            _, since = self._waiting.pop(position)
            self._attached_s.append(self._world.now - since)
