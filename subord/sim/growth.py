"""What a node costs as the cluster grows: a cluster starts and comes to rest, and its datagrams are counted.

Input is a Start; output is a Growth, decided by the seed alone. Nodes compute in zero virtual time, and streams along
the edges are not counted.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Literal

import msgspec

from subord.core.address.network import Network
from subord.core.messages import Message
from subord.core.settings import Settings, TimingName
from subord.core.view import Position
from subord.sim.checkers.liveness import complaint
from subord.sim.rootload import Steps
from subord.sim.violation import Violation
from subord.sim.world.world import World

Order = Literal["random", "ascending"]

ROOT = 1
STARTED_WITHIN_S = 0.01  # all nodes start within this time; their hosts are up before
LOOK_EVERY_S = 0.01
LASTS_S_MIN = 60.0
REST_S = 20.0
SETTLING_S = 10.0  # from whole to rest: beats are rare only some seconds after a change of place
WHOLE_WITHIN_S = 3600.0
TICK_S = 1e-6


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: positions 1 to `nodes`; guest slots are as many as the fan-out."""

    nodes: int
    fanout: int
    order: Order = "random"
    seed: int = 1
    network: str = "10.0.0.0/14"
    timing: TimingName = "lan"


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The counts. Times are virtual seconds from the first start; the root's datagrams are both ways."""

    tree_s: float  # the last change of place: one root, all nodes at home
    whole_s: float  # and the root lists all nodes: L1 to L3 hold
    exchanges_per_node: float  # answered proposals and questions
    leader_changes_per_node: float
    datagrams_per_node: float  # sent until `whole_s`, including beats
    bytes_per_node: float  # of these; without headers
    sent: dict[str, int]  # these by kind, of all nodes
    depth: int
    subordinates_max: int
    root_datagrams_per_s_max: int  # in its busiest second
    rest_datagrams_per_node_s: float
    rest_bytes_per_node_s: float
    rest_root_datagrams_per_s: float
    lasted_s: float
    events: int


class _Mark(msgspec.Struct, frozen=True):
    """The counters at one moment."""

    datagrams: int
    bytes: int
    root: int


class _Counting:
    """Counts the datagrams of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._root_by_second: Counter[int] = Counter()
        world.on_message = self._on_message

    def mark(self) -> _Mark:
        return _Mark(self._world.sent.total(), self._world.sent_bytes, self._root_by_second.total())

    @property
    def root_max(self) -> int:
        """Datagrams of the root in its busiest second."""
        return max(self._root_by_second.values(), default=0)

    def _on_message(self, source: Position, target: Position, _message: Message, _copies: int) -> None:
        if ROOT in (source, target):
            self._root_by_second[int(self._world.now)] += 1


def measure(start: Start, steps: Steps | None = None) -> Growth:
    """Start the nodes, wait for one whole tree, and count on while it rests. `steps` times those of the root.

    Raises Violation without a whole tree after WHOLE_WITHIN_S, and NetworkError for an invalid network.
    """
    world = _prepared(start)
    counting = _Counting(world)
    if steps is not None:
        _watch_root(world, steps)
    _run_until_whole(world, start.nodes)
    whole_s, tree_s, sent, whole = world.now, world.moved_at, dict(world.sent), counting.mark()
    world.run(max(LASTS_S_MIN - REST_S - world.now, SETTLING_S))
    while any(node.search.is_fast for node in world.nodes.values()):
        world.run(SETTLING_S)  # a lone root still probes fast; bounded by `fast_probes_max`
    before = counting.mark()
    world.run(REST_S)
    after, nodes = counting.mark(), start.nodes
    return Growth(
        tree_s=tree_s,
        whole_s=whole_s,
        exchanges_per_node=sum(node.search.exchanges for node in world.nodes.values()) / nodes,
        leader_changes_per_node=sum(node.leader_changes for node in world.nodes.values()) / nodes,
        datagrams_per_node=whole.datagrams / nodes,
        bytes_per_node=whole.bytes / nodes,
        sent=sent,
        depth=depth(world),
        subordinates_max=max(len(node.downlink.slots.taken) for node in world.nodes.values()),
        root_datagrams_per_s_max=counting.root_max,
        rest_datagrams_per_node_s=(after.datagrams - before.datagrams) / nodes / REST_S,
        rest_bytes_per_node_s=(after.bytes - before.bytes) / nodes / REST_S,
        rest_root_datagrams_per_s=(after.root - before.root) / REST_S,
        lasted_s=world.now,
        events=world.events,
    )


def _prepared(start: Start) -> World:
    """A world in which all nodes are about to start."""
    settings = Settings(
        network=Network.parse(start.network),
        fanout=start.fanout,
        guest_slots=start.fanout,
        timing_name=start.timing,
    )
    world = World(settings, start.seed)
    chance = Random(f"{start.seed}/growth")
    order = list(range(1, start.nodes + 1))
    if start.order == "random":
        chance.shuffle(order)
    world.hosts.update(order)
    instants = sorted(chance.uniform(0, STARTED_WITHIN_S) for _ in order)
    for position, at in zip(order, instants, strict=True):
        world.after(at, world.start, position)
    return world


def _watch_root(world: World, steps: Steps) -> None:
    """From its start on."""
    if ROOT in world.nodes:
        steps.watch(world.nodes[ROOT])
    else:
        world.after(TICK_S, _watch_root, world, steps)


def _run_until_whole(world: World, nodes: int) -> None:
    while True:
        world.run(LOOK_EVERY_S)
        all_listed = ROOT in world.nodes and world.nodes[ROOT].roster.live == nodes  # else L3 cannot hold
        if all_listed and complaint(world) is None:
            return
        if world.now > WHOLE_WITHIN_S:
            raise Violation("growth", world.now, f"{nodes} nodes form no tree: {complaint(world)}")


def depth(world: World) -> int:
    """Edges between the root and the farthest node."""
    found: dict[Position, int] = {0: -1}
    for position in world.living():  # a leader is lower, hence comes first
        found[position] = found[world.leader_of(position)] + 1
    return max(found.values())


def depth_min(nodes: int, fanout: int) -> int:
    """The depth of the flattest tree of `nodes` nodes with at most `fanout` subordinates each."""
    level, held = 0, 1
    while held < nodes:
        level += 1
        held += fanout**level
    return level
