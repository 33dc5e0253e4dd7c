"""Orders of events that a review found; each was a way to crash, to scatter nodes, or to lose a branch."""

from __future__ import annotations

from small_world import SmallWorld

from subord.core.events import Received, Wakeup
from subord.core.messages import Accept, Beat, Change, Goodbye, No, Propose, Refuse, Terms, Why, Wish
from subord.core.state.phases import Phase
from subord.core.timers import Timer
from subord.core.view import Place


def at_rest(size: int) -> SmallWorld:
    world = SmallWorld.dense(size, 2)
    world.run(20)
    assert world.whole()
    return world


def deliver(world: SmallWorld, target: int, source: int, message: object) -> list[object]:
    """Hand a message to a node now; returns its actions."""
    event = Received(source, world.settings.network.address_text_of(source), message)  # type: ignore[arg-type]
    return list(world.nodes[target].handle(event, world.now))


def test_the_last_goodbye_may_come_when_the_next_is_due() -> None:
    world = at_rest(2)
    root = world.nodes[1]
    world.lossy = lambda source, _target, _message: source == 2
    world.leave(1, grace_s=5.0)
    world.now = root.deadline
    deliver(world, 1, 2, Goodbye(world.nodes[2].context.incarnation, Why.MOVED))
    assert root.phase is Phase.GONE
    root.handle(Wakeup(), world.now + 1)  # nothing is due any more


def test_busy_lower_ranks_make_no_root() -> None:
    """All lower nodes answer BUSY for three seconds: the asker waits, and is not alone."""
    world = SmallWorld.empty(2)
    for position in (1, 2):
        world.start(position)
    world.run(5)
    busy_until = world.now + 3.0
    for node in world.nodes.values():
        node.downlink.admits = lambda: world.now > busy_until  # type: ignore[method-assign]
    world.start(40)
    world.run(8)
    assert world.nodes[40].leader_changes == 0
    assert world.nodes[40].place is Place.GUEST


def test_an_older_proposal_that_comes_late_changes_nothing() -> None:
    world = at_rest(7)
    leader, own = world.nodes[1], world.nodes[2]
    taken = leader.downlink.slots.taken[2]
    late = Propose(own.context.incarnation, taken.exchange - 1, Terms.of(world.settings), Wish.HOME)
    deliver(world, 1, 2, late)
    assert leader.downlink.slots.taken[2] is taken
    world.run(10)
    assert world.whole()


def test_a_proposal_of_a_former_subordinate_that_is_repeated_minutes_later_changes_nothing() -> None:
    """By performance the rank of the leader may have changed since: it may no longer outrank the node."""
    world = at_rest(7)
    leader, own = world.nodes[1], world.nodes[2]
    accepted = leader.downlink.slots.taken[2]
    late = Propose(own.context.incarnation, accepted.exchange, Terms.of(world.settings), Wish.HOME)
    world.vanish(2)
    world.run(30)
    assert 2 not in leader.downlink.slots.taken
    deliver(world, 1, 2, late)
    assert 2 not in leader.downlink.slots.taken


def test_a_beat_from_before_the_proposal_has_no_effect() -> None:
    world = at_rest(3)
    leader, own = world.nodes[1], world.nodes[2]
    last = leader.downlink.slots.taken[2].number
    deliver(world, 1, 2, Propose(own.context.incarnation, last + 9, Terms.of(world.settings), Wish.HOME))
    ghost = Change(5, 2, 1, 1000, 0, 0)
    deliver(world, 1, 2, Beat(own.context.incarnation, leader.context.incarnation, last + 1, 1000, 0, (ghost,)))
    assert 5 not in leader.roster.rows


def test_a_branch_is_reported_again_when_the_leader_forgot_it_and_its_acceptances_are_lost() -> None:
    world = at_rest(7)
    world.nodes[1].downlink.lose(2, "silence")
    lost: list[object] = []
    world.lossy = lambda source, target, message: bool(
        (source, target) == (1, 2) and isinstance(message, Accept) and len(lost) < 2 and not lost.append(message)
    )
    world.run(20)
    assert len(lost) == 2
    assert world.whole()


def test_a_late_acceptance_is_kept_while_a_proposal_to_the_same_leader_is_open() -> None:
    world = SmallWorld.empty(2)
    world.hosts.add(1)
    world.lossy = lambda source, _target, _message: source == 2
    world.start(2)
    world.run(0.05)
    node = world.nodes[2]
    stale = Accept(1000, 1, world_guidance())
    assert not [a for a in deliver(world, 2, 1, stale) if "Goodbye" in repr(a)]
    assert node.uplink.leader is None


def world_guidance() -> object:
    from subord.core.messages import Guidance

    return Guidance(1, (1,), (), (), adrift=False)


def test_a_node_that_slept_while_asking_reads_the_answers_first() -> None:
    world = at_rest(3)
    world.lossy = lambda source, _target, _message: source in (1, 2, 3)
    world.start(6)
    world.run_until(lambda: world.sent["Ask"] > 0, 5.0)  # the others are asked, and none has answered
    node = world.nodes[6]
    world.now += 30.0
    node.handle(Wakeup(), world.now)
    assert node.phase is Phase.SEEKING


def test_an_older_incarnation_is_told_to_retry() -> None:
    world = at_rest(2)
    own = world.nodes[2].context
    actions = deliver(world, 1, 2, Propose(own.incarnation - 1, 99, Terms.of(world.settings), Wish.HOME))
    (answer,) = [a.message for a in actions if hasattr(a, "message")]  # type: ignore[attr-defined]
    assert isinstance(answer, Refuse)
    assert answer.no is No.BUSY


def test_a_root_keeps_no_list_of_what_to_report() -> None:
    world = at_rest(7)
    world.kill(5)
    world.run(20)
    assert world.nodes[1].roster.unreported == 0


def test_a_search_goes_on_after_a_busy_leader_has_refused_for_good() -> None:
    """The node waits until its leader may have room again: no other timer would wake it (seed 6024, performance)."""
    world = at_rest(3)
    node, leader, other = world.nodes[3], world.nodes[1].context.incarnation, world.nodes[2].context.incarnation
    deliver(world, 3, 1, Goodbye(leader, Why.LEAVING, (2,)))
    (request,) = node.joining._requests.about(2)
    deliver(world, 3, 2, Refuse(other, request.exchange, No.BUSY, "busy", 500, (), 0))
    world.now = node.context.timers.at(Timer.SEARCH)
    node.handle(Wakeup(), world.now)
    (request,) = node.joining._requests.about(2)
    node.joining._prober.stop()  # in a small network every address has been asked by now
    deliver(world, 3, 2, Refuse(other, request.exchange, No.RANK, "rank", 0, (), 0))
    assert node.context.timers.at(Timer.SEARCH) < world.now + world.settings.timing.patience_s


def test_a_search_goes_on_while_the_last_address_asked_may_still_answer() -> None:
    """No other timer would wake the node (seed 220, performance)."""
    world = at_rest(3)
    node, leader, other = world.nodes[3], world.nodes[1].context.incarnation, world.nodes[2].context.incarnation
    deliver(world, 3, 1, Goodbye(leader, Why.LEAVING, (2,)))
    (request,) = node.joining._requests.about(2)
    node.joining._prober.add((20,), world.now)
    assert node.joining._prober.step(known_only=True) == (20,)
    node.joining._prober.stop()
    deliver(world, 3, 2, Refuse(other, request.exchange, No.RANK, "rank", 0, (), 0))
    assert node.context.timers.at(Timer.SEARCH) < world.now + world.settings.timing.patience_s
