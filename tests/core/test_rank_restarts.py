"""Restarts and late messages where ranks follow performance (docs/protocol.md, section 7)."""

from __future__ import annotations

import pytest
from measured_world import REST_S, demand_order, falling, losses, moved, performing, performs, rank_classes
from small_world import SmallWorld

from subord.core.events import Neighbourhood
from subord.core.messages import (
    Accept,
    Advice,
    Beat,
    Change,
    Echo,
    Goodbye,
    Message,
    No,
    Propose,
    Refuse,
    Terms,
    Wish,
)
from subord.core.quantize import class_of
from subord.core.settings import LAN
from subord.core.snapshots import neighbourhood

JOBS = falling(15)
SOON_S = 5.0


@pytest.fixture
def world() -> SmallWorld:
    """Fifteen nodes at rest, the lowest position the best."""
    world = performing(JOBS)
    world.after_each = lambda _world: demand_order(world)
    return world


# -- restarts and late messages -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_leader_that_restarts_with_another_class_is_not_followed_before_it_has_accepted(world: SmallWorld) -> None:
    """It has lost its class, so its former subordinates outrank it now."""
    led = set(world.nodes[2].downlink.slots.taken)
    world.jobs.pop(2)
    world.crash(2)
    world.start(2)
    world.run(0.3)
    incarnation = world.nodes[2].context.incarnation
    for position in led:
        leader = world.nodes[position].uplink.leader
        assert leader is None or (leader.position, leader.incarnation) != (2, incarnation)
    world.run(REST_S)
    assert world.whole()
    assert not set(world.nodes[2].downlink.slots.taken) & led


@pytest.mark.slow
def test_a_leader_that_remembers_its_class_is_followed_again(world: SmallWorld) -> None:
    led, before = set(world.nodes[2].downlink.slots.taken), world.moves()
    remembered = neighbourhood(world.nodes[2])
    assert remembered is not None
    world.disks._of[2] = remembered
    world.crash(2)
    world.start(2)
    world.run_until(lambda: set(world.nodes[2].downlink.slots.taken) == led, within_s=SOON_S)
    world.run(REST_S)
    assert not led & set(moved(world, before))
    assert losses(world) == 0


@pytest.mark.slow
def test_a_proposal_by_an_older_class_is_withdrawn(world: SmallWorld) -> None:
    """15 asks 1 with a high class, and is slow before the answer arrives: it returns the place."""
    late: list[tuple[int, int, Message]] = []

    def hold(source: int, target: int, message: Message) -> bool:
        if target == 15 and isinstance(message, Accept):
            late.append((source, target, message))
            return True
        return False

    world.lossy = hold
    performs(world, 15, JOBS[2] * 1.1)
    world.run_until(lambda: bool(late), within_s=SOON_S)
    leader = world.leaders()[15]
    performs(world, 15, 1e-3)
    assert rank_classes(world)[15] == class_of(1e-3)
    world.lossy = lambda *_: False
    world.tell(*late[0])
    world.run(0.05)
    assert (world.leaders()[15], rank_classes(world)[15]) == (leader, class_of(1e-3))
    assert 15 not in world.nodes[late[0][0]].downlink.slots.taken
    world.run(REST_S)
    assert world.whole()


def test_a_subordinate_that_has_sunk_need_not_leave() -> None:
    """Its row states the lower class; to rise it proposes anew."""
    world = performing({1: 1e9})
    leader, terms = world.nodes[1], Terms.of(world.settings)
    world.tell(15, 1, Propose(5, 10, terms, Wish.GUEST, standing=140))
    assert leader.downlink.slots.outranking(120) == [15]
    for number, standing in ((11, 140), (12, 100)):
        row = Change(15, 1, 2, 5, 0, 0, standing=standing)
        world.tell(15, 1, Beat(5, leader.context.incarnation, number, 1000, 0, (row,)))
    assert leader.downlink.slots.outranking(120) == []


