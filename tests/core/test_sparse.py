"""Sparse networks: seeds, announcements, guests (docs/protocol.md, section 3).

Fan-out 2 in 10.0.0.0/16; few homes live, so most nodes are guests.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Any

import msgspec
import pytest
from loops import over
from small_world import SmallWorld

from subord.core.events import Action, Dropped, Event, Publish, Received
from subord.core.messages import Advice, Announce, Ask, Message, Propose, Terms, Wish
from subord.core.settings import LAN
from subord.core.state.states import Phase
from subord.core.timers import Timer
from subord.core.view import Place
from subord.sim.world.world import World
from subord.wire.codec import encode

SMALL_TREE = (1_000, 9_000, 17_000, 30_000, 52_000)  # a tree of nodes far from each other and from their homes
FAR = 59_000  # near none of them, and late in the common list
SEARCH_S = LAN.search_interval_s_max * 1.1  # the longest rest of a root
ANNOUNCE_S = LAN.home_interval_s_max * 1.1  # the longest rest of its announcements
REST_S = 60.0

Sent = list[tuple[float, int, int, Message]]


class RecordingWorld(SmallWorld):
    """Records announcements: (time, position, its leader)."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.announced: list[tuple[float, int, int]] = []

    def after_event(self, world: World, position: int, event: Event, actions: Sequence[Action], *_: object) -> None:  # type: ignore[override]
        self.announced += [
            (self.now, position, self.leader_of(position)) for each in actions if type(each) is Publish
        ]
        super().after_event(world, position, event)

    def record(self) -> Sent:
        """Messages sent from now on: (time, source, target, message)."""
        sent: Sent = []
        self.on_message = lambda source, target, message, _copies: sent.append((self.now, source, target, message))
        return sent


def empty(*, multicast: bool = False) -> RecordingWorld:
    world = RecordingWorld.empty(2)
    assert isinstance(world, RecordingWorld)
    world.multicast = multicast
    return world


def small_tree() -> RecordingWorld:
    """The small tree at rest, after its nodes met at a seed."""
    world = empty()
    world.seeds = SMALL_TREE[:1]
    world.start_all(SMALL_TREE)
    world.run_until(world.whole, within_s=20)
    world.run(REST_S)
    assert world.roots() == [SMALL_TREE[0]]
    world.seeds = ()
    return world


def times(sent: Sent, source: int, target: int, kind: type[Message]) -> list[float]:
    """When `source` sent such a message to `target`."""
    return [at for at, s, t, message in sent if (s, t, type(message)) == (source, target, kind)]


# -- seeds --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@over("seed", SMALL_TREE)
def test_a_seed_is_asked_and_the_root_knows_the_place(seed: int) -> None:
    world = small_tree()
    sent = world.record()
    world.seeds = (seed,)
    world.start(FAR)
    world.run_until(lambda: world.leader_of(FAR) > 0, within_s=LAN.patience_s)
    asks = [target for _, source, target, message in sent if source == FAR and isinstance(message, Ask)]
    assert [p for p in asks if p in SMALL_TREE] == list(dict.fromkeys((seed, SMALL_TREE[0])))
    (advice,) = [m for _, s, t, m in sent if (s, t) == (SMALL_TREE[0], FAR) and isinstance(m, Advice)]
    proposals = [target for _, source, target, message in sent if source == FAR and isinstance(message, Propose)]
    home = world.nodes[FAR].context.mapping.home_of(FAR)
    assert [target for target in proposals if target != home] == [advice.hints[0]] == [world.leader_of(FAR)]


def test_a_dead_seed_is_asked_again_while_there_is_no_leader() -> None:
    world = empty()
    sent = world.record()
    world.seeds = (30_000,)
    world.start(FAR)
    world.run(REST_S)
    asked_at = times(sent, FAR, 30_000, Ask)
    assert world.roots() == [FAR]
    assert max(late - early for early, late in pairwise([0.0, *asked_at, world.now])) <= SEARCH_S + LAN.answer_s
    world.seeds = ()
    world.start(30_000)
    world.run_until(lambda: world.leaders() == {30_000: 0, FAR: 30_000}, within_s=SEARCH_S + LAN.patience_s)


def test_a_seed_is_no_longer_asked_when_there_is_a_leader() -> None:
    """A guest asks its root, and no other node."""
    world = empty()
    world.seeds = (30_000,)
    world.start_all((1_000, 9_000, 30_000, FAR))
    world.run_until(world.whole, within_s=20)
    world.run(1)  # new guests ask their neighbours
    sent = world.record()
    world.run(2 * REST_S)
    assert {
        (source, target) for _, source, target, message in sent if isinstance(message, Ask) and source != 1_000
    } == {(guest, 1_000) for guest in (9_000, 30_000, FAR)}


