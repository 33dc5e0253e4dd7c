"""L7 to L10 of docs/protocol.md, section 8: bounds of healing where no root has to probe its whole network.

Input is what a world shows between the last fault and the end of healing; output is the used share of each bound. The
bounds are formulas of this module: they take durations from the timing preset and everything else from numbers
written here, so a fault in the core does not move them. Judged are clusters that are dense, have a living seed, or
announce their roots; for all others only the bounds of liveness.py hold.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, inf, log

import msgspec

from subord.core.events import LeaderLost, Notice, PlaceChanged
from subord.core.settings import Settings
from subord.core.view import Incarnation, Position
from subord.sim import limits
from subord.sim.checkers import oracle
from subord.sim.checkers.liveness import Healed, lowest_of
from subord.sim.violation import Violation
from subord.sim.world.world import World

DENSE_HOLES_MAX = limits.NEAR_TARGETS  # empty positions below the highest: as many are probed at once
DENSE_SHARE = 0.25  # and no more of them than this share of the nodes
DOUBLINGS_MAX = 32
SILENCES = 1.25  # until a dead leader is given up, and repetitions of lost questions
LEVEL_POLLS = 0.6  # by performance, rests per level: a vacancy is found after half a rest in the mean, and then taken
RANK_POLLS = 5  # by performance: looks for a better place during which a change is recent
STRUCK_MOVES, GUEST_MOVES, SPARE_MOVES = 2, 1, 1
RANKED_MOVES = 4  # by performance for a struck node: it joins, then looks for its level
LEVEL_MOVES = 1.5  # per node whose machine has changed, and level that it may cross: its own moves, and those of the
# nodes that it leaves
CHAIN_ANSWERS = 0.5  # per guest, where one guest slot leaves only a chain, which is ordered node by node
LOW_FANOUT = 4
DEEPER, DEEPER_LOW = 2, 3  # levels below the full tree where a guest may stay; the second below LOW_FANOUT
NEARER = 2  # more by latency, which prefers a near leader to a high one
JUST_BEFORE_S = 1e-6  # of a bound, for the rounding of sums
BOUNDS = {"orphan_s": "L8", "whole_s": "L7", "settled_s": "L7", "moves": "L9", "depth": "L10"}
"""The bounded values, and their invariants."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at the moment of the last fault."""

    nodes: int
    levels: int  # of the full tree of as many nodes
    is_dense: bool
    is_seeded: bool  # a seed lives
    is_announced: bool  # roots announce themselves
    is_proven: bool  # nodes have identities, so fewer rows fit in a beat
    struck: int  # without the right root, or not below their computed leader, although it lives
    elsewhere_s: float | None  # the longest time that one of these has had another place in the right tree
    guests: int  # their computed leader does not live
    unranked: int  # by performance: without the present class of their machine, or only recently with it
    losses: int  # of its leader, at most, by one node in its present life
    is_awaited: (
        bool  # a node has had no place as yet, and a host is up without a daemon: it may be about to start one
    )
    behind: bool  # a host has the address of another one whose clock was ahead, so it is taken for a former life (S4)
    level: int  # the deepest on which one of them is at home


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What healing took. Times are seconds after the last fault."""

    whole_s: float  # L1 and L3 held for a moment
    settled_s: float  # the last change of place
    orphan_s: float  # the longest time of one node without a leader while a lower rank lived
    moves: int  # changes of leader
    depth: int  # of the tree at the end


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds L7 to L10 (docs/protocol.md, section 8, quotes this); None: only the loose bound judges."""

    whole_s: float
    settled_s: float | None
    orphan_s: float
    moves: int
    depth: int | None

    @classmethod
    def of(cls, settings: Settings, start: Start) -> Bounds:
        timing = settings.timing
        by_performance = settings.mapping == "performance"
        poll_s = _poll_s(settings)
        silence_s = limits.silence_s(settings)
        attach_s = SILENCES * silence_s + timing.patience_s + timing.answer_s
        attach_s += _hold_s(settings, start.losses) + (timing.host_patience_s if start.is_awaited else 0.0)
        if not (start.is_dense or start.is_seeded):
            attach_s += poll_s  # two roots meet at the next announcement
        if limits.guest_places(settings) == 1:
            attach_s += CHAIN_ANSWERS * timing.answer_s * start.guests
        rows = limits.PROVEN_ROWS_OF_A_BEAT if start.is_proven else limits.ROWS_OF_A_BEAT
        batches = ceil(start.nodes / rows) + start.levels
        report_s = batches * (timing.report_s + timing.answer_s)
        home_s = 0.0
        if start.elsewhere_s is not None:  # a rest is as long as all rests before it, and one more
            home_s = min(poll_s, limits.JITTER * (timing.search_interval_s + start.elsewhere_s))
        # By performance a place is refused until the changes above it are reported. By latency an orphan repeats no
        # lost question: it asks the next of the leaders whose distance it knows. Where all computed leaders
        # live, the last move waits for no repetition either: the computed leader answers the first question.
        orphan_s, repeats_s = attach_s + (report_s if by_performance else 0.0), (SILENCES - 1) * silence_s
        if settings.mapping == "latency":
            orphan_s -= repeats_s
        # The nodes that a node leaves look for their places after it, level by level.
        rank_s = LEVEL_POLLS * start.levels * poll_s if by_performance else 0.0
        return cls(
            whole_s=attach_s + rank_s + report_s + (timing.missing_keep_s if start.behind else 0.0),
            settled_s=attach_s - repeats_s + home_s if limits.has_homes(settings) and not start.guests else None,
            orphan_s=orphan_s,
            moves=(RANKED_MOVES if by_performance else STRUCK_MOVES) * start.struck
            + GUEST_MOVES * start.guests
            + int(LEVEL_MOVES * start.levels * start.unranked)
            + SPARE_MOVES,
            depth=_depth(settings, start),
        )

    def shares(self, used: Used) -> dict[str, float]:
        """The used share of each bound that judges, by name."""
        pairs = {name: (getattr(used, name), getattr(self, name)) for name in BOUNDS}
        return {
            name: took / most if most else float(took > 0) for name, (took, most) in pairs.items() if most is not None
        }


