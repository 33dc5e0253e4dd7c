"""Small worlds with measurements: the performance of each node, or the sites of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from small_world import SmallWorld

from subord.core.events import LeaderLost, LostCause, Performance
from subord.core.view import Position
from subord.sim.checkers.safety import Checkers

REST_S = 100.0  # longer than every search interval


def performing(
    jobs: Mapping[Position, float], fanout: int = 2, *, watched: bool = False, **options: object
) -> SmallWorld:
    """A settled world by performance; `watched`: by all checkers, from the beginning."""
    world = SmallWorld.empty(fanout, "10.0.0.0/24", mapping="performance", **options)
    if watched:
        world.watcher = Checkers(world.settings)
    world.jobs = dict(jobs)
    world.start_all(jobs)
    world.run(REST_S)
    assert world.whole(), world.leaders()
    return world


def falling(nodes: int) -> dict[Position, float]:
    """Performances that fall with the position, by at least one class each."""
    return {position: 1e9 / 2**position for position in range(1, nodes + 1)}


def performs(world: SmallWorld, position: Position, jobs: float) -> None:
    """Set the performance of a node from now on, also after a restart."""
    world.jobs[position] = jobs
    world.feed(position, Performance(jobs))


def dwelling(site_of: Mapping[Position, int], fanout: int = 4, guest_slots: int = 4) -> SmallWorld:
    """A world by latency with nodes at these sites, all just started."""
    world = SmallWorld.empty(fanout, "10.0.0.0/24", mapping="latency", guest_slots=guest_slots)
    world.fate = lambda source, target, _message: world.weather.fate(source, target)
    world.weather.site_of = dict(site_of)
    world.start_all(site_of)
    return world


def wide_edges(world: SmallWorld) -> list[tuple[Position, Position]]:
    """(subordinate, leader) at different sites."""
    site_of = world.weather.site_of
    return [(p, leader) for p, leader in world.leaders().items() if leader and site_of[p] != site_of[leader]]


def rank_classes(world: SmallWorld) -> dict[Position, int]:
    return {position: node.context.mapping.rank_classes.own for position, node in sorted(world.nodes.items())}


def moved(world: SmallWorld, before: Mapping[Position, int]) -> dict[Position, int]:
    """Changes of leader by node since `before`."""
    return {p: n - before.get(p, 0) for p, n in world.moves().items() if n > before.get(p, 0)}


def losses(world: SmallWorld, *, but: LostCause | None = None) -> int:
    """Number of lost leaders, for any cause except `but`."""
    return sum(isinstance(notice, LeaderLost) and notice.cause != but for _, _, notice in world.notices)


def demand_order(world: SmallWorld) -> None:
    """Invariant S1, for `after_each`: a leader ranks before its subordinates by their reported classes."""
    node = world.nodes.get(world.last)
    leader = None if node is None else node.uplink.leader
    if node is None or leader is None or leader.position not in world.nodes:
        return
    above, below = world.nodes[leader.position].context, node.context
    if above.incarnation == leader.incarnation:
        ranks = [(-each.mapping.rank_classes.own, each.position) for each in (above, below)]
        assert ranks[0] < ranks[1], f"{below.position} follows {above.position} at {world.now}: {ranks}"