# -- announcements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "apart_s", "within_s"),
    [
        (9_000, FAR, 0.0, 4.0),
        (FAR, 9_000, 0.0, 4.0),
        (FAR, 9_000, 2 * REST_S, 4.0),  # the new lower one announces itself at once
        (9_000, FAR, 2 * REST_S, ANNOUNCE_S + 1),  # the higher one hears the next announcement of the root
    ],
)
def test_a_root_announces_itself_and_is_found(first: int, second: int, apart_s: float, within_s: float) -> None:
    world = empty(multicast=True)
    world.start(first)
    world.run(apart_s)
    world.start(second)
    world.run_until(lambda: world.leaders() == {9_000: 0, FAR: 9_000}, within_s=within_s)
    assert world.sent["Announce"] > 0


def test_a_node_with_a_leader_does_not_announce_itself() -> None:
    world = empty(multicast=True)
    world.start_all(SMALL_TREE)
    world.run_until(world.whole, within_s=10)
    found_at = world.now
    world.run(5 * REST_S)
    assert {leader for _, _, leader in world.announced} == {0}
    assert {position for at, position, _ in world.announced if at > found_at} == {SMALL_TREE[0]}


def test_announcements_become_rare() -> None:
    world = empty(multicast=True)
    world.start(FAR)
    world.run(6 * REST_S)
    gaps = [late - early for (early, *_), (late, *_) in pairwise(world.announced)]
    planned = [min(LAN.search_interval_s * 2**k, LAN.home_interval_s_max) for k in range(len(gaps))]
    assert all(0.9 * rest <= gap <= 1.1 * rest for gap, rest in zip(gaps, planned, strict=True))
    assert len(gaps) > 10
    assert planned[-1] == LAN.home_interval_s_max


def test_a_node_that_hears_a_lower_one_does_not_announce_itself() -> None:
    """The announced root answers no question: the node stays alone, and does not announce itself."""
    world = empty(multicast=True)
    world.start(FAR)
    for _ in range(60):
        world.deliver(1_000, FAR, encode(Announce(1, Terms.of(world.settings))), by_multicast=True)
        world.run(1)
    assert world.announced == []
    world.run(LAN.leader_silence_s + ANNOUNCE_S)
    assert {position for _, position, _ in world.announced} == {FAR}


def test_a_root_that_leaves_does_not_announce_itself() -> None:
    world = empty(multicast=True)
    world.start_all(SMALL_TREE)
    world.run_until(world.whole, within_s=10)
    root, *others = SMALL_TREE
    for position in others:
        world.pause(position)  # the root waits for their goodbyes
    world.leave(root, grace_s=100.0)
    world.run(1)
    assert world.nodes[root].phase is Phase.LEAVING
    assert world.nodes[root].context.timers.at(Timer.ANNOUNCE) == inf


@pytest.mark.slow
def test_of_a_hundred_that_start_together_few_announce_themselves() -> None:
    world = empty(multicast=True)
    world.start_all(range(20_000, 60_000, 400))
    world.run_until(world.whole, within_s=10)
    assert len({position for _, position, _ in world.announced}) <= 20


OTHER = Terms("10.0.0.0/16", 2, 2, "ip", "complete", "lan")
FOREIGN: list[tuple[int | None, str, Terms, str]] = [
    # (source, address, terms, drop reason)
    (500, "10.0.1.244", msgspec.structs.replace(OTHER, fanout=8), "foreign_announcement"),
    (500, "10.0.1.244", msgspec.structs.replace(OTHER, guest_slots=3), "foreign_announcement"),
    (500, "10.0.1.244", msgspec.structs.replace(OTHER, timing="wan"), "foreign_announcement"),
    (500, "10.0.1.244", msgspec.structs.replace(OTHER, numbering="paper"), "foreign_announcement"),
    (500, "10.0.1.244", msgspec.structs.replace(OTHER, network="10.0.0.0/8"), "foreign_announcement"),
    (None, "192.168.0.1", msgspec.structs.replace(OTHER, network="192.168.0.0/24"), "foreign_announcement"),
    (None, "192.168.0.1", OTHER, "outside_network"),
    (FAR, "10.0.230.120", OTHER, "own_address"),
]


