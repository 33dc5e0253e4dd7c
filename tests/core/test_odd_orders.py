"""Orders of events that a review found; each was a way to crash, to scatter nodes, or to lose a branch."""

from __future__ import annotations

from measured_world import performing
from msgspec.structs import replace
from small_world import SmallWorld

from subord.core.edges.leader import GRACE_BEATS
from subord.core.events import Publish, Received, SubordinateLost, Wakeup
from subord.core.messages import Accept, Announce, Beat, Change, Goodbye, No, Propose, Refuse, Terms, Why, Wish
from subord.core.quantize import class_of
from subord.core.search.departures import Departures
from subord.core.state.states import Phase
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
    (request,) = node.search.requests.about(2)
    deliver(world, 3, 2, Refuse(other, request.exchange, No.BUSY, "busy", 500, (), 0))
    world.now = node.context.timers.at(Timer.SEARCH)
    node.handle(Wakeup(), world.now)
    (request,) = node.search.requests.about(2)
    node.search.prober.stop()  # in a small network every address has been asked by now
    deliver(world, 3, 2, Refuse(other, request.exchange, No.RANK, "rank", 0, (), 0))
    assert node.context.timers.at(Timer.SEARCH) < world.now + world.settings.timing.patience_s


def test_a_search_goes_on_while_the_last_address_asked_may_still_answer() -> None:
    """No other timer would wake the node (seed 220, performance)."""
    world = at_rest(3)
    node, leader, other = world.nodes[3], world.nodes[1].context.incarnation, world.nodes[2].context.incarnation
    deliver(world, 3, 1, Goodbye(leader, Why.LEAVING, (2,)))
    (request,) = node.search.requests.about(2)
    node.search.prober.add((20,), world.now)
    assert node.search.prober.step(known_only=True) == (20,)
    node.search.prober.stop()
    deliver(world, 3, 2, Refuse(other, request.exchange, No.RANK, "rank", 0, (), 0))
    assert node.context.timers.at(Timer.SEARCH) < world.now + world.settings.timing.patience_s


def test_a_node_that_returns_below_its_former_path_leads_none_of_it() -> None:
    """Seed 180, performance: as root it had taken in the node that leads its leader, and then followed again."""
    world = at_rest(7)
    node = world.nodes[4]
    leader, guidance = node.uplink.leader, node.uplink.leader.guidance if node.uplink.leader else None
    assert leader is not None
    assert guidance is not None
    assert leader.guidance.path == (1, 2)
    node._lose_leader("closed", ())
    node.downlink.slots.taken[1] = replace(world.nodes[2].downlink.slots.taken[5], position=1)
    node._attach(2, Accept(leader.incarnation, 1, guidance))
    assert not node.downlink.slots.taken


def test_the_loss_of_a_subordinate_names_its_silence() -> None:
    world = at_rest(3)
    world.vanish(2)
    world.run(10)
    (lost,) = (
        notice for _, position, notice in world.notices if isinstance(notice, SubordinateLost) and position == 1
    )
    assert 0 < lost.silence_s < 2 * world.settings.timing.leader_silence_s


def test_after_sleep_no_question_is_overdue() -> None:
    world = SmallWorld.empty(2)
    world.start(5)
    world.run(0.1)
    node = world.nodes[5]
    requests = list(node.search.requests)
    assert requests
    node.context.now += 60.0
    node.joining.on_own_sleep()
    assert all(each.next_at > node.context.now for each in requests)


def test_a_cut_edge_is_asked_within_the_grace_of_a_restart() -> None:
    world = at_rest(3)
    node = world.nodes[2]
    assert node.uplink.leader is not None
    node.uplink.leader.beat_sent_at = node.context.now
    node.uplink.on_cut(1, "closed")
    pause_s = world.settings.timing.restart_grace_s / GRACE_BEATS
    assert node.context.timers.at(Timer.BEAT) <= node.context.now + pause_s


def test_a_departure_ends_at_its_time() -> None:
    context = at_rest(1).nodes[1].context
    departures = Departures(context)
    departures.note(7)
    assert departures.has(7)
    context.now += context.timing.patience_s
    assert not departures.has(7)


def test_an_announcement_names_the_rank_of_its_sender() -> None:
    world = performing({1: 800.0, 2: 400.0})
    node = world.nodes[1]
    node.announcer.on_timer(silent=False)
    (published,) = (each for each in node.context.actions if isinstance(each, Publish))
    assert isinstance(published.message, Announce)
    assert published.message.standing == class_of(800.0)


def test_a_leader_that_refuses_its_subordinate_is_lost_to_it() -> None:
    world = at_rest(7)
    node = world.nodes[4]
    node.joining.rejoin()
    (request,) = node.search.requests
    refuse = Refuse(world.nodes[2].context.incarnation, request.exchange, No.RANK, "", 0, (), 0)
    deliver(world, 4, 2, refuse)
    assert node.uplink.leader is None


def test_guidance_that_leads_through_the_node_itself_is_not_followed() -> None:
    world = at_rest(7)
    node = world.nodes[4]
    assert node.uplink.leader is not None
    node.uplink.leader.guidance = replace(node.uplink.leader.guidance, path=(1, 4, 2))
    node._on_guided(changed=True)
    assert node.uplink.leader is None
