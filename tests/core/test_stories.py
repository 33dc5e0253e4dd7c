"""The cases of the protocol, one test each: which nodes move, and that no others do (docs/protocol.md).

The trees are dense unless a test says otherwise: with fan-out 2, node n leads 2n and 2n + 1. At the end of each test
the roster of the root is exactly the live nodes (L3) and no node moves any more (L4).
"""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable
from random import Random

import msgspec
import pytest
from loops import over
from small_world import SmallWorld

from subord.core.events import Dropped, Healed, LeaderLost, PlaceChanged, Refused, SubordinateLost
from subord.core.messages import (
    Accept,
    Ask,
    Back,
    Beat,
    Change,
    Echo,
    Errand,
    Goodbye,
    Guidance,
    Guide,
    Message,
    No,
    Propose,
    Refuse,
    Stranger,
    Terms,
    Versions,
    Why,
    Wish,
)
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.settings import LAN
from subord.core.snapshots import roster
from subord.core.view import Liveness, Place, RosterRow
from subord.wire.codec import HEADER, Fault, encode

SILENCE_S = LAN.leader_silence_s
REST_S = 60.0  # longer than every rest of a search


def at_rest(size: int = 15, fanout: int = 2, **options: object) -> SmallWorld:
    """A dense tree at rest."""
    world = SmallWorld.dense(size, fanout, "10.0.0.0/24", **options)
    world.run(30)
    assert world.whole()
    assert world.changes() == 0
    return world


def movers(world: SmallWorld, before: dict[int, int]) -> dict[int, int]:
    """The nodes that moved since `before`, and how often. A node started since counts from zero."""
    moves = world.moves()
    return {p: n - before.get(p, 0) for p, n in moves.items() if n > before.get(p, 0)}


def assert_at_rest(world: SmallWorld) -> None:
    """L1, L3 and L4: one root that lists exactly the live nodes, and no further moves."""
    assert world.whole(), world.leaders()
    before = world.moves()
    world.run(REST_S)
    assert world.whole()
    assert movers(world, before) == {}
    for node in world.nodes.values():
        homes = [e for e in node.downlink.slots.taken.values() if e.place is Place.HOME]
        assert len(homes) <= world.settings.fanout
        assert len(node.downlink.slots.taken) - len(homes) <= world.settings.guest_slots


def cut_off(*positions: int) -> Callable[[int, int, Message], bool]:
    """Lose every message from and to these."""
    return lambda source, target, _message: source in positions or target in positions


def once(kind: type[Message], times: int = 1) -> Callable[[int, int, Message], bool]:
    """Lose the first messages of one kind."""
    left = itertools.count(times, -1)
    return lambda _source, _target, message: isinstance(message, kind) and next(left) > 0


# -- joining ----------------------------------------------------------------------------------------------------


def test_a_node_joins_with_one_exchange() -> None:
    world = at_rest(14)
    before = world.moves()
    world.sent.clear()
    world.start(15)
    world.run(0.01)
    assert world.leaders()[15] == 7
    assert world.sent["Propose"] == world.sent["Accept"] == 1
    assert world.nodes[15].search.exchanges == 1
    assert world.run_until(world.whole, within_s=1) <= 0.5  # the report reaches the root with two beats
    assert movers(world, before) == {}
    assert_at_rest(world)


def test_a_node_waits_for_a_home_that_is_a_little_late() -> None:
    world = SmallWorld.empty(2)
    world.start_all((1, 2, 3, 6, 7))
    world.run(5)
    world.hosts.add(5)
    world.start(10)  # its home is 5
    world.run(LAN.patience_s - 0.5)
    assert world.nodes[10].place is None
    assert world.nodes[10].search.exchanges == 0  # it has asked no other node
    world.start(5)
    world.run(1)
    assert world.leaders()[10] == 5
    assert world.nodes[10].leader_changes == 0
    assert_at_rest(world)


def test_a_home_whose_host_is_silent_is_waited_for_only_until_others_have_answered() -> None:
    world = SmallWorld.empty(2)
    world.start_all((1, 2, 3))
    world.run(5)
    world.start(10)
    took_s = world.run_until(lambda: world.nodes[10].place is Place.GUEST, within_s=2 * LAN.patience_s)
    assert 2 * LAN.answer_s <= took_s < LAN.patience_s
    world.run(1)
    assert_at_rest(world)