def test_a_beat_from_before_the_rise_does_not_lower_the_new_class() -> None:
    """15 proposes to its own leader with a better class, and sends a beat before the acceptance arrives."""
    world = performing({1: 1e9})
    leader = world.nodes[1]
    terms, life = Terms.of(world.settings), leader.context.incarnation
    low, high = 100, 140

    def row(standing: int) -> tuple[Change, ...]:
        return (Change(15, 1, 2, 5, 0, 0, standing=standing),)

    world.tell(15, 1, Propose(5, 10, terms, Wish.GUEST, standing=low))
    world.tell(15, 1, Propose(5, 20, terms, Wish.GUEST, standing=high))
    world.tell(15, 1, Beat(5, life, 21, 1000, 0, row(low)))
    world.tell(15, 1, Beat(5, life, 22, 1000, 0, row(high)))
    assert leader.downlink.slots.outranking(120) == [15], "the leader would sink below a subordinate"


def test_a_refused_rise_does_not_cost_the_leader() -> None:
    """The root does not know yet that the leader is about to sink: it refuses the new class, not the node."""
    world = performing({1: 1e9, 2: 1e3})
    said: list[Propose] = []

    def swallow(source: int, _target: int, message: Message) -> bool:
        if source == 2 and isinstance(message, Propose):
            said.append(message)
            return True
        return False

    world.lossy = swallow
    performs(world, 2, 1e5)
    world.run_until(lambda: bool(said), within_s=SOON_S)
    life = world.nodes[1].context.incarnation
    world.tell(1, 2, Refuse(life, said[0].exchange, No.RANK, "only a lower rank may lead", 0, (), 0, 100))
    world.lossy = lambda *_: False
    assert losses(world) == 0


def test_a_refusal_names_places_for_the_proposed_class() -> None:
    """The root is full: the asker is told of nodes that outrank it, and of no others."""
    world = performing({1: 1e12, 2: 1e9, 3: 1e8})
    root, outranked = world.nodes[1], class_of(1e3)
    for position in (11, 12):
        root.downlink.on_propose(position, Propose(1, 1, Terms.of(world.settings), Wish.GUEST, standing=outranked))
    root.context.actions.clear()
    heard: list[Refuse] = []

    def note(_source: int, target: int, message: Message, _copies: int) -> None:
        heard.extend([message] if target == 99 and isinstance(message, Refuse) else [])

    world.on_message = note
    world.tell(99, 1, Propose(1, 1, Terms.of(world.settings), Wish.GUEST, standing=class_of(1e6)))
    (refused,) = heard
    assert set(refused.hints) & {2, 3}
    assert not set(refused.hints) & {11, 12}


def test_a_class_beyond_bounds_is_never_sent() -> None:
    """Whatever the file on disk says: others would drop every message."""
    world = performing({1: 1e9})
    world.disks._of[2] = Neighbourhood(1, 1, (1,), (), 300)
    world.start_all((2,))
    world.run(REST_S)
    assert not world.dropped
    assert world.whole()


def test_dismissed_subordinates_hear_of_siblings_with_room(world: SmallWorld) -> None:
    """2 stands too high: it moves alone, and its subordinates may ask its siblings that have room."""
    node = world.nodes[2]
    leader = node.uplink.leader
    assert leader is not None
    assert leader.guidance.siblings == (3,)
    goodbyes: list[tuple[int, Message]] = []
    world.on_message = lambda source, target, message, _copies: goodbyes.extend(
        [(target, message)] if source == 2 and isinstance(message, Goodbye) else []
    )
    led = sorted(node.downlink.slots.taken)
    node.optimizer.choose(Advice(1, 1, False, 1, (5,), 0, (3,), wanted=4))
    world.run_until(lambda: goodbyes, within_s=LAN.beat_interval_s + LAN.answer_s)  # with what it does next
    assert sorted({target for target, _ in goodbyes}) == led != []
    assert all(isinstance(each, Goodbye) and each.alternates == (3,) for _, each in goodbyes)


