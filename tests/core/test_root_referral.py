"""Two trees side by side: a node that knows both roots refers the higher one to the lower one."""

from __future__ import annotations

from small_world import SmallWorld

from subord.core.events import Dropped
from subord.core.messages import Advice, Ask, Guidance, Guide, Meet, Propose
from subord.core.search.root_referral import REFERRALS_PER_S
from subord.core.settings import LAN

LEFT, RIGHT, BETWEEN = 30_000, 30_002, 30_001


def two_roots() -> SmallWorld:
    """Neither knows of the other: they started without contact."""
    world = SmallWorld.empty(2)
    world.lossy = lambda source, target, _message: {source, target} == {LEFT, RIGHT}
    world.start_all((LEFT, RIGHT))
    world.run(10)
    assert world.roots() == [LEFT, RIGHT]
    world.lossy = lambda _source, _target, _message: False
    return world


def test_a_node_between_two_trees_refers_their_roots() -> None:
    """The neighbour on the right stands in a tree whose root is 29000, and does not look for another."""
    world = SmallWorld.empty(2)
    world.seeds = (29_000,)
    world.start_all((29_000, RIGHT))
    world.run(10)
    world.seeds = ()
    world.lossy = lambda source, target, _message: LEFT in (source, target)
    world.start_all((LEFT,))
    world.run(5)
    assert world.roots() == [29_000, LEFT]
    world.lossy = lambda _source, _target, _message: False
    said = []
    world.on_message = lambda source, target, message, _copies: said.append((source, target, message))
    world.start_all((BETWEEN,))
    world.run_until(world.whole, within_s=LAN.patience_s + 1)
    assert [each for each in said if isinstance(each[2], Meet)] == [(BETWEEN, LEFT, Meet(1000, 29_000))]


def test_a_neighbouring_root_asks_by_itself() -> None:
    world = two_roots()
    world.start_all((BETWEEN,))
    world.run_until(world.whole, within_s=LAN.patience_s + 1)
    assert world.sent["Meet"] == 0


def test_a_root_asks_the_lower_root_it_is_referred_to() -> None:
    world = two_roots()
    said = []
    world.on_message = lambda source, target, message, _copies: said.append((source, target, type(message)))
    world.tell(9, RIGHT, Meet(1, LEFT))
    world.run_until(world.whole, within_s=1)
    assert said[0] == (RIGHT, LEFT, Ask)
    assert (RIGHT, LEFT, Propose) in said


def test_a_former_root_passes_a_referral_on_to_the_higher_root() -> None:
    world = SmallWorld.empty(2)
    world.seeds = (30_000,)
    world.start_all((30_000, 41_000))
    world.run(10)
    assert world.leader_of(41_000) == 30_000
    said = []
    world.on_message = lambda source, target, message, _copies: said.append((source, target, message))
    incarnation = world.nodes[41_000].context.incarnation
    world.tell(9, 41_000, Meet(1, 20_000))
    assert said == [(41_000, 30_000, Meet(incarnation, 20_000))]
    said.clear()
    world.tell(9, 41_000, Meet(1, 35_000))
    assert said == [(41_000, 35_000, Meet(incarnation, 30_000))]
    said.clear()
    world.tell(9, 41_000, Meet(1, 30_000))  # its own root
    assert said == []


def test_no_node_is_referred_to_a_higher_rank_or_to_itself() -> None:
    world = two_roots()
    for root in (LEFT, RIGHT):
        world.tell(9, LEFT, Meet(1, root))
    world.run(0.2)
    reasons = [n.reason for _, p, n in world.notices if p == LEFT and isinstance(n, Dropped)]
    assert reasons == ["unexpected", "unexpected"]


def test_a_guest_asks_its_unprobed_neighbours_once() -> None:
    """Accepted by a remembered node before it probed its neighbours."""
    world = SmallWorld.empty(2)
    world.start_all((20_000,))
    world.run(60)
    said = []
    world.on_message = lambda source, target, message, _copies: said.append((source, target, type(message)))
    world.start_all((41_000,), known=(20_000,))
    world.run(60)
    assert world.leader_of(41_000) == 20_000
    asked = [target for source, target, kind in said if (source, kind) == (41_000, Ask)]
    assert [asked.count(p) for p in (40_999, 41_001)] == [1, 1]
    assert set(asked) <= {40_999, 41_001, 20_000}
    assert (20_000, 41_000, Advice) in said


def test_with_a_meeting_place_neighbours_are_not_asked() -> None:
    """The remembered node is a seed, too, at which all trees meet."""
    world = SmallWorld.empty(2)
    world.start_all((20_000,))
    world.run(60)
    said = []
    world.on_message = lambda source, target, message, _copies: said.append((source, target, type(message)))
    world.seeds = (20_000,)
    world.start_all((41_000,))
    world.run_until(lambda: world.leader_of(41_000) == 20_000, within_s=5)
    world.run(10)
    assert not {target for source, target, kind in said if (source, kind) == (41_000, Ask)} & {40_999, 41_001}


def test_referrals_are_limited() -> None:
    """Each referral costs a message to a node that may be unknown so far."""
    world = SmallWorld.empty(2)
    world.seeds = (30_000,)
    world.start_all((30_000, 60_000))
    world.run(10)
    sent = world.sent["Meet"]
    for root in range(40_000, 42_000):
        world.tell(9, 60_000, Meet(1, root))
    assert 0 < world.sent["Meet"] - sent <= REFERRALS_PER_S
    dropped = [n.reason for _, p, n in world.notices if p == 60_000 and isinstance(n, Dropped)]
    assert dropped.count("meet_too_soon") >= 2_000 - REFERRALS_PER_S


def test_referred_nodes_are_no_peers() -> None:
    """Peers are nodes that have sent a message; they are kept on disk."""
    world = two_roots()
    world.tell(9, RIGHT, Meet(1, 20_000))
    world.run(1)
    assert 20_000 not in tuple(world.nodes[RIGHT].search.peers)


def test_a_leader_with_an_empty_path_does_no_harm() -> None:
    """A false message: a correct leader always names itself."""
    world = SmallWorld.empty(2)
    world.start_all((20_000, 41_001))
    world.run(60)
    nameless = Guidance(10**6, (), (), (), adrift=False)
    world.start_all((41_000,), known=(20_000,))
    world.run_until(lambda: world.leader_of(41_000) == 20_000, within_s=5)
    world.tell(20_000, 41_000, Guide(world.nodes[20_000].context.incarnation, nameless))
    assert world.nodes[41_000].referral.refer(5) is False
