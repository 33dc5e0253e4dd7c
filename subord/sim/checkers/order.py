"""S1: which node may lead which, and no cycles (docs/protocol.md, section 8)."""

from __future__ import annotations

from subord.core.events import Event, Performance
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import Position
from subord.sim import limits
from subord.sim.checkers.checker import Checker
from subord.sim.limits import STAY, exact_class
from subord.sim.world.world import World


class LowerRanksLead(Checker):
    """No cycle: a leader has a lower rank than its subordinates, seen from both ends."""

    name = "S1"
    before_of = (Performance,)

    def __init__(self, settings: Settings) -> None:
        self._silence_s = limits.silence_s(settings) + settings.timing.own_sleep_s
        self._seen: dict[Position, object] = {}
        self._classes: dict[Position, tuple[float, float]] = {}  # lowest and highest true class at that address
        self._cycles: dict[frozenset[Position], float] = {}  # cycles with an edge that one end holds, and since when

    def before(self, _world: World, position: Position, event: Event) -> object:
        if isinstance(event, Performance):
            true = exact_class(event.jobs)
            low, high = self._classes.get(position, (true, true))
            self._classes[position] = min(low, true), max(high, true)
        return None

    def after(self, world: World, position: Position, _event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is None:
            return
        if position in node.uplink.path:
            self.complain(world, f"{position} is on its own path to the root: {node.uplink.path}")
        if node.context.settings.mapping == "performance":
            self._check_standings(world, position, node)
            return
        leader, taken = node.uplink.leader, node.downlink.slots.taken
        if leader is not None and not 0 < leader.position < position:
            self.complain(world, f"{position} follows {leader.position}")
        if taken and min(taken) <= position:
            self.complain(world, f"{position} leads {min(taken)}")

    def _check_standings(self, world: World, position: Position, node: Node) -> None:
        """By performance: edges that both ends hold go down in rank, so they close no cycle.

        A node that slept, or does not hear its leader, keeps a leader that may have given it up and lost rank: an
        edge that one end holds may close a cycle until that node has waited for an answer for a silence. An edge to a
        former life of a node does not count.
        """
        for members, since in list(self._cycles.items()):
            if world.now - since > self._silence_s:
                self._demand_open(world, members)
        state = _standing(node), node.uplink.leader and node.uplink.leader.position, *node.downlink.slots.taken
        if state == self._seen.get(position):
            return
        self._seen[position] = state
        self._demand_truth(world, position, node)
        for below in sorted(node.downlink.slots.taken.keys() - world.unjudged):
            other = world.nodes.get(below)
            if other is not None and _followed(world, other) == position:
                self._demand_order(world, position, below)
        above = _followed(world, node)
        if above and above not in world.unjudged and position in world.nodes[above].downlink.slots.taken:
            self._demand_order(world, above, position)
        cycle = _cycle_from(world, position)
        if cycle and all(p in world.nodes[_followed(world, world.nodes[p])].downlink.slots.taken for p in cycle):
            self.complain(world, f"a cycle: {cycle}")
        elif cycle:
            self._cycles.setdefault(frozenset(cycle), world.now)

    def _demand_open(self, world: World, cycle: frozenset[Position]) -> None:
        """After a silence a cycle must have ended, unless a member of it sleeps."""
        if not cycle.isdisjoint(world.paused):
            self._cycles[cycle] = world.now
            return
        members = [position for position in cycle if position in world.nodes]
        if members and set(_cycle_from(world, members[0])) == cycle:
            self.complain(world, f"a cycle for longer than a silence: {sorted(cycle)}")
        del self._cycles[cycle]

    def _demand_truth(self, world: World, position: Position, node: Node) -> None:
        """A node has no class that the machines at its address have never had."""
        standing = _standing(node)
        low, high = self._classes.get(position, (0.0, 0.0))
        if standing and not low - STAY <= standing <= high + STAY:
            self.complain(world, f"{position} has class {standing}; its machine has had {low:.2f} to {high:.2f}")

    def _demand_order(self, world: World, above: Position, below: Position) -> None:
        high, low = _standing(world.nodes[above]), _standing(world.nodes[below])
        if not (-high, above) < (-low, below):
            self.complain(world, f"{below} of class {low} follows {above} of class {high}")


def _followed(world: World, node: Node) -> Position:
    """The leader, if the life of it that this node knows still lives; 0: none."""
    leader = node.uplink.leader
    there = None if leader is None else world.nodes.get(leader.position)
    return leader.position if leader and there and there.context.incarnation == leader.incarnation else 0


def _cycle_from(world: World, position: Position) -> list[Position]:
    """The nodes of the cycle in which the way up from this node ends; empty: it ends at a root, or a dead node."""
    line = [position]
    while above := _followed(world, world.nodes[line[-1]]):
        if above in line:
            return line[line.index(above) :]
        line.append(above)
    return []


def _standing(node: Node) -> int:
    return node.context.mapping.rank_classes.own
