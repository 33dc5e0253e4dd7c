"""What must hold for orders, checked with arithmetic of its own: C1 to C6, and C13, of docs/protocol/carriage.md.

Inputs are orders as they are issued, what nodes act on, sizes of tables, and answers; output is a Violation. Numbers
here are written out, not taken from the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf
from typing import Final, NamedTuple

from subord.core.carriage.engine.bounds import TAG_KEEP_S
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Order, Tag
from subord.core.carriage.engine.interface import Answer
from subord.core.view import Position
from subord.sim.services.truth import WRITE, result_of
from subord.sim.violation import Violation
from subord.sim.world.world import World

LATE_S: Final = 0.01
TOGETHER_S: Final = 2.0  # after the first node: a node that starts later is a member when the root lists it
LISTED_S: Final = 2.0  # after a branch has come as a whole
YOUNG_S: Final = 5.0  # of a cluster, or of a root that cannot know all members yet
SIZES_MAX: Final = {
    "orders": 256,
    "questions": 4096,
    "held": 256,
    "direct": 64,
    "queue": 4096,
    "admission": 256,
    "acting": 256,
    "noting": 16_384,
    "held bytes": 16 << 20,
    "links": 4096,
    "tags": 16_384,
}
KEPT: Final = ("links", "tags")
"""Tables that need not be empty between orders."""


class Issued(NamedTuple):
    """An order under way. `targets` None: all members. `root`: of the issuer's tree when it was given."""

    at: float
    left_s: float
    position: Position
    engine: Engine
    targets: frozenset[Position] | None
    root: Position = 0


