"""L1 to L6 of docs/protocol.md, section 8: what must hold some time after the last fault, and the bounds of that
time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import ceil, inf

import msgspec

from subord.core.settings import Settings
from subord.core.view import Position
from subord.sim import limits
from subord.sim.checkers import oracle
from subord.sim.limits import JITTER
from subord.sim.violation import Violation
from subord.sim.world.world import World

LOOK_EVERY_S = 0.25

Parts = list[list[Position]]
Complaint = str | None


def parts(world: World) -> Parts:
    """The living nodes by the part of the network in which they reach each other."""
    found: defaultdict[int, list[Position]] = defaultdict(list)
    for position in world.living():
        if position not in world.own_settings:
            found[world.weather.group_of(position)].append(position)
    return list(found.values())


def one_root(world: World, part: list[Position]) -> Complaint:
    """L1: the node of the lowest rank is root, and every other node has a leader in the same part."""
    members, lowest = set(part), lowest_of(world, part)
    roots = [p for p in part if world.leader_of(p) == 0]
    if roots != [lowest] or world.nodes[lowest].place is None:
        return f"roots are {roots[:8]}, the lowest is {lowest}"
    astray = [(p, world.leader_of(p)) for p in part if p != lowest and world.leader_of(p) not in members]
    return f"have no leader here:  {astray[:8]}" if astray else None


def lowest_of(world: World, part: list[Position]) -> Position:
    """The node of the lowest rank."""
    if world.settings.mapping != "performance":
        return part[0]
    return min(part, key=lambda p: (-world.nodes[p].context.mapping.rank_classes.own, p))


def all_rank_right(world: World, part: list[Position]) -> Complaint:
    """L6: a node has the class of its machine's true performance, unless its budget of moves is spent."""
    wrong = []
    for position in part if world.settings.mapping == "performance" else ():
        node, jobs = world.nodes[position], world.jobs.get(position)
        standing = node.context.mapping.rank_classes.own
        if jobs is not None and not limits.is_class_of(standing, jobs) and not node.optimizer.budget.held:
            wrong.append((position, jobs, standing))
    return f"(node, jobs of its machine, class by which it stands): {wrong[:8]}" if wrong else None


def all_at_home(world: World, part: list[Position]) -> Complaint:
    """L2: each node whose computed leader lives stands below it."""
    if not limits.has_homes(world.settings):
        return None
    numbers = {world.numbers.get(p, p): p for p in part}
    wanted = oracle.homes(world.settings, numbers)
    away = [
        (p, world.leader_of(p))
        for n, p in numbers.items()
        if n in wanted and world.leader_of(p) != numbers[wanted[n]]
    ]
    return f"not at home, but with: {away[:8]}" if away else None


def right_roster(world: World, part: list[Position]) -> Complaint:
    """L3: the root lists exactly the living nodes, each below the leader that it has."""
    roster = world.nodes[lowest_of(world, part)].roster
    listed = {p: claim.change for p, (_, claim) in roster.rows.items() if not claim.change.missing}
    if listed.keys() != set(part):
        lacking, dead = sorted(set(part) - listed.keys()), sorted(listed.keys() - set(part))
        return f"the root's roster lacks {lacking[:8]} and has {dead[:8]} too many"
    wrong = [p for p in part if listed[p].leader != world.leader_of(p)]
    if wrong:
        return f"the root has an old leader of {wrong[:8]}"
    former = [p for p in part if listed[p].incarnation != world.nodes[p].context.incarnation]
    return f"the root lists a former life of {former[:8]}" if former else None


def right_paths(world: World, part: list[Position]) -> Complaint:
    """L3 downwards: the path of every node is its leader's path and the leader."""
    wrong = []
    for position in part:
        if world.leader_of(position) == 0:
            continue
        leader, path = world.leader_of(position), world.nodes[position].uplink.path
        above = (*world.nodes[leader].uplink.path, leader)
        if len(above) < limits.PATH and path != above:
            wrong.append((position, path))
    return f"have a path other than the leader's: {wrong[:4]}" if wrong else None