# -- death and return -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["unreachable", "closed", "silence"])
def test_an_interior_node_dies_and_only_its_subordinates_move(how: str) -> None:
    world = at_rest()
    before = world.moves()
    {"unreachable": world.kill, "closed": world.crash, "silence": world.vanish}[how](3)
    bound_s = SILENCE_S + 1 if how != "closed" else LAN.restart_grace_s + 0.5
    healed_s = world.run_until(lambda: world.leaders()[6] not in (0, 3) and world.leaders()[7] not in (0, 3), bound_s)
    assert healed_s >= LAN.restart_grace_s
    world.run(SILENCE_S + 1)
    assert movers(world, before) == {6: 1, 7: 1}
    causes = {n.cause for n in world.noticed(LeaderLost)}
    assert causes == {"silence" if how == "silence" else how.replace("unreachable", "refused")}
    assert {n.position for n in world.noticed(SubordinateLost)} == {3}
    assert len(world.noticed(Healed)) == 2
    rows = {row.position: row.liveness for row in roster_of_root(world)}
    assert rows.pop(3) is Liveness.MISSING
    assert set(rows.values()) == {Liveness.LIVE}
    assert_at_rest(world)


@pytest.mark.parametrize("how", ["kill", "crash", "vanish"])
def test_an_interior_node_returns_and_its_subordinates_go_home(how: str) -> None:
    world = at_rest()
    getattr(world, how)(3)
    world.run(30)
    before = world.moves()
    world.start(3)
    world.run_until(lambda: world.leaders()[6] == world.leaders()[7] == 3, within_s=2)
    world.run(1)
    assert movers(world, before) == {6: 1, 7: 1}
    assert world.nodes[3].leader_changes == 0
    assert world.places() == {Place.ROOT: 1, Place.HOME: 14}
    assert_at_rest(world)


def test_a_leaf_dies_and_no_node_moves() -> None:
    world = at_rest()
    before = world.moves()
    world.vanish(11)
    world.run(2 * SILENCE_S)
    assert movers(world, before) == {}
    assert_at_rest(world)


@pytest.mark.parametrize("how", ["kill", "crash", "vanish"])
def test_the_root_dies_and_the_lowest_of_the_rest_takes_over(how: str) -> None:
    world = at_rest()
    before = world.moves()
    getattr(world, how)(1)
    world.run_until(world.whole, within_s=SILENCE_S + 2 * LAN.search_interval_s_max)
    assert world.roots() == [2]
    assert set(movers(world, before)) == {2, 3}
    assert_at_rest(world)


@pytest.mark.parametrize("how", ["kill", "vanish"])
def test_the_root_returns_and_is_root_again(how: str) -> None:
    world = at_rest()
    getattr(world, how)(1)
    world.run(REST_S)
    before = world.moves()
    world.start(1)
    world.run_until(lambda: world.roots() == [1] and world.whole(), within_s=2 * LAN.search_interval_s_max)
    world.run(5)
    assert set(movers(world, before)) == {2, 3}
    assert world.places() == {Place.ROOT: 1, Place.HOME: 14}
    assert_at_rest(world)


def test_two_roots_of_a_healed_partition_merge() -> None:
    world = at_rest()
    right = {3, 6, 7, 12, 13, 14, 15}
    world.lossy = lambda source, target, _message: (source in right) != (target in right)
    world.run_until(lambda: world.roots() == [1, 3], within_s=60)
    world.run(REST_S)
    assert {p for p in right if world.leaders()[p]} == right - {3}
    before = world.moves()
    world.lossy = lambda _source, _target, _message: False
    merged_s = world.run_until(world.whole, within_s=10)  # targets.md: one root within 10 s
    assert merged_s <= 1.1 * LAN.search_interval_s_max + 1
    world.run(5)
    assert movers(world, before) == {3: 1}
    assert_at_rest(world)


def test_subordinates_hold_their_place_while_their_leader_is_an_orphan() -> None:
    world = at_rest()
    before = world.moves()
    world.lossy = cut_off(1, 2)  # 4 and 5 lose their leader and cannot reach the root: they look for others
    world.run_until(lambda: any(n.phase.value == "orphan" for n in world.nodes.values()), within_s=2 * SILENCE_S)
    world.run(0.2)
    orphans = [p for p, node in world.nodes.items() if node.phase.value == "orphan"]
    held = [p for p in world.nodes if world.shown(p).leader in orphans]
    assert held
    assert all(world.shown(p).adrift for p in held)
    world.lossy = lambda _source, _target, _message: False
    world.run(REST_S)
    assert not any(world.shown(p).adrift for p in world.nodes)
    assert set(movers(world, before)) <= {2, 3, 4, 5}  # no node with a reachable leader moves
    assert_at_rest(world)