class Judge:
    """Watches all orders of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.open: dict[Tag, Issued] = {}
        self.engine_of: Callable[[Position], Engine | None] = lambda _: None
        self.sizes_max: dict[str, int] = {**SIZES_MAX}
        """By the name of each table of an engine; orders.py adds those of its parts."""
        self._sizes: dict[Position, dict[str, int]] = {}
        """As they were judged last."""
        self.answers: dict[Tag, Answer] = {}
        self.ended_at: dict[Tag, float] = {}
        self._acts_not_before: dict[tuple[tuple[Position, int], int, Tag], float] = {}
        """By the clock of the node, which may jump: until then it keeps the tag."""
        self._hosts: Counter[Position] = Counter()
        self._resumed_at: dict[Position, float] = {}
        self._started_at: dict[Position, float] = {}
        """Of the present life."""
        self._began_at: float | None = None
        self.calm_s = 0.0
        """For so long the first start of the cluster has no faults."""
        self.causes: Counter[str] = Counter()
        """Nodes without result, of all orders."""

    def started(self, position: Position) -> None:
        """A process begins."""
        self._started_at[position] = self._world.now
        if self._began_at is None:
            self._began_at = self._world.now

    def replaced(self, position: Position) -> None:
        """Another host has the address."""
        self._hosts[position] += 1

    def waits(self, tag: Tag) -> bool:
        """Whether the process that issued the order lives and waits for its end."""
        issued = self.open.get(tag)
        return issued is not None and self.engine_of(issued.position) is issued.engine

    def resumed(self, position: Position) -> None:
        self._resumed_at[position] = self._world.now

    def issued(
        self, position: Position, engine: Engine, order: Order, left_s: float, targets: Iterable[Position] | None
    ) -> None:
        wanted = None if targets is None else frozenset(targets)
        root = self._root_above(position)
        self.open[order.tag] = Issued(self._world.now, left_s, position, engine, wanted, root)

    def acts(self, position: Position, order: Order) -> None:
        """C3: one node acts on a tag at most once while it keeps it; a reading at most once in a life."""
        host = position, self._hosts[position]
        life = 0 if order.service == WRITE else self._world.boots[position]
        now = self._world.clock(position)
        if now < self._acts_not_before.get((host, life, order.tag), 0.0):
            raise Violation("C3", self._world.now, f"{position} acts again on {order.tag.hex()}")
        self._acts_not_before[host, life, order.tag] = now + TAG_KEEP_S

    def handled(self, position: Position, engine: Engine) -> None:
        """C4: every table has its bound."""
        sizes = {**engine.sizes, **engine.parts.sizes}
        if sizes == self._sizes.get(position):
            return
        self._sizes[position] = sizes
        for table, size in sizes.items():
            if not 0 <= size <= self.sizes_max[table]:
                raise Violation("C4", self._world.now, f"{position} keeps {size} {table}")

    def progress(self, position: Position, answer: Answer) -> None:
        self._demand_counts(position, answer)

    def finished(self, position: Position, tag: Tag, answer: Answer) -> None:
        """C1, C2 and C6 of an order that is over."""
        issued = self.open.pop(tag, None)
        if issued is None:
            raise Violation("C2", self._world.now, f"{position} ends {tag.hex()} twice, or did not issue it")
        self.answers[tag], self.ended_at[tag] = answer, self._world.now
        told = self._demand_counts(position, answer)
        missing = _positions(answer.missing)
        for cause, nodes in answer.missing:
            self.causes[cause] += len(nodes)
        self._demand_partition(position, issued, told, missing, set(answer.targets))
        self._demand_truth(position, tag, answer)
        if issued.targets is None and answer.is_whole:
            self._demand_all(position, issued, set(told))
        late_s = self._world.now - issued.at - issued.left_s
        if late_s > LATE_S and self._resumed_at.get(position, -1.0) < self._world.now - LATE_S:
            raise Violation("C2", self._world.now, f"{position} ends an order {late_s:.3f} s late")

    def _demand_counts(self, position: Position, answer: Answer) -> list[Position]:
        """C1: no node counts twice."""
        told = [*_positions(answer.groups), *answer.others]
        missing = _positions(answer.missing)
        twice = [each for each, times in Counter((*told, *missing)).items() if times > 1]
        if twice:
            raise Violation("C1", self._world.now, f"{position} counts twice: {sorted(twice)}")
        if answer.told != len(told):
            raise Violation("C1", self._world.now, f"{position} counts {answer.told} of {len(told)}")
        return told

    def _demand_partition(
        self,
        position: Position,
        issued: Issued,
        told: list[Position],
        missing: list[Position],
        targets: set[Position],
    ) -> None:
        """C2: told and missing nodes are the targets."""
        found = {*told, *missing}
        if found != targets:
            raise Violation("C2", self._world.now, f"{position}: told and missing differ by {found ^ targets}")
        if issued.targets is not None and targets != issued.targets:
            raise Violation("C2", self._world.now, f"{position}: targets differ by {targets ^ issued.targets}")

    def _demand_truth(self, position: Position, tag: Tag, answer: Answer) -> None:
        """C6: each result is the one that the node itself gave."""
        for result, nodes in answer.groups:
            for each in nodes:
                if result != result_of(tag, each):
                    raise Violation("C6", self._world.now, f"{position} counts {result!r} of {each}")

    def _demand_all(self, position: Position, issued: Issued, told: set[Position]) -> None:
        """C13: an answer for all members that calls itself whole, of a first start, of a young cluster or a young
        root, leaves out no node that runs."""
        world, root = self._world, self._root_above(position)
        left_out = sorted(each for each in world.nodes if each not in told and self._started_at[each] <= issued.at)
        if not left_out:
            return
        assert self._began_at is not None
        placed_at = self._placed_at(root) if root in world.nodes else -inf
        is_young_root = root == issued.root and placed_at <= issued.at and world.now < placed_at + YOUNG_S
        is_young = is_young_root or world.now < self._began_at + YOUNG_S
        if is_young or any(self._belongs_to_first(each, root) for each in left_out):
            raise Violation("C13", world.now, f"{position}: an answer that calls itself whole leaves out {left_out}")

    def _belongs_to_first(self, position: Position, root: Position) -> bool:
        """Whether a node and the root have started together, as the first ones, and the node has that root or still
        looks for one. Two trees that have not found each other, or just have, do not know each other's nodes."""
        assert self._began_at is not None
        latest = self._began_at + TOGETHER_S
        if self._world.now >= self._began_at + self.calm_s or root not in self._world.nodes:
            return False
        is_together = all(self._started_at[each] <= latest for each in (position, root))
        if self._world.nodes[position].place is None:
            return is_together
        return is_together and self._root_above(position) == root and not self._came_with_others(position)

    def _came_with_others(self, position: Position) -> bool:
        """Whether a node above, which had this one below it before, has just come from another tree: the root lists a
        branch that comes whole some moments after its highest node."""
        own, latest, above = self._placed_at(position), -inf, self._world.leader_of(position)
        while above in self._world.nodes and self._world.leader_of(above):
            latest = max(latest, self._placed_at(above))
            above = self._world.leader_of(above)
        return max(own, self._world.now - LISTED_S) < latest

    def _placed_at(self, position: Position) -> float:
        """When it took its place, by the clock of the world."""
        world = self._world
        return world.now - world.clock(position) + world.nodes[position].placed_at

    def _root_above(self, position: Position) -> Position:
        """The highest node above, as the nodes themselves have it; 0: in a circle."""
        world = self._world
        for _ in world.nodes:
            above = world.leader_of(position) if position in world.nodes else 0
            if not above:
                return position
            position = above
        return 0

    # -- the end ------------------------------------------------------------------------------------------

    def demand_ends(self, engines: dict[Position, Engine]) -> None:
        """C2: all orders of living issuers are over by now."""
        for tag, issued in self.open.items():
            if engines.get(issued.position) is issued.engine and issued.position not in self._world.paused:
                due = issued.at + issued.left_s
                raise Violation("C2", self._world.now, f"{issued.position} has not ended {tag.hex()}, due {due:.3f}")

    def demand_empty(self, position: Position, engine: Engine, *, is_late: bool) -> None:
        """C4: nothing is left of orders that are over; `is_late`: not even tags."""
        for table, size in engine.sizes.items():
            if size and (table not in KEPT or (is_late and table == "tags")):
                raise Violation("C4", self._world.now, f"{position} still keeps {size} {table}")


def _positions(groups: Iterable[tuple[object, Iterable[Position]]]) -> list[Position]:
    return [each for _, nodes in groups for each in nodes]
