"""S11 and S12: what a root lists, and what it advises newcomers (docs/protocol.md, section 8)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil

from subord.core.events import Action, Event, Received, Send
from subord.core.messages import Advice, Ask
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import Position
from subord.sim import limits
from subord.sim.checkers import oracle
from subord.sim.checkers.checker import Checker
from subord.sim.world.world import World

PLAN_S = 0.25  # the age up to which a root may use its plan of the tree


class ListedContinuously(Checker):
    """A living node that has stood below a root for long is listed there, also while a branch begins a new session.

    It stands below when both ends of every edge up to the root hold that edge, and for long when the youngest edge is
    older than all the silences that the reports of so many rows can meet on the way. A bit that is flipped in a
    datagram in the clear makes a row that calls a living node missing, which the next reports mend: the time counts
    from there.
    """

    name = "S11"

    def __init__(self, settings: Settings) -> None:
        self._silence_s = limits.silence_s(settings)
        self._seen: dict[Position, int] = {}

    def after(self, world: World, position: Position, _event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is None or node.uplink.leader is not None:
            self._seen.pop(position, None)
            return
        live, before = node.roster.live, self._seen.get(position, 0)
        self._seen[position] = live
        if live < before:
            self._look(world, position, node)

    def _look(self, world: World, root: Position, node: Node) -> None:
        since_of: dict[Position, tuple[float, int]] = {root: (0.0, 0)}
        waiting = [root]
        while waiting:
            above = waiting.pop()
            since, level = since_of[above]
            for below in world.nodes[above].downlink.slots.taken:
                at = self._held_since(world, above, below)
                if at is not None and below not in since_of and below not in world.unjudged:
                    since_of[below] = max(since, at), level + 1
                    waiting.append(below)
        batches = ceil(len(since_of) / limits.ROWS_OF_A_BEAT)
        for position, (since, level) in since_of.items():
            if node.roster.is_live(position) or self._is_behind(world, node, position):
                continue
            if world.now - max(since, world.transit.misread_at) > (level + batches) * self._silence_s:
                self.complain(world, f"{root} does not list {position}, which stands below it since {since:.2f} s")

    def _is_behind(self, world: World, root: Node, position: Position) -> bool:
        """A later host with its clock behind is indistinguishable from a former one, which may be listed (S4)."""
        row = root.roster.rows.get(position)
        return row is not None and row[1].change.incarnation > world.nodes[position].context.incarnation

    def _held_since(self, world: World, above: Position, below: Position) -> float | None:
        """World time since when both ends hold the edge in their present lives; None: they do not."""
        other, upper = world.nodes.get(below), world.nodes[above]
        leader = None if other is None else other.uplink.leader
        if other is None or leader is None or leader.position != above or below in world.paused:
            return None
        listed = upper.downlink.slots.taken[below]
        if leader.incarnation != upper.context.incarnation or listed.incarnation != other.context.incarnation:
            return None
        return world.now - min(world.clock(below) - leader.since, world.clock(above) - listed.since)


class AdviceByRank(Checker):
    """A root advises an unlisted node its level in a full tree of all listed nodes, in order of rank."""

    name = "S12"
    after_of = (Ask,)

    def after(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        node = world.nodes.get(position)
        if node is None or not isinstance(event, Received) or not isinstance(event.message, Ask):
            return
        settings = node.context.settings
        if settings.mapping == "performance" or node.uplink.leader is not None:
            return
        asker = event.message.asker or event.source
        if asker is None or asker in node.roster.rows or world.clock(position) - node.roster.changed_at <= PLAN_S:
            return
        for each in actions:
            if isinstance(each, Send) and isinstance(each.message, Advice) and each.message.wanted:
                living = sorted(p for p, (_, claim) in node.roster.rows.items() if not claim.change.missing)
                right = oracle.level_of(settings, bisect_left(living, asker) + 1)
                if each.message.wanted != right:
                    wanted = each.message.wanted
                    self.complain(world, f"{position} tells {asker} level {wanted}, by rank it is level {right}")