def look_s(settings: Settings, start: Start | None) -> float:
    """When to look whether the tree is whole, in seconds after the last fault: at its bound."""
    return inf if start is None else Bounds.of(settings, start).whole_s - JUST_BEFORE_S


def _poll_s(settings: Settings) -> float:
    """The longest rest between two looks for a better place."""
    return limits.JITTER * settings.timing.home_interval_s_max


def _hold_s(settings: Settings, losses: int) -> float:
    """The hold time of a home that was lost `losses` times."""
    timing = settings.timing
    doublings = min(losses - 2, DOUBLINGS_MAX)
    return 0.0 if losses < 2 else min(timing.return_hold_s * 2**doublings, timing.return_hold_s_max)


def _depth(settings: Settings, start: Start) -> int | None:
    """Of the paper's tree where all are at home; else of a full tree, and the tolerance for guests.

    With one guest slot, and leaders without free home slots, a tree is a chain.
    """
    if limits.has_homes(settings) and not start.guests:
        return start.level
    if limits.has_homes(settings) and settings.guest_slots == 1:
        return None
    slots = min(settings.fanout, limits.guest_places(settings))  # of leaders of guests only
    deeper = DEEPER if slots >= LOW_FANOUT else DEEPER_LOW
    levels = max(start.levels, ceil(log((slots - 1) * start.nodes + 1, slots)) - 1)
    return levels + deeper + (NEARER if settings.mapping == "latency" else 0)