# -- leaving and restarting -------------------------------------------------------------------------------------


def test_a_goodbye_moves_subordinates_without_detection_time() -> None:
    world = at_rest()
    before = world.moves()
    world.leave(3)
    moved_s = world.run_until(lambda: 3 not in world.leaders().values(), within_s=1)
    assert moved_s <= 0.05
    world.run_until(lambda: 3 not in world.nodes, within_s=2)
    assert world.noticed(LeaderLost) == []
    assert world.noticed(SubordinateLost) == []
    assert movers(world, before) == {6: 1, 7: 1}
    world.run(1)
    assert 3 not in {row.position for row in roster_of_root(world)}  # it said goodbye, so it is not missing
    assert_at_rest(world)


def test_no_node_is_without_a_leader_while_its_leader_leaves() -> None:
    world = at_rest()
    bare: set[int] = set()

    def watch(world: SmallWorld) -> None:
        bare.update(p for p in (6, 7) if world.nodes[p].uplink.leader is None)

    world.after_each = watch
    world.leave(3)
    world.run(5)
    assert bare == set()


def test_the_root_leaves() -> None:
    world = at_rest()
    before = world.moves()
    world.leave(1)
    world.run_until(lambda: 1 not in world.nodes and world.whole(), within_s=10)
    assert world.roots() == [2]
    assert set(movers(world, before)) == {2, 3}
    world.run(5)
    assert_at_rest(world)


def test_a_lone_node_leaves_at_once() -> None:
    world = SmallWorld.dense(1, 2)
    world.run(1)
    world.leave(1)
    assert world.nodes == {}


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_a_restart_within_the_grace_makes_no_orphan(how: str) -> None:
    world = at_rest()
    leaders, before = world.leaders(), world.moves()
    getattr(world, how)(3)
    world.run(0.6 * LAN.restart_grace_s)
    world.start(3)
    world.run(SILENCE_S + 1)
    assert world.leaders() == leaders
    assert movers(world, before) == {}
    assert world.noticed(LeaderLost) == []
    assert world.nodes[6].uplink.leader is not None
    assert world.nodes[6].uplink.leader.incarnation == 2000
    assert_at_rest(world)


def test_a_paused_interior_node_resumes_and_no_second_wave_follows() -> None:
    """flux-framework/flux-core#638: after a pause a node must not judge its subordinates by that time."""
    world = at_rest()
    before = world.moves()
    world.pause(2)
    world.run(30)
    assert movers(world, before) == {4: 1, 5: 1}
    before = world.moves()
    world.resume(2)
    world.run(5)
    assert movers(world, before) == {4: 1, 5: 1}, "home again, once"
    assert world.places() == {Place.ROOT: 1, Place.HOME: 14}
    assert not any(n.cause == "silence" for n in world.noticed(SubordinateLost, 2))
    assert_at_rest(world)


@pytest.mark.parametrize("pause_s", [0.3, 0.7, 1.5])
def test_a_short_pause_causes_no_move(pause_s: float) -> None:
    """Shorter than the shortest wait of others, attempts * answer_s = 2 s; also too short for the node to notice."""
    world = at_rest()
    before = world.moves()
    world.pause(2)
    world.run(pause_s)
    world.resume(2)
    world.run(5)
    assert movers(world, before) == {}
    assert_at_rest(world)


def test_the_whole_cluster_pauses_and_no_node_is_lost() -> None:
    world = at_rest()
    before = world.moves()
    for position in list(world.nodes):
        world.pause(position)
    world.run(30)
    for position in list(world.nodes):
        world.resume(position)
    world.run(5)
    assert movers(world, before) == {}
    assert_at_rest(world)


# -- strangers and older incarnations ---------------------------------------------------------------------------


def recorded(world: SmallWorld) -> list[tuple[int, int, Message]]:
    """All messages sent from now on."""
    said: list[tuple[int, int, Message]] = []

    def listen(source: int, target: int, message: Message) -> bool:
        said.append((source, target, message))
        return False

    world.lossy = listen
    return said


