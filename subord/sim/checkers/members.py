"""M1 to M6: what the nodes remember of the members and answer, judged at the end of a scenario.

Inputs are the ends of processes as the scenario causes them, and the registers of all nodes; the truth is found here.
When the tree has healed, and the time for a root to notice and to tell has passed:

- M1: all nodes hold the same register, documents and events, and no document is in conflict.
- M2: exactly the running nodes are up.
- M3: a node that crashed, of which a node knew that has run since, is down or forgotten.
- M4: a node that said goodbye to a whole cluster has left; a node that an operator forgot is not down, if the node
  that took the order has run since.
- M5: whichever node is asked, the answer names exactly the running nodes as live, and exactly those as down that the
  operator expects: no node that left, was forgotten or never ran. The counts of the metrics agree with it.
- M6: the events say the same of each node as the register, and are in one order of time: no loss is dated after its
  return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from subord.core import snapshots
from subord.core.members import listing
from subord.core.members.register import State
from subord.core.view import Position
from subord.sim.checkers.liveness import complaint
from subord.sim.violation import Violation
from subord.sim.world.members import Members
from subord.sim.world.world import World

NOTICED_S: Final = 30.0 + 2 * 5.0  # a root waits for nodes that it expects; nodes settle
TOLD_S: Final = 60.0 + 10.0  # ends of an edge compare, and send all
HEARD_S: Final = 1.0
DEPTH_S: Final = 1.0  # per node of a path: frames pass at most one node in this time
Witnesses = dict[Position, int]  # nodes and their lives


LAST_EVENTS = {State.UP: "present", State.DOWN: "missing", State.LEFT: "left", State.FORGOTTEN: "forgotten"}
"""What the last event of a node must say, by its record."""


class Remembered:
    """What the register must say in the end."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.members = self._members = Members(world)
        self._crashed: dict[Position, Witnesses] = {}
        self._left: dict[Position, Witnesses] = {}  # certainly heard by others
        self._left_at: dict[Position, float] = {}
        self._forgotten: dict[Position, Witnesses] = {}
        self._leaving: set[Position] = set()
        self._calm_leaves: set[Position] = set()
        self._above: dict[
            Position, tuple[Position, ...]
        ] = {}  # those that leave: the nodes that pass their goodbyes on
        self._members.judge = self
        self.demands = 0

    def forget(self, nodes: Sequence[Position]) -> None:
        """The operator says so at the lowest node that runs."""
        world = self._world
        at = next((p for p in sorted(world.nodes) if p not in world.paused), None)
        if at is not None:
            named = self._members.forget([p for p in nodes if p not in world.nodes], at)
            self._forgotten.update((p, {at: world.boots[at]}) for p in named)

    # -- the truth ----------------------------------------------------------------------------------------

    def gone(self, position: Position) -> None:
        """Its goodbyes are said. One that it heard just before may have reached no other node."""
        for other, at in list(self._left_at.items()):
            if position in self._above.get(other, ()) and self._world.now - at < HEARD_S:
                self._left.pop(other, None)
        if position in self._calm_leaves:
            self._left[position], self._left_at[position] = self._witnesses(position), self._world.now

    def started(self, position: Position) -> None:
        """A life begins: what was said of the former one no longer counts."""
        for said in (self._leaving, self._calm_leaves):
            said.discard(position)
        for ends in (self._left, self._crashed, self._forgotten):
            ends.pop(position, None)

    def leaves(self, position: Position) -> None:
        """SIGTERM. Calm: nothing disturbs the network, the tree is one, and other nodes remain."""
        world = self._world
        self._leaving.add(position)
        self._above[position] = world.nodes[position].uplink.path
        is_quiet = not world.paused and not world.weather.disturbs and complaint(world) is None
        if is_quiet and self._witnesses(position) and len(world.nodes) > 1:
            self._calm_leaves.add(position)

    def ends(self, position: Position) -> None:
        """The process dies."""
        self._calm_leaves.discard(position)
        for other in [p for p, at in self._left_at.items() if self._world.now - at < HEARD_S]:
            self._left.pop(other, None)  # this one may have been its leader, and told no other yet
        if position not in self._leaving:
            self._crashed[position] = self._witnesses(position, State.UP)

    def _witnesses(self, position: Position, *states: State) -> Witnesses:
        """The other nodes that know it: it was up, or has just left. One that is back may not be known yet."""
        world = self._world
        found = {}
        for each in world.nodes:
            record = self._members.of[each].register.at(position) if each != position else None
            if record is not None and record.state in (states or (State.UP, State.LEFT)):
                found[each] = world.boots[each]
        return found

    # -- the end ------------------------------------------------------------------------------------------

    def demand(self) -> None:
        """Raises Violation."""
        world = self._world
        world.run(NOTICED_S + TOLD_S + DEPTH_S * len(world.nodes))
        running = sorted(world.nodes)
        self._alike(running)
        if not running:
            return
        register = self._members.of[running[0]].register
        up = register.positions(State.UP)
        if up != running:
            wrong = sorted(set(up) ^ set(running))
            self._complain("M2", f"{wrong} are up in the register, or run, but not both")
        down = set(register.positions(State.DOWN))
        for position, witnesses in self._crashed.items():
            if not self._still_runs(witnesses):
                continue
            self.demands += 1
            if position not in self._forgotten and position not in down:
                self._complain("M3", f"{position} crashed and is {register.at(position)}")
        for position, witnesses in self._left.items():
            record = register.at(position)
            if not self._still_runs(witnesses):
                continue
            if record is None or record.state is not State.LEFT:
                self._complain("M4", f"{position} said goodbye and is {record}")
            self.demands += 1
        for position, witnesses in self._forgotten.items():
            if not self._still_runs(witnesses):
                continue
            self.demands += 1
            if position in down:
                self._complain("M4", f"{position} was forgotten and is down")
        self._answers(running)
        self._events(running)

    def _still_runs(self, witnesses: Witnesses) -> bool:
        """Whether a node has run since; others may have lost what was not on their disks yet."""
        world = self._world
        return any(world.boots[position] == life and position in world.nodes for position, life in witnesses.items())

    def _alike(self, running: list[Position]) -> None:
        first = self._members.of[running[0]] if running else None
        for position in running:
            membership = self._members.of[position]
            assert first is not None
            if membership.register.runs != first.register.runs:
                self._complain("M1", f"{running[0]} and {position} have different registers")
            if membership.documents.by_name != first.documents.by_name or membership.documents.conflicts:
                self._complain("M1", f"{running[0]} and {position} have different documents, or some are in conflict")
            if membership.journal.items() != first.journal.items():
                self._complain("M1", f"{running[0]} and {position} have different events")

    def _answers(self, running: list[Position]) -> None:
        """As `subord members`, `tree` and the metrics answer at each node (api/handlers)."""
        world = self._world
        for position in running:
            node, own = world.nodes[position], self._members.of[position]
            root = snapshots.root_of(node)
            if root not in world.nodes:
                self._complain("M5", f"{position} knows no root")
            now = world.clock(root)
            view, membership = snapshots.roster(world.nodes[root], now), self._members.of[root]
            if view.is_root and view.rows[1:] and not membership.is_compared(now - world.nodes[root].placed_at):
                self._complain("M5", f"{root} is root and has compared with no neighbour")
            found = listing.standings(view, membership.register)
            live = [p for p, standing in sorted(found.items()) if standing == "live"]
            down = [p for p, standing in sorted(found.items()) if standing in ("missing", "gone")]
            if live != running or len(found) != len(live) + len(down):
                self._complain("M5", f"{position} names {live} as live and {down} as down; {running} run")
            counts = own.register.count(State.UP), own.register.count(State.DOWN)
            if sorted(listing.of_states(own.register, State.DOWN)) != down or counts != (len(live), len(down)):
                self._complain("M5", f"{position} counts {counts} and {root} names {live} and {down}")
            if wrong := [p for p in down if not world.boots.get(p)]:
                self._complain("M5", f"{wrong} are down and never ran")
            self.demands += 1

    def _events(self, running: list[Position]) -> None:
        """The events of one node, which has the same as all others."""
        membership = self._members.of[running[0]]
        told, known, register = membership.journal.events(), membership.journal.known(), membership.register
        for position, last in sorted(known.items()):
            record = register.at(position)
            expected = None if record is None else LAST_EVENTS[record.state]
            if last.status and last.status != expected:
                self._complain("M6", f"the last event of {position} says {last.status}, the register {record}")
        for position in register.positions(State.DOWN):
            if position not in known:
                self._complain("M6", f"{position} is down and there is no event of it")
        if [each.wall_ms for each in told] != sorted(each.wall_ms for each in told):
            self._complain("M6", "the events are in no order of time")

    def _complain(self, name: str, text: str) -> NoReturn:
        raise Violation(name, self._world.now, text)