@over(("source", "address", "terms", "reason"), FOREIGN)
def test_announcements_of_others_change_nothing(source: int | None, address: str, terms: Terms, reason: str) -> None:
    world = empty(multicast=True)
    world.start(FAR)
    world.run(REST_S)
    node = world.nodes[FAR]
    before = (
        node.deadline,
        node.search.lowest_seen.lowest,
        [*node.search.peers],
        node.search.sizes(),
        world.leaders(),
    )
    event = Received(source, address, Announce(7, terms))
    assert node.handle(event, world.now) == [Dropped(reason)]
    assert before == (
        node.deadline,
        node.search.lowest_seen.lowest,
        node.search.peers,
        node.search.sizes(),
        world.leaders(),
    )


def test_a_refusal_of_another_cluster_does_not_count_as_a_lower_node() -> None:
    """500, the home of 1000, belongs to another cluster: 1000 becomes root and announces itself."""
    world = empty(multicast=True)
    world.own_settings[500] = msgspec.structs.replace(world.settings, fanout=3, guest_slots=3)
    world.start_all((500, 1_000))
    world.run(REST_S)
    assert not world.nodes[1_000].search.lowest_seen.knows_lower
    assert 1_000 in {position for _, position, _ in world.announced}


def test_two_clusters_on_one_wire_stay_apart() -> None:
    """Other fan-out, same network: they receive the announcements, and do not answer."""
    world = empty(multicast=True)
    others = (500, 5_000, 50_000)
    for position in others:
        world.own_settings[position] = msgspec.structs.replace(world.settings, fanout=3, guest_slots=3)
    world.start_all((*SMALL_TREE, *others))
    world.run(REST_S)
    assert world.roots() == [500, SMALL_TREE[0]]
    assert {world.leader_of(p) for p in others} <= {0, *others}
    assert {world.leader_of(p) for p in SMALL_TREE} <= {0, *SMALL_TREE}
    assert Dropped("foreign_announcement") in world.noticed(Dropped, 500)
    assert Dropped("foreign_announcement") in world.noticed(Dropped, SMALL_TREE[0])


# -- a new lowest -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@over(
    ("position", "seeds"),
    [
        pytest.param(999, (), id="neighbour"),
        pytest.param(998, (), id="second neighbour"),
        pytest.param(500, SMALL_TREE[:1], id="seed is the root"),
        pytest.param(500, SMALL_TREE[-1:], id="seed is a guest"),
        pytest.param(1, SMALL_TREE[2:3], id="position 1"),
    ],
)
def test_the_old_root_follows_a_new_lowest(position: int, seeds: tuple[int, ...]) -> None:
    world = small_tree()
    world.seeds = seeds
    world.start(position)
    world.run_until(lambda: world.roots() == [position] and world.whole(), within_s=SEARCH_S)
    assert world.leader_of(SMALL_TREE[0]) == position
    world.run(2 * world.settings.timing.search_interval_s)  # the tree is deeper now, and a guest may climb
    moved = {p: node.leader_changes for p, node in world.nodes.items()}
    world.run(REST_S)
    assert moved == {p: node.leader_changes for p, node in world.nodes.items()}


# -- guests -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_guest_does_not_ask_a_silent_home_and_goes_there_when_it_comes() -> None:
    """Every third address lives, which for most guests is no home. A resting guest asks the root alone."""
    world = empty()
    world.start_all(range(3, 94, 3))
    world.run_until(world.whole, within_s=20)
    world.run(REST_S)
    sent = world.record()
    world.run(2 * REST_S)
    root = world.roots()[0]
    assert {type(m) for _, _, target, m in sent if target not in world.nodes} <= {Ask}
    assert {source for _, source, target, _ in sent if target not in world.nodes} <= {root}
    assert world.places()[Place.GUEST] > 10
    assert world.nodes[93].place is Place.GUEST
    world.seeds = (93,)
    world.start(46)  # the home of 92 and 93
    world.run_until(lambda: world.leader_of(93) == 46, within_s=5)
    assert world.nodes[93].place is Place.HOME


def test_a_node_without_a_place_offers_none() -> None:
    """Otherwise each node of a simultaneous start would follow its neighbour, and form a chain."""
    world = empty()
    world.start(FAR)
    terms, sent = Terms.of(world.settings), world.record()
    world.tell(60_000, FAR, Ask(1, 1, terms))
    world.run_until(lambda: world.nodes[FAR].place is Place.ROOT, within_s=10)
    world.tell(60_000, FAR, Ask(1, 2, terms))
    answers = [message for _, source, _, message in sent if source == FAR and isinstance(message, Advice)]
    assert [(each.room, each.root, each.hints) for each in answers] == [(False, FAR, ()), (True, FAR, (FAR,))]