def test_a_beat_of_a_stranger_is_answered() -> None:
    world = at_rest(3)
    said = recorded(world)
    world.tell(9, 1, Beat(7, 1000, 41, 500, 0))
    assert said == [(1, 9, Stranger(1000, 41))]
    assert_at_rest(world)


def test_a_beat_for_an_older_incarnation_is_answered_with_stranger() -> None:
    world = at_rest(3)
    said = recorded(world)
    world.tell(2, 1, Beat(1000, 999, 41, 500, 0))
    assert said == [(1, 2, Stranger(1000, 41))]


def test_an_unrequested_stranger_causes_no_move() -> None:
    world = at_rest(3)
    said = recorded(world)
    world.tell(1, 2, Stranger(1000, 12345))  # 2 sent no beat of that number
    assert said == []
    assert world.noticed(Dropped, 2) == [Dropped("unexpected")]


GUIDANCE = Guidance(999, (1, 99), (98,), (97,), adrift=True)
ROW = Change(60, 6, 2, 1000, 9, 0)
TERMS = Terms("10.0.0.0/24", 2, 2, "ip", "complete", "lan")
OLDER: list[tuple[int, int, Message]] = [
    # (source, target, message of an older incarnation of the source)
    (6, 3, Propose(500, 77, TERMS, Wish.HOME)),
    (6, 3, Beat(500, 1000, 10**6, 500, 0, (ROW,), (12,))),
    (6, 3, Goodbye(500, Why.LEFT)),
    (6, 3, Goodbye(500, Why.MOVED)),
    (3, 6, Goodbye(500, Why.LEAVING, (2,))),
    (3, 6, Goodbye(500, Why.DISPLACED, (2,))),
    (3, 6, Guide(500, GUIDANCE)),
    (3, 6, Echo(500, 0, GUIDANCE)),
    (3, 6, Accept(500, 0, GUIDANCE)),
    (3, 6, Refuse(500, 0, No.FULL, "", 0, (2,), 0)),
    (1, 3, Errand(500, 7, (60,))),
]


@pytest.mark.slow
@over("later", [False, True])
@over(("source", "target", "message"), OLDER)
def test_s4_messages_of_older_incarnations_change_nothing(
    source: int, target: int, message: Message, later: bool
) -> None:
    world = at_rest()
    if later:  # both ends have restarted: messages of the first incarnation are old
        for position in (source, target):
            world.crash(position)
            world.run(0.1)
            world.start(position)
            world.run(10)
        message = msgspec.structs.replace(message, incarnation=1000)
    node = world.nodes[target]
    if isinstance(message, Echo):  # it must name a pending beat
        assert node.uplink.leader is not None
        world.lossy = cut_off(source)
        pending = node.uplink.leader.pending
        world.run_until(lambda: len(pending) == 1, within_s=3)
        message = msgspec.structs.replace(message, number=next(iter(pending)))
    before = deep(node)
    world.tell(source, target, message)
    assert deep(node) == before


def test_the_deep_comparison_sees_a_beat() -> None:
    """A comparison that cannot fail would prove nothing."""
    world = at_rest()
    before = deep(world.nodes[3])
    world.tell(6, 3, Beat(1000, 1000, 10**6, 500, 0))
    assert deep(world.nodes[3]) != before


# The clock, the actions, links between the parts (each part is visited from the node), and caches of addresses.
UNCOUNTED = {"now", "heard_at", "actions", "_context", "_roster", "_following", "_positions", "_addresses"}


def deep(value: object) -> object:  # noqa: PLR0911 - one return a kind reads best
    """The whole state of a node as plain values, without its token buckets."""
    if isinstance(value, TokenBucket | types.MethodType | types.FunctionType):
        return None
    if isinstance(value, Random):
        return value.getstate()
    if isinstance(value, dict):
        return [(deep(k), deep(v)) for k, v in value.items()]
    if isinstance(value, list | tuple | set):
        return [deep(each) for each in value]
    if isinstance(value, msgspec.Struct):
        return [deep(each) for each in msgspec.structs.astuple(value)]
    if not type(value).__module__.startswith("subord.core") or isinstance(value, enum.Enum):
        return repr(value)
    names = (*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ()))
    return [(name, deep(getattr(value, name))) for name in names if name not in UNCOUNTED]