class Watch:
    """Observes a world from its beginning; `begin` is called at the last fault, `used` after healing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pass_on = world.on_notice
        world.on_notice = self._on_notice
        self._losses: Counter[tuple[Position, int]] = Counter()  # (position, life) -> losses of the leader
        self._latest: dict[Position, Incarnation] = {}  # the highest of all lives with a place
        self._alone_since: dict[Position, float] = {}
        self._lowest: Position = 0
        self._orphan_s = 0.0
        self._moves = 0

    def begin(self) -> Start | None:
        """None: no node lives."""
        world, settings = self._world, self._world.settings
        living = world.living()
        if not living:
            return None
        lowest = self._lowest = lowest_of(world, living)
        self._moves, self._orphan_s = 0, 0.0
        self._alone_since = {p: world.now for p in living if world.leader_of(p) == 0 and p != lowest}
        numbers = {world.numbers.get(p, p): p for p in living}
        homes = oracle.homes(settings, numbers) if limits.has_homes(settings) else {}
        home_of = {numbers[n]: numbers[home] for n, home in homes.items()}
        astray = {p for p in living if self._root_of(p) != lowest}
        away = {p for p, home in home_of.items() if world.leader_of(p) != home}
        unknown = {p for p in living if not self._is_listed_above(p)}
        return Start(
            nodes=len(living),
            levels=oracle.levels(settings, len(living)),
            is_dense=living[-1] - len(living) <= min(DENSE_HOLES_MAX, DENSE_SHARE * len(living)),
            is_seeded=not set(world.seeds).isdisjoint(living),
            is_announced=world.multicast,
            is_proven=world.identities.are_on,
            struck=len(astray | away | unknown),
            elsewhere_s=max((world.clock(p) - world.nodes[p].placed_at for p in away - astray), default=None),
            guests=len(living) - 1 - len(homes),
            unranked=sum(self._is_unranked(p) for p in living) if settings.mapping == "performance" else 0,
            losses=max((self._losses[p, world.boots[p]] for p in living), default=0),
            is_awaited=any(world.nodes[p].place is None for p in living) and not world.hosts <= world.nodes.keys(),
            behind=any(self._is_behind(p) for p in living),
            level=max(oracle.levels(settings, number) for number in numbers),
        )

    def used(self, healed: Healed) -> Used:
        # By performance another node than at the last fault may be the best now.
        living = self._world.living()
        lowest = lowest_of(self._world, living) if living else 0
        alone_s = [self._world.now - at for position, at in self._alone_since.items() if position != lowest]
        return Used(
            whole_s=healed.first_s,
            settled_s=healed.settled_s,
            orphan_s=max(self._orphan_s, *alone_s, 0.0),
            moves=self._moves,
            depth=max((len(self._line(p)) for p in self._world.living()), default=1) - 1,
        )

    def _is_unranked(self, position: Position) -> bool:
        """Whether its class is no longer that of its machine, or its machine changed a short time ago."""
        world, node = self._world, self._world.nodes[position]
        jobs = world.jobs.get(position)
        if jobs is None:
            return False
        is_new = world.now - world.refitted_at.get(position, -inf) < RANK_POLLS * _poll_s(world.settings)
        return is_new or not limits.is_class_of(node.context.mapping.rank_classes.own, jobs)

    def _is_listed_above(self, position: Position) -> bool:
        """Does its leader, if it has one that lives, know that it leads it, and not another life of its address?"""
        leader = self._world.nodes.get(self._world.leader_of(position))
        if leader is None:
            return True
        taken = leader.downlink.slots.taken.get(position)
        return taken is not None and taken.incarnation == self._world.nodes[position].context.incarnation

    def _is_behind(self, position: Position) -> bool:
        """Another life with its address, or a lie, has had a higher boot number, or is listed with one."""
        own = self._world.nodes[position].context.incarnation
        rows = (node.roster.rows.get(position) for node in self._world.nodes.values())
        listed = max((row[1].change.incarnation for row in rows if row is not None), default=0)
        return position in self._world.unjudged or max(listed, self._latest.get(position, 0)) > own

    def _line(self, position: Position) -> list[Position]:
        """From a node up to its root, or to a leader that does not live."""
        line = [position]
        while (above := self._world.leader_of(line[-1])) in self._world.nodes and above not in line:
            line.append(above)
        return line

    def _root_of(self, position: Position) -> Position:
        """0: its path ends at a dead node."""
        top = self._line(position)[-1]
        return top if self._world.leader_of(top) == 0 else 0

    def _on_notice(self, position: Position, notice: Notice) -> None:
        if isinstance(notice, PlaceChanged):
            self._moves += bool(notice.changes)
            if (node := self._world.nodes.get(position)) is not None:
                self._latest[position] = max(node.context.incarnation, self._latest.get(position, 0))
        elif isinstance(notice, LeaderLost):
            self._losses[position, self._world.boots[position]] += 1
        self._time(position)  # at any notice: a node that has its leader back reports no change of place
        self._pass_on(position, notice)

    def _time(self, position: Position) -> None:
        """Start or stop the time without a leader."""
        world = self._world
        if position in world.nodes and position != self._lowest and world.leader_of(position) == 0:
            self._alone_since.setdefault(position, world.now)
        elif position in self._alone_since:
            self._orphan_s = max(self._orphan_s, world.now - self._alone_since.pop(position))


def demand(settings: Settings, start: Start | None, used: Used, at: float) -> dict[str, float]:
    """The used share of each bound that judges this cluster. Raises Violation above one.

    Empty when the faults hit no node: the shares then say nothing about a bound.
    """
    if start is None or not (start.is_dense or start.is_seeded or start.is_announced):
        return {}
    bounds = Bounds.of(settings, start)
    shares = bounds.shares(used)
    for name, share in shares.items():
        if share > 1:
            raise Violation(
                BOUNDS[name], at, f"{name}: {getattr(used, name):g}, at most {getattr(bounds, name):g}; {start}"
            )
    return shares if start.struck else {}