def right_alternates(world: World, part: list[Position]) -> Complaint:
    """L3: the alternates of a node include all nodes above its leader, and living nodes only."""
    members, wrong = set(part), []
    for position in part:
        leader = world.nodes[position].uplink.leader
        if leader is None or leader.position not in members:
            continue
        alternates, above = leader.guidance.alternates, world.nodes[leader.position].uplink.path
        full = len(alternates) >= limits.ALTERNATES
        if not members.issuperset(alternates) or not (full or set(alternates).issuperset(above)):
            wrong.append((position, alternates))
    return f"know the wrong alternates: {wrong[:4]}" if wrong else None


CHECKERS: tuple[tuple[str, Callable[[World, list[Position]], Complaint]], ...] = (
    ("L1", one_root),
    ("L2", all_at_home),
    ("L3", right_roster),
    ("L3", right_paths),
    ("L3", right_alternates),
    ("L6", all_rank_right),
)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Longest times in seconds after the last fault (docs/protocol.md, section 8, quotes this)."""

    silence_s: float
    patience_s: float
    probing_s: float
    climb_s: float
    report_s: float
    quiet_s: float
    fast_s: float  # fast probing, with a rest before each row

    @classmethod
    def of(cls, settings: Settings, highest: Position, nodes: int, *, announced: bool, seeded: bool) -> Bounds:
        """`highest`: the highest of the `nodes` living positions; all lower ones may have to be probed.

        They need not be when roots are `announced`, or when a seed lives.
        """
        timing = settings.timing
        probing_s = (timing.fast_probes_max + limits.NEAR_TARGETS + limits.COMMON_TARGETS) * timing.probe_gap_s
        if announced:
            probing_s += 2 * JITTER * timing.home_interval_s_max
        elif not seeded:
            probing_s += 2 * highest * timing.probe_interval_s
        poll_s = JITTER * timing.home_interval_s_max * (limits.LATENCY_RARER if settings.mapping == "latency" else 1)
        return cls(
            silence_s=limits.silence_s(settings),
            patience_s=timing.patience_s + timing.host_patience_s + timing.return_hold_s_max,
            probing_s=probing_s + JITTER * timing.search_interval_s_max,
            climb_s=2 * poll_s * (oracle.levels(settings, highest) + 1),
            report_s=(ceil(nodes / limits.ROWS_OF_A_BEAT) + nodes.bit_length()) * (timing.report_s + timing.answer_s),
            quiet_s=2 * poll_s,
            fast_s=timing.fast_probes_max * (timing.probe_gap_s + timing.patience_s / limits.TARGETS_OF_A_ROW),
        )

    @property
    def whole_s(self) -> float:
        """L1 to L4 hold after this time."""
        return 2 * self.silence_s + self.patience_s + 2 * self.probing_s + self.climb_s + self.report_s


class Healed(msgspec.Struct, frozen=True, kw_only=True):
    """Times of healing in seconds after the last fault."""

    first_s: float  # L1 and L3 held for a moment
    whole_s: float  # L1 to L3 held from then on
    settled_s: float  # the last change of place
    bound_s: float


def complaint(world: World, *, home: bool = True, paths: bool = False) -> tuple[str, str] | None:
    """(name, text) of the first of L1 to L3 that does not hold now; None: all do.

    Paths travel down with echoes, one beat per level: they are checked only on demand.
    """
    for part in parts(world):
        for name, check in CHECKERS:
            wanted = (home or check is not all_at_home) and (paths or check not in (right_paths, right_alternates))
            found = check(world, part) if wanted else None
            if found is not None:
                return name, found
    return None


def bounds_of(world: World, living: list[Position]) -> Bounds:
    """Of the present world. A seed helps only its own part of the network."""
    seeded = all(not set(world.seeds).isdisjoint(part) for part in parts(world))
    return Bounds.of(world.settings, living[-1], len(living), announced=world.multicast, seeded=seeded)


def demand_wholeness(world: World, *, home: bool) -> None:
    """Let nodes notice the faults, then wait until L1 to L3 hold for one moment. Raises Violation after the bound."""
    living = list(world.living())
    if not living:
        return
    bounds = bounds_of(world, living)
    until = world.now + bounds.whole_s
    world.run(2 * bounds.silence_s)
    while (found := complaint(world, home=home)) is not None:
        if world.now > until:
            raise Violation(found[0], world.now, f"{found[1]}, and faults last")
        world.run(LOOK_EVERY_S)


def demand_healing(world: World, look_s: float = inf) -> Healed:
    """Wait until L1 to L5 hold. Raises Violation when one does not hold within its bound.

    `look_s`: looks at this moment too, so that a bound between two looks is judged exactly.
    """
    living = list(world.living())
    if not living:
        return Healed(first_s=0.0, whole_s=0.0, settled_s=0.0, bound_s=0.0)
    bounds = bounds_of(world, living)
    began = world.now
    until = began + bounds.whole_s
    first_at: float | None = None
    whole_at: float | None = None
    while True:
        found = complaint(world, paths=True)
        is_first = first_at is None and (found is None or found[0] == "L2")
        if is_first and complaint(world, home=False, paths=True) is None:
            first_at = world.now
        if found is None:
            whole_at = world.now if whole_at is None else whole_at
            if world.now - max(world.moved_at, whole_at) >= bounds.quiet_s:
                break
        else:
            whole_at = None
            if world.now > until:
                raise Violation(found[0], world.now, f"{found[1]}, {world.now - began:.1f} s after the last fault")
        if world.moved_at > until:
            raise Violation("L4", world.now, f"a leader changed {world.moved_at - began:.1f} s after the last fault")
        next_at, moment = world.now + LOOK_EVERY_S, began + look_s
        if first_at is None and world.now < moment < next_at:
            world.run(moment - world.now)
            first_at = world.now if complaint(world, home=False, paths=True) is None else None
        world.run(next_at - world.now)
    _demand_rest(world, len(living), bounds)
    assert first_at is not None
    assert whole_at is not None
    return Healed(
        first_s=first_at - began,
        whole_s=max(0.0, whole_at - began),
        settled_s=max(0.0, world.moved_at - began),
        bound_s=bounds.whole_s,
    )


def _demand_rest(world: World, nodes: int, bounds: Bounds) -> None:
    """L5: for some beats no node sends more than at rest, and none moves. A prober ends within its own bound."""
    timing = world.settings.timing
    until, calm_s = world.now + bounds.fast_s, 0.0
    # When a row of its root has changed a prober rests for `patience_s`, which may restart once, and continues.
    while calm_s <= 2 * timing.patience_s:
        fast = [p for p, node in world.nodes.items() if node.search.is_fast]
        if fast and world.now > until:
            raise Violation("L5", world.now, f"still probe at the fast pace: {fast[:8]}")
        world.run(LOOK_EVERY_S)
        calm_s = 0.0 if fast else calm_s + LOOK_EVERY_S
    for_s = 4 * timing.beat_interval_s
    before, moved_at = world.sent.total(), world.moved_at
    world.run(for_s)
    sent = world.sent.total() - before
    if world.moved_at != moved_at:
        raise Violation("L4", world.now, "a leader changed at rest")
    beats = 2 * (for_s / timing.beat_interval_s / 0.9 + 1)
    asks = 8 * (for_s / timing.home_interval_s_max / 0.9 + 1)
    rounds = for_s / timing.search_interval_s_max / 0.9 + 2
    roots = [p for p in world.nodes if world.leader_of(p) == 0]
    away = sum(world.nodes[p].roster.not_home for p in roots)
    asked = 1 + limits.LIKELY_TARGETS + limits.PEERS + limits.OTHER_PEERS + len(world.seeds)
    probes = asked * rounds + for_s / timing.probe_interval_s
    sent_max = nodes * beats + away * asks + len(roots) * probes
    if sent > sent_max:
        raise Violation(
            "L5", world.now, f"{nodes} nodes sent {sent} datagrams in {for_s:g} s, {sent_max:.0f} at rest"
        )