# -- guests and displacement ------------------------------------------------------------------------------------


def test_displacement_with_one_guest_slot() -> None:
    """Ten nodes at the end of the range: no home lives, one guest slot each, so they form a line."""
    world = SmallWorld.empty(2, "10.0.0.0/24", guest_slots=1)
    world.start_all(range(240, 250), known=(240,))
    world.run(60)
    assert world.leaders() == {240: 0} | {p: p - 1 for p in range(241, 250)}
    before = world.moves()
    world.start(239, known=(240,))  # it becomes root, and 240 its guest
    world.start(238, known=(240,))
    world.run_until(lambda: world.roots() == [238] and world.whole(), within_s=REST_S)
    world.run(REST_S)
    assert world.leaders() == {238: 0} | {p: p - 1 for p in range(239, 250)}
    assert "displaced" in {n.cause for n in world.noticed(LeaderLost)}
    assert set(movers(world, before)) <= {239, 240}
    assert_at_rest(world)


@pytest.mark.slow
def test_fan_out_is_never_more_than_home_and_guest_slots() -> None:
    world = SmallWorld.empty(2, "10.0.0.0/16", guest_slots=2)
    positions = Random(3).sample(range(1, 65000), 60)
    most = 0

    def watch(world: SmallWorld) -> None:
        nonlocal most
        if world.last in world.nodes:
            most = max(most, len(world.nodes[world.last].downlink.slots.taken))

    world.after_each = watch
    world.start_all(positions, known=(min(positions),))
    world.run_until(world.whole, within_s=REST_S)
    world.run(5 * REST_S)  # guests still find nearer places for some minutes
    assert most == 2  # all are guests here: no home lives
    assert_at_rest(world)


# -- other settings and versions --------------------------------------------------------------------------------


def test_another_fan_out_is_refused_and_noted_on_both_sides() -> None:
    world = at_rest(14)
    before = world.moves()
    world.own_settings[15] = msgspec.structs.replace(world.settings, fanout=8, guest_slots=8)
    world.start(15)  # with fan-out 8 its computed leader is 2
    world.run(20)
    assert world.shown(15).leader is None
    assert {(r.by, r.reason) for r in world.shown(15).refusals} == {
        ("them", "fan-out 2, we use 8; guest slots 2, we use 8")
    }
    ours = world.shown(2).refusals
    assert [(r.address, r.by, r.reason) for r in ours] == [
        ("10.0.0.15", "us", "fan-out 8, we use 2; guest slots 8, we use 2")
    ]
    assert len(world.noticed(Refused, 2)) == 1  # noted once, counted each time
    assert ours[0].times >= 1
    assert movers(world, before) == {}
    del world.nodes[15]
    assert_at_rest(world)


def test_an_unknown_wire_version_is_answered_with_versions() -> None:
    world = at_rest(3)
    before = world.moves()
    world.deliver(2, 1, b"\x73\x07" + encode(Back(1, 1))[2:])
    world.run(0.01)
    assert world.dropped == {Fault.VERSION.value: 1}
    assert [(r.address, r.by) for r in world.shown(1).refusals] == [("10.0.0.2", "us")]
    assert world.shown(2).refusals == ()  # it also speaks version 1
    world.deliver(1, 2, HEADER + b"\x92\x0c\x91\x07")  # versions: 7
    assert [(r.address, r.by) for r in world.shown(2).refusals] == [("10.0.0.1", "them")]
    assert "versions [7]" in world.shown(2).refusals[0].reason
    said = recorded(world)
    world.tell(2, 1, Versions((7, 8)))  # such an answer is not answered
    assert said == []
    assert world.dropped == {Fault.VERSION.value: 1}
    assert movers(world, before) == {}
    assert_at_rest(world)


# -- lost, doubled and late messages ----------------------------------------------------------------------------


@pytest.mark.slow
@over("times", [1, 2, 5])
@over("kind", [Propose, Accept, Beat, Echo])
def test_a_lost_message_while_joining_is_repeated(kind: type[Message], times: int) -> None:
    world = at_rest(14)
    world.lossy = once(kind, times)
    world.start(15)
    world.run_until(lambda: world.leaders()[15] == 7 and world.whole(), within_s=LAN.patience_s + SILENCE_S)
    assert world.nodes[15].leader_changes == 0
    world.run(SILENCE_S)
    assert_at_rest(world)


