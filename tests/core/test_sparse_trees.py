"""A hundred nodes in a network of 65534 addresses without a live home: one tree, not deep, at rest.

The fullest tree of n nodes has the depth of position n in the computed tree. The nodes start without contacts, so the
real tree may be extra: by three levels with fan-out 2, by two with fan-out 8.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from random import Random

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.address.numbering import numbering
from subord.core.messages import Announce, Message
from subord.core.settings import Settings
from subord.sim.world.world import World

pytestmark = pytest.mark.slow

N = 120
SIZE = 65534
GAP_S = 0.008  # between two starts: all within a second
SETTLE_S = 90.0
REST_S = 60.0
EXTRA = {2: 3, 8: 2}  # by fan-out: levels above those of the fullest tree
QUESTIONS_A_SECOND_MAX = 16
ORDERS = ("ascending", "reverse", "shuffled")
LAYOUTS = ("block", "five blocks", "block at the end", "every third", "random, seed", "random, multicast")


def positions_of(layout: str, n: int, chance: Random) -> list[int]:
    if layout == "block":
        return list(range(20_000, 20_000 + n))
    if layout == "five blocks":
        begins = [9_000, 21_500, 30_001, 47_777, 60_100]
        return [begin + offset for begin in begins for offset in range(n // 5)]
    if layout == "block at the end":
        return list(range(SIZE - n + 1, SIZE + 1))
    if layout == "every third":
        return list(range(3, 3 * n + 1, 3))
    return sorted(chance.sample(range(1, SIZE + 1), n))


def ordered(positions: list[int], order: str, chance: Random) -> list[int]:
    if order == "reverse":
        return positions[::-1]
    return chance.sample(positions, len(positions)) if order == "shuffled" else positions


class SilentTargets:
    """Counts the unused addresses that each node contacts in any one second."""

    def __init__(self, world: World) -> None:
        self.most: Counter[int] = Counter()
        self._world = world
        self._rung: defaultdict[int, deque[tuple[float, int]]] = defaultdict(deque)
        world.on_message = self._on_message

    def _on_message(self, source: int, target: int, message: Message, _copies: int) -> None:
        if target in self._world.hosts or isinstance(message, Announce):
            return
        now, rung = self._world.now, self._rung[source]
        rung.append((now, target))
        while now - rung[0][0] > 1.0:
            rung.popleft()
        self.most[source] = max(self.most[source], len({target for _, target in rung}))


def empty(layout: str, fanout: int, seed: int = 1) -> World:
    """No node has started yet."""
    world = World(Settings(network=Network.parse("10.0.0.0/16"), fanout=fanout, guest_slots=fanout), seed)
    world.multicast = layout.endswith("multicast")
    return world


def start_all(world: World, layout: str, order: str, n: int = N) -> None:
    """All within a second; every host is up from the beginning."""
    chance = Random(f"{layout}/{order}")
    positions = positions_of(layout, n, chance)
    world.hosts |= set(positions)
    if layout.endswith("seed"):
        world.seeds = (chance.choice(positions),)
    for position in ordered(positions, order, chance):
        world.start(position)
        world.run(GAP_S)


def levels(world: World) -> dict[int, int]:
    """The level of each node in the real tree; leaders rank lower, so they come first."""
    found: dict[int, int] = {}
    for position in sorted(world.nodes):
        leader = world.leader_of(position)
        found[position] = found[leader] + 1 if leader else 0
    return found


def depth_max(n: int, fanout: int) -> int:
    return numbering("complete", fanout).level_and_offset(n)[0] + EXTRA[fanout]


def moves(world: World) -> dict[int, int]:
    return {position: node.leader_changes for position, node in world.nodes.items()}


def assert_one_tree(world: World, extra: int = 0) -> None:
    """One root that lists all nodes; no leader has too many subordinates, and no node stands too deep."""
    fanout = world.settings.fanout
    roots = [position for position in world.nodes if not world.leader_of(position)]
    assert roots == [min(world.nodes)]
    roster = world.nodes[roots[0]].roster
    assert {p for p in roster.rows if roster.is_live(p)} == set(world.nodes)
    led = Counter(world.leader_of(position) for position in world.nodes)
    assert max(n for leader, n in led.items() if leader) <= fanout + world.settings.guest_slots
    assert max(levels(world).values()) <= depth_max(len(world.nodes), fanout) + extra


@over(
    ("layout", "fanout", "order"),
    [
        (layout, fanout, ORDERS[(at + shift) % 3])
        for at, layout in enumerate(LAYOUTS)
        for shift, fanout in enumerate((2, 8))
    ],
)
def test_a_hundred_together_form_no_chain(layout: str, fanout: int, order: str) -> None:
    world = empty(layout, fanout)
    start_all(world, layout, order)
    world.run(SETTLE_S)
    assert_one_tree(world)
    before = moves(world)
    world.run(REST_S)
    assert moves(world) == before
    assert_one_tree(world)


@over(
    ("layout", "n", "fanout"),
    [("random", 1, 2), *((layout, 60, (2, 8)[at % 2]) for at, layout in enumerate((*LAYOUTS, "random")))],
)
def test_silent_addresses_are_asked_at_a_bounded_pace(layout: str, n: int, fanout: int) -> None:
    """Each question to an unused address costs the wire up to three ARP requests."""
    world = empty(layout, fanout)
    doorbells = SilentTargets(world)
    start_all(world, layout, "shuffled", n)
    world.run(20)
    ((_, most),) = doorbells.most.most_common(1)
    assert most <= QUESTIONS_A_SECOND_MAX


def churn(world: World, chance: Random, every_s: float) -> None:
    """Nodes die, the process or the whole host, and return after some seconds."""
    position = chance.choice(sorted(world.nodes))
    chance.choice((world.crash, world.vanish))(position)
    away_s = chance.choice((0.2, 3.0, 12.0))
    world.run(away_s)
    world.start(position)
    world.run(every_s - away_s)


@over(
    ("layout", "fanout"),
    [("every third", 2), ("random, seed", 2), ("five blocks", 2), ("random, multicast", 2), ("random, multicast", 8)],
)
def test_deaths_and_returns_do_not_deepen_the_tree(layout: str, fanout: int) -> None:
    """Twenty in ten minutes, perhaps the root among them; one level more than at the start is accepted."""
    n = 60
    world = empty(layout, fanout)
    start_all(world, layout, "shuffled", n)
    world.run(SETTLE_S)
    assert_one_tree(world)
    chance = Random(f"{layout}/{fanout}")
    for _ in range(20):
        churn(world, chance, 30.0)
        assert max(levels(world).values()) <= depth_max(n, fanout) + 1
    world.run(REST_S)
    assert_one_tree(world, extra=1)