@pytest.mark.parametrize("older", [0, 1])
@pytest.mark.parametrize("above", [1, 2])
def test_a_node_above_on_the_known_path_is_put_off(world: SmallWorld, above: int, older: int) -> None:
    """It would drop an acceptance whose path contains it. Or an older incarnation of it proposed."""
    node = world.nodes[4]
    assert above in node.uplink.path
    propose = Propose(
        world.nodes[above].context.incarnation - older, 1 << 32, Terms.of(world.settings), Wish.GUEST, standing=1
    )
    heard: list[Message] = []
    world.on_message = lambda _source, target, message, _copies: heard.append(message) if target == above else None
    world.tell(above, 4, propose)
    refusals = [each for each in heard if isinstance(each, Refuse)]
    assert [each.no for each in refusals] == [No.BUSY]
    assert refusals[0].retry_ms > 0
    assert above not in node.downlink.slots.taken


def test_an_echo_that_answers_no_beat_of_ours_changes_nothing(world: SmallWorld) -> None:
    """It named a round trip that was never measured (seed 666, performance)."""
    node = world.nodes[4]
    leader = node.uplink.leader
    assert leader is not None
    row = node.roster.rows[4][1].change
    assert row.round_trip
    node.uplink._round_trips.clear()  # as with a new leader
    world.tell(leader.position, 4, Echo(leader.incarnation, 1, None))
    assert node.roster.rows[4][1].change == row


@pytest.mark.parametrize("doubt", ["slept", "stranger"])
def test_a_node_accepts_none_while_its_leader_may_follow_another(world: SmallWorld, doubt: str) -> None:
    """The leader may have sunk, and follow the very node that proposes: a cycle (seed 1018, performance)."""
    node, proposer = world.nodes[4], 15
    leader = node.uplink.leader
    assert leader is not None
    assert proposer not in node.downlink.slots.taken
    if doubt == "slept":
        node.uplink.on_own_sleep()
    else:
        node.uplink.on_stranger(leader.incarnation)
    refused = asked_for_a_place(world, proposer, 4, 1 << 32)
    assert isinstance(refused, Refuse)
    assert refused.no is No.BUSY
    world.run(1.0)
    assert isinstance(asked_for_a_place(world, proposer, 4, 1 << 33), Accept)


def test_a_leader_that_answers_stranger_for_long_is_lost(world: SmallWorld) -> None:
    """It puts proposals off because the node stands above it, as it believes: so did three nodes (seed 20224)."""
    node = world.nodes[4]
    leader = node.uplink.leader
    assert leader is not None
    assert node.uplink.on_stranger(leader.incarnation)
    node.context.now += world.settings.timing.host_patience_s
    assert node.uplink.on_stranger(leader.incarnation)
    node.context.now += 0.1
    assert not node.uplink.on_stranger(leader.incarnation)


def test_a_node_that_may_not_follow_is_refused_while_the_leader_is_in_doubt(world: SmallWorld) -> None:
    """Put off, it would go on following a leader below itself."""
    node = world.nodes[4]
    node.uplink.on_own_sleep()
    heard: list[Message] = []
    world.on_message = lambda sender, _target, message, _copies: heard.append(message) if sender == 4 else None
    own = world.nodes[15].context.incarnation
    proposal = Propose(own, 1 << 32, Terms.of(world.settings), Wish.GUEST, standing=255)
    world.tell(15, 4, proposal)
    assert [each.no for each in heard if isinstance(each, Refuse)] == [No.RANK]


def asked_for_a_place(world: SmallWorld, source: int, target: int, exchange: int) -> Message:
    """The answer of the target."""
    heard: list[Message] = []
    world.on_message = lambda sender, _target, message, _copies: heard.append(message) if sender == target else None
    incarnation = world.nodes[source].context.incarnation
    world.tell(source, target, Propose(incarnation, exchange, Terms.of(world.settings), Wish.GUEST, standing=1))
    return next(each for each in heard if isinstance(each, Accept | Refuse))