@pytest.mark.slow
@over("kind", [Echo, Beat, Back, Guide, Goodbye, Accept, Propose, Ask, Refuse])
def test_a_lost_message_while_healing_is_repeated(kind: type[Message]) -> None:
    world = at_rest()
    world.lossy = once(kind, 3)
    world.crash(3)
    world.run(20)
    world.start(3)
    world.run(REST_S)
    assert world.leaders()[6] == world.leaders()[7] == 3
    assert_at_rest(world)


@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_goodbye_is_repeated(times: int) -> None:
    world = at_rest()
    before = world.moves()
    world.lossy = once(Goodbye, times)
    world.leave(3)
    world.run_until(lambda: 3 not in world.nodes and world.whole(), within_s=5)
    assert world.noticed(LeaderLost) == []
    assert movers(world, before) == {6: 1, 7: 1}
    assert_at_rest(world)


def test_without_any_goodbye_the_node_is_lost_as_after_a_death() -> None:
    world = at_rest()
    world.lossy = once(Goodbye, 10**6)
    world.leave(3, grace_s=1.0)
    world.run(1.5)
    assert 3 not in world.nodes
    world.lossy = lambda _source, _target, _message: False
    world.run(2 * SILENCE_S)
    assert_at_rest(world)


def test_echoes_lost_for_less_than_the_silence_cause_no_move() -> None:
    world = at_rest()
    before = world.moves()
    world.lossy = lambda source, target, message: (source, target, type(message)) == (3, 6, Echo)
    world.run((LAN.attempts - 1) * LAN.answer_s)
    world.lossy = lambda _source, _target, _message: False
    world.run(5)
    assert movers(world, before) == {}
    assert_at_rest(world)


@pytest.mark.parametrize("seed", range(4))
def test_doubled_and_reordered_messages_do_no_harm(seed: int) -> None:
    world = SmallWorld.empty(2, "10.0.0.0/24", seed=seed)
    world.copies = lambda _message: world.chance.randint(1, 3)
    world.delay_of = lambda _message: world.chance.expovariate(1 / 0.02)  # later ones overtake
    world.start_all(range(1, 16))
    world.run_until(world.whole, within_s=10)
    world.run(10)
    assert world.changes() == 0
    world.crash(2)
    world.run(10)
    assert world.whole()
    world.start(2)
    world.run(30)
    assert world.places() == {Place.ROOT: 1, Place.HOME: 14}
    assert_at_rest(world)


# -- at rest ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("size", "fanout"), [(15, 2), (73, 8), (200, 8)])
def test_rest_costs_a_constant_per_node(size: int, fanout: int) -> None:
    world = SmallWorld.dense(size, fanout)
    world.run(60)
    assert all(
        node.uplink.leader is None or node.uplink.leader.interval.delay_s == LAN.beat_interval_s
        for node in world.nodes.values()
    )
    world.sent.clear()
    world.run(60)
    assert set(world.sent) == {"Beat", "Echo"}
    rate = sum(world.sent.values()) / 60 / size
    assert rate <= 1.1
    assert 0.8 * 2 / LAN.beat_interval_s <= rate <= 1.1 * 2 / LAN.beat_interval_s


def test_beats_become_rarer_while_nothing_changes() -> None:
    world = SmallWorld.dense(3, 2)
    sent_at: list[float] = []
    world.lossy = lambda source, _target, message: bool(
        source == 3 and isinstance(message, Beat) and sent_at.append(world.now)
    )
    world.run(30)
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent_at)]
    assert gaps[0] <= 1.1 * LAN.beat_interval_s_min + 0.01
    assert LAN.beat_interval_s_min < LAN.beat_interval_s
    assert 0.9 * LAN.beat_interval_s <= min(gaps[-5:]) <= max(gaps[-5:]) <= 1.1 * LAN.beat_interval_s + 0.01


def test_the_first_place_is_change_number_zero() -> None:
    world = at_rest(3)
    assert [(n.place, n.leader, n.changes) for n in world.noticed(PlaceChanged, 2)] == [(Place.HOME, 1, 0)]


def roster_of_root(world: SmallWorld) -> list[RosterRow]:
    (root,) = world.roots()
    return list(roster(world.nodes[root], world.now).rows)