@over("seed", range(8))
def test_a_lone_node_is_root_at_the_deadline_and_not_at_the_next_probe(seed: int) -> None:
    world = SmallWorld.empty(2, timing_name="wan", seed=seed)  # with `lan` the near probes end after the deadline
    world.seeds = (30_000,)  # dead; the probes begin earlier, and none falls on the deadline
    world.start(FAR)
    began = world.now
    world.run_until(lambda: world.nodes[FAR].place is Place.ROOT, within_s=20)
    assert world.now - began == pytest.approx(world.settings.timing.patience_s, abs=0.02)


def test_a_root_asks_known_nodes_again_because_their_root_may_have_changed() -> None:
    """`low` knows `high`; `high` learns of a lower root, and so does `low` when it asks again."""
    world = empty()
    low, lower, high = 20_011, 7_003, 50_021
    world.start(low)
    world.run(60)  # its fast probes are over
    node = world.nodes[low]
    node.search.peers.know((high,))
    assert node.search.peers.others == [high]
    world.start(high)
    world.start(lower)
    world.tell(lower, high, Ask(world.nodes[lower].context.incarnation, 1, Terms.of(world.settings)))
    world.run_until(lambda: world.leader_of(low) == lower, within_s=2 * world.settings.timing.search_interval_s_max)


def test_only_a_proposal_of_a_stranger_shortens_the_rest_of_a_root() -> None:
    world = empty()
    world.start(FAR)
    world.run(60)
    node, terms = world.nodes[FAR], Terms.of(world.settings)
    seldom = node.search.rest.length_s
    assert seldom == world.settings.timing.search_interval_s_max
    world.tell(60_000, FAR, Propose(1, 1, terms, Wish.GUEST, 1))
    world.run(0.01)
    assert node.search.rest.length_s == world.settings.timing.search_interval_s
    world.run(40)
    world.tell(60_000, FAR, Propose(1, 2, terms, Wish.GUEST, 1))  # listed here, or it was until lately
    world.run(0.01)
    assert node.search.rest.length_s > world.settings.timing.search_interval_s


def test_probes_cause_no_wake_up_and_block_nothing() -> None:
    world = empty()
    world.start(FAR)
    world.run(5)
    requests = world.nodes[FAR].search.requests
    assert requests.next_at == inf
    assert len(requests) >= 5
    assert not any(requests.awaits(each.position) for each in requests)


@pytest.mark.slow
@over("rest_s", [0.2, 0.4, 0.6, 0.8, 1.0])
def test_a_rest_that_ends_while_an_adviser_is_asked_keeps_the_question(rest_s: float) -> None:
    """FAR is root; a node of the small tree asks it, and answers take 0.3 of 0.4 s."""
    world = small_tree()
    world.lossy = lambda source, target, _message: FAR in (source, target)
    world.start(FAR)
    world.run(60)
    node = world.nodes[FAR]
    assert node.place is Place.ROOT
    world.lossy = lambda _source, _target, _message: False
    world.delay_of = lambda message: 0.3 if isinstance(message, Advice) else 0.0002
    node.search.rest.until, node.search.rest._backoff.delay_s = world.now + rest_s, 0.5
    world.tell(SMALL_TREE[1], FAR, Ask(world.nodes[SMALL_TREE[1]].context.incarnation, 1, Terms.of(world.settings)))
    world.run_until(lambda: world.leader_of(FAR) > 0, within_s=1.2)


def test_a_guest_does_not_ask_its_root_again_at_once_when_that_has_no_place_yet() -> None:
    """A root that restarts answers with the lowest node it knows, and cannot say where the guest belongs."""
    world = small_tree()
    guest = next(p for p in sorted(world.nodes) if world.nodes[p].place is Place.GUEST)
    node = world.nodes[guest]
    root = node.uplink.path[0]
    world.lossy = lambda _source, _target, message: isinstance(message, Advice)  # the advice of the test replaces it
    world.run_until(lambda: any(each.wish is None for each in node.search.requests), within_s=60)
    (request,) = node.search.requests
    sent = world.record()
    world.lossy = lambda _source, _target, _message: False
    world.tell(root, guest, Advice(world.nodes[root].context.incarnation, request.exchange, False, root, (), 0))
    world.run(0.05)
    assert [message for _, source, _, message in sent if source == guest and isinstance(message, Ask)] == []
