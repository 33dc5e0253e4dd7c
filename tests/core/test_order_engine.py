"""What the engine of orders does beside its stories: bounds, lies, earlier lives, and orders that are refused."""

from __future__ import annotations

import order_stage
import pytest
from order_stage import Stage, StageTree

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Ack, Ask, Check, End, Lost, Resolved, Told, decode, encode, order_of
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Arrived,
    CallDirect,
    Cancel,
    Closed,
    Finished,
    HangUp,
    Issue,
    Note,
    Noted,
    Offered,
    Opened,
    Outcome,
    Overview,
    Role,
    Transmit,
    Wakeup,
)
from subord.core.carriage.engine.links import LinkState
from subord.core.carriage.engine.ranges import Ranges

TAG = b"0123456789abcdef"
ALL = Ranges(((1, 3),))
SERVICES = {"read": Offered(), "write": Offered(has_effects=True)}


def engine_of(position: int = 1) -> Engine:
    """A node of the tree 2<1 3<1, without links."""
    return Engine(StageTree(Stage({1: 0, 2: 1, 3: 1}), position), SERVICES)


def order(service: str = "read", tag: bytes = TAG, payload: bytes = b"", issuer: int = 1):
    return order_of(tag, service, payload, ALL, issuer)


def ask(number: int = 1, **changes: object) -> Ask:
    return Ask(number, False, 0, 1000, Ranges.of([1]).flat(), order(**changes))  # type: ignore[arg-type]


def bodies(actions: list) -> list:
    return [decode(each.data).body for each in actions if isinstance(each, Transmit)]


def opened(engine: Engine, role: Role = Role.CALLER, incarnation: int = 9) -> None:
    engine.handle(Opened("link", 2, role, incarnation), 0.0)


def test_an_order_that_is_too_large_is_told_so() -> None:
    (finished,) = engine_of().handle(Issue(order(payload=bytes(bounds.PAYLOAD_BYTES_MAX + 1)), 1.0), 0.0)
    assert isinstance(finished, Finished)
    assert finished.answer.missing == (("too large", ALL),)


def test_one_issuer_has_a_bounded_number_of_orders() -> None:
    engine, answers = engine_of(), []
    for number in range(bounds.ORDERS_OF_ONE_MAX + 3):
        answers += engine.handle(Issue(order(tag=b"%016d" % number), 1.0), 0.0)
    busy = [each for each in answers if isinstance(each, Finished)]
    assert [each.answer.missing for each in busy] == [(("busy", ALL),)] * 3
    assert engine.sizes["orders"] == bounds.ORDERS_OF_ONE_MAX


def test_orders_under_way_and_ended_ones_are_shown() -> None:
    engine = engine_of()
    engine.handle(Issue(order(), 4.0), 1.0)
    engine.handle(Acted(TAG, Outcome(b"x")), 1.1)
    (held,) = engine.under_way(2.0)
    assert held == Overview("read", 1, True, 3, 1, 0, 1.0, 3.0)
    engine.handle(Wakeup(), 5.0)
    assert engine.under_way(5.0) == []
    ((ended, at),) = engine.ended
    assert (at, ended.told, ended.missing, ended.age_s) == (5.0, 1, 2, 4.0)


def test_ended_orders_are_bounded() -> None:
    engine = engine_of()
    opened(engine)
    for number in range(bounds.ENDED_MAX + 3):
        engine.handle(Arrived("link", encode(9, 0, ask(number, service="brew", tag=b"%016d" % number))), 0.0)
    assert len(engine.ended) == bounds.ENDED_MAX
    assert {(each.is_own, each.asked) for each, _ in engine.ended} == {(False, 1)}


def test_a_service_that_is_not_offered_is_named() -> None:
    engine = engine_of()
    opened(engine)
    actions = engine.handle(Arrived("link", encode(9, 0, ask(service="brew"))), 0.0)
    assert bodies(actions)[-1] == Told(1, missing=(("not offered", (0, 0)),), is_last=True)


def test_effects_wait_for_the_disk() -> None:
    engine = engine_of()
    opened(engine)
    actions = engine.handle(Arrived("link", encode(9, 0, ask(service="write"))), 0.0)
    assert [each for each in actions if isinstance(each, Note | Act)] == [Note(TAG, 1.0 + bounds.TAG_KEEP_S)]
    acts = engine.handle(Noted(TAG), 0.5)
    assert [each.left_s for each in acts if isinstance(each, Act)] == [0.5]


def test_an_order_with_effects_gets_no_outcome_of_a_reading_with_its_tag() -> None:
    """A member that knows the tag asks for a reading first."""
    engine = engine_of()
    opened(engine)
    engine.handle(Arrived("link", encode(9, 0, ask(1, service="read"))), 0.0)
    engine.handle(Acted(TAG, Outcome(b"pong")), 0.0)
    told = bodies(engine.handle(Arrived("link", encode(9, 0, ask(2, service="write"))), 0.0))[-1]
    assert (told.groups, told.missing) == ((), (("tag used", (0, 0)),))


def test_the_same_order_of_another_issuer_gets_the_outcome() -> None:
    engine = engine_of()
    opened(engine)
    engine.handle(Arrived("link", encode(9, 0, ask(1))), 0.0)
    engine.handle(Acted(TAG, Outcome(b"read")), 0.0)
    told = bodies(engine.handle(Arrived("link", encode(9, 0, ask(2, issuer=3))), 0.0))[-1]
    assert told.groups == ((b"read", (0, 0)),)


@pytest.mark.parametrize(("role", "source"), [(Role.CALLER, 2), (Role.LEADER, 0)])
@pytest.mark.parametrize("service", ["read", "write"])
def test_a_service_hears_which_node_asked_directly(role: Role, source: int, service: str) -> None:
    """Whatever issuer the order names."""
    engine = engine_of()
    opened(engine, role)
    actions = engine.handle(Arrived("link", encode(9, 0, ask(service=service, issuer=3))), 0.0)
    actions += engine.handle(Noted(TAG), 0.0)
    assert [each.source for each in actions if isinstance(each, Act)] == [source]


def test_without_disk_there_are_no_effects() -> None:
    engine = engine_of()
    opened(engine)
    engine.handle(Arrived("link", encode(9, 0, ask(service="write"))), 0.0)
    actions = engine.handle(Noted(TAG, ok=False), 0.5)
    assert bodies(actions)[-1].missing == (("no journal", (0, 0)),)
    assert not [each for each in actions if isinstance(each, Act)]


def test_an_order_that_was_refused_is_acted_on_when_it_comes_again() -> None:
    """It may have been altered on the way; one that has begun is not acted on again."""
    engine = engine_of()
    opened(engine)
    for number, begun in enumerate((False, True, True), 1):
        question = encode(9, 0, ask(service="write", number=number))
        noted = [each for each in engine.handle(Arrived("link", question), 0.0) if isinstance(each, Note)]
        assert len(noted) == (number < 3)
        if noted:
            engine.handle(Noted(TAG), 0.0)
            cause = "failed" if begun else "altered"
            actions = engine.handle(Acted(TAG, Outcome(cause=cause), begun=begun), 0.0)
            assert bodies(actions)[-1].missing == ((cause, (0, 0)),)


@pytest.mark.parametrize(
    ("sender", "receiver", "word"), [(8, 1, "earlier life"), (9, 2, "earlier life"), (9, 1, ""), (9, 0, "")]
)
def test_what_was_said_to_an_earlier_life_is_not_heard(sender: int, receiver: int, word: str) -> None:
    engine = engine_of()
    opened(engine)
    actions = engine.handle(Arrived("link", encode(sender, receiver, ask())), 0.0)
    assert (dict(engine.dropped), bool(actions)) == ({word: 1} if word else {}, not word)


def test_what_is_unreadable_is_counted() -> None:
    engine = engine_of()
    opened(engine)
    assert engine.handle(Arrived("link", b"\x93 nonsense"), 0.0) == []
    assert engine.handle(Arrived("no link", b""), 0.0) == []
    assert engine.dropped == {"unreadable": 1, "no link": 1}


def test_deep_nesting_is_unreadable() -> None:
    engine = engine_of()
    opened(engine)
    for depth in (20, 1500, 60_000):
        assert engine.handle(Arrived("link", b"\x93\x09\x00" + b"\x91" * depth + b"\x90"), 0.0) == []
    assert engine.dropped["unreadable"] == 3


def test_an_order_that_the_next_node_could_not_pass_on_is_unreadable() -> None:
    """A frame of the longest length; the next node would add itself to it."""
    many = Ranges.of(range(1, 60_000, 2))
    engine = engine_of(2)
    opened(engine)
    long = order_of(TAG, "read", b"", many, 1)
    assert many.wire_bytes > bounds.TARGETS_BYTES_MAX
    frame = encode(9, 0, Ask(1, True, 0, 1000, (), long))
    assert len(frame) <= bounds.FRAME_BYTES_MAX
    assert engine.handle(Arrived("link", frame), 0.0) == []
    assert engine.dropped["unreadable"] == 1


def test_an_order_goes_neither_up_from_a_leader_nor_down_from_a_subordinate() -> None:
    for role, climbs in ((Role.LEADER, True), (Role.SUBORDINATE, False)):
        engine = engine_of()
        opened(engine, role)
        body = Ask(1, climbs, 0, 1000, Ranges.of([1]).flat(), order())
        told = bodies(engine.handle(Arrived("link", encode(9, 0, body)), 0.0))
        assert told[0].missing == (("refused", (0, 0)),)
        assert engine.sizes["orders"] == 0


def test_a_question_that_is_not_held_is_lost() -> None:
    engine = engine_of()
    opened(engine)
    assert bodies(engine.handle(Arrived("link", encode(9, 0, Check(5))), 0.0)) == [Lost(5)]


def test_lies_count_nowhere() -> None:
    stage = Stage({1: 0, 2: 1, 3: 1})
    stage.act_s[3] = 0.5
    stage.issue(1, None)
    stage.run(0.0005)
    link = next(each for (position, each), (peer, _) in stage._links.items() if (position, peer) == (1, 2))
    lies = [
        Told(1, ((b"a lie", Ranges.of([3]).flat()),)),  # of a node below another
        Told(1, ((b"ok", Ranges.of([2]).flat()), (b"a lie", Ranges.of([2]).flat()))),  # a second result
        Told(999, ((b"a lie", Ranges.of([3]).flat()),)),  # without a question
    ]
    for each in lies:
        stage.feed(1, Arrived(link, encode(1, 1, each)))
    dropped = stage.engines[1].dropped
    assert (dropped["invented"], dropped["twice"], dropped["not asked"]) == (1, 1, 1)
    stage.run(2.0)
    assert stage.answers[-1].groups == ((b"ok", ALL),)


def test_a_node_that_is_late_does_not_act() -> None:
    """When the node is called, the order has a place, and its time is over."""
    engine = engine_of()
    for number in range(bounds.READINGS_ACTIVE_MIN):
        engine.handle(Issue(order(tag=b"%016d" % number), 60.0), 0.0)
    engine.handle(Issue(order(), bounds.SLOT_S + 0.5), 0.0)
    actions = engine.handle(Wakeup(), 9.0)
    assert [each for each in actions if isinstance(each, Act)] == []
    assert [each.tag for each in actions if isinstance(each, Finished)] == [TAG]


def test_orders_wait_for_a_place_in_turn() -> None:
    """Node 2 is stopped, so each order holds its place for a while."""
    stage = Stage({1: 0, 2: 1, 3: 1})
    stage.stop(2)
    for _ in range(bounds.READINGS_ACTIVE_MIN + 2):
        stage.issue(1, None)
    stage.run(0.3)
    assert len(stage.engines[1]._routing.admission) == bounds.READINGS_ACTIVE_MIN + 2
    stage.run(0.5)
    assert len(stage.answers) == bounds.READINGS_ACTIVE_MIN
    stage.run(0.8)
    assert [dict(each.missing) for each in stage.answers] == [{"silent": Ranges.of([2])}] * (
        bounds.READINGS_ACTIVE_MIN + 2
    )
    assert stage.engines[1].sizes["admission"] == 0


def test_an_order_without_a_place_is_busy() -> None:
    stage = Stage({1: 0, 2: 1, 3: 1})
    stage.stop(2)
    for _ in range(bounds.READINGS_ACTIVE_MIN):
        stage.issue(1, None)
    stage.issue(1, None, left_s=0.4)
    stage.run(0.5)
    assert [dict(each.missing) for each in stage.answers] == [{"busy": ALL}]


@pytest.mark.slow
def test_many_orders_leave_nothing() -> None:
    stage = Stage({1: 0, 2: 1, 3: 1, 4: 2})
    for _ in range(300):
        stage.issue(4, None)
        stage.run(0.2)
    assert all(each.is_whole for each in stage.answers)
    for engine in stage.engines.values():
        sizes = {table: size for table, size in engine.sizes.items() if size}
        assert sizes.keys() <= {"links", "tags"}
        assert len(engine._due) < 200


class LostTree(StageTree):
    """Of a node with one subordinate that has lost its leader, and finds another one later."""

    is_root = False


def issuer_of_branch() -> tuple[Engine, Stage]:
    """Node 2, with 3 below it, has an order for all members; both have told their results."""
    stage = Stage({2: 0, 3: 2})
    engine = Engine(LostTree(stage, 2), SERVICES)
    engine.handle(Opened("edge", 3, Role.SUBORDINATE, 9), 0.0)
    return engine, stage


def finished(actions: list) -> list[Finished]:
    return [each for each in actions if isinstance(each, Finished)]


def test_a_branch_that_has_told_is_not_all_members() -> None:
    """The node asks its own branch while it has no leader; the next attempt does not end with these results."""
    engine, stage = issuer_of_branch()
    engine.handle(Issue(order_of(TAG, "read", b"", None, 2), 20.0), 0.0)
    actions: list = []
    while not any(isinstance(each, Act) for each in actions):
        actions = engine.handle(Wakeup(), now := engine.deadline)
    (asked,) = bodies(actions)
    engine.handle(Acted(TAG, Outcome(b"x")), now)
    told = Told(asked.number, ((b"x", Ranges.of([3]).flat()),), is_last=True)
    assert not finished(engine.handle(Arrived("edge", encode(9, 1, told)), now))
    stage.leaders |= {2: 1, 1: 0}
    engine.handle(Opened("up", 1, Role.LEADER, 9), now)
    while not any(isinstance(each, Ask) and each.climbs for each in bodies(actions)):
        assert not finished(actions)
        actions = engine.handle(Wakeup(), engine.deadline)
    assert not finished(actions)


def test_results_of_a_node_that_stands_in_do_not_end_an_order_for_all() -> None:
    """All nodes that it knows have told, before it says so itself."""
    stage = Stage({1: 0, 2: 1, 3: 2})
    engine = Engine(StageTree(stage, 2), SERVICES)
    engine.handle(Opened("up", 1, Role.LEADER, 9), 0.0)
    (asked,) = bodies(engine.handle(Issue(order_of(TAG, "read", b"", None, 2), 20.0), 0.0))
    nodes = Ranges.of([1, 2]).flat()
    for body in (
        Resolved(asked.number, nodes, "no coordinator"),
        Told(asked.number, ((b"x", nodes),)),
    ):
        assert not finished(engine.handle(Arrived("up", encode(9, 1, body)), 0.1))
    last = Told(asked.number, is_last=True, lacks="older release")
    (ended,) = finished(engine.handle(Arrived("up", encode(9, 1, last)), 0.1))
    assert not ended.answer.is_resolved


def test_the_results_of_a_coordinator_end_an_order_for_all() -> None:
    engine = Engine(StageTree(Stage({1: 0, 2: 1, 3: 2}), 2), SERVICES)
    engine.handle(Opened("up", 1, Role.LEADER, 9), 0.0)
    (asked,) = bodies(engine.handle(Issue(order_of(TAG, "read", b"", None, 2), 20.0), 0.0))
    nodes = Ranges.of([1, 2]).flat()
    assert not finished(engine.handle(Arrived("up", encode(9, 1, Resolved(asked.number, nodes))), 0.1))
    told = Told(asked.number, ((b"x", nodes),))
    (ended,) = finished(engine.handle(Arrived("up", encode(9, 1, told)), 0.1))
    assert ended.answer.is_resolved
    assert ended.answer.missing == ()


def test_a_part_of_the_targets_does_not_pass_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets of a large cluster take several frames, and the link may close between two."""
    monkeypatch.setattr(bounds, "ITEMS_BYTES_MAX", 2)
    engine = engine_of(1)
    opened(engine)
    every = Ask(1, True, 0, 20000, (), order_of(TAG, "read", b"", None, 2))
    sent = bodies(engine.handle(Arrived("link", encode(9, 1, every)), 0.0))
    assert [each.lacks for each in sent if isinstance(each, Resolved)] == [""]
    stage = Stage(dict.fromkeys((1, 3, 5, 7), 1) | {1: 0})
    engine = Engine(StageTree(stage, 1), SERVICES)
    opened(engine)
    sent = bodies(engine.handle(Arrived("link", encode(9, 1, every)), 0.0))
    assert [each.lacks for each in sent if isinstance(each, Resolved)] == ["no coordinator"] * 3 + [""]


def test_a_node_that_has_lost_its_leader_asks_the_nodes_above_it() -> None:
    stage = Stage({1: 0, 2: 1, 3: 2, 4: 3})
    engine = Engine(LostTree(stage, 4), SERVICES)
    engine.handle(Opened("up", 3, Role.LEADER, 9), 0.0)
    (asked,) = bodies(engine.handle(Issue(order_of(TAG, "read", b"", None, 4), 20.0), 0.0))
    assert asked.climbs
    stage.leaders[4] = 0
    called = engine.handle(Closed("up"), 0.1)
    assert [each.peer for each in called if isinstance(each, CallDirect)] == [2]


def test_a_leader_cannot_make_up_any_number_of_members() -> None:
    engine = Engine(StageTree(Stage({1: 0, 2: 1, 3: 2}), 2), SERVICES)
    engine.handle(Opened("up", 1, Role.LEADER, 9), 0.0)
    (asked,) = bodies(engine.handle(Issue(order_of(TAG, "read", b"", None, 2), 20.0), 0.0))
    nodes = Ranges(((1, 1 << 62),)).flat()
    engine.handle(Arrived("up", encode(9, 1, Resolved(asked.number, nodes))), 0.1)
    last = Told(asked.number, ((b"x", nodes),), is_last=True)
    (ended,) = finished(engine.handle(Arrived("up", encode(9, 1, last)), 0.1))
    assert engine.dropped["too many targets"] == 1
    assert len(ended.answer.targets) <= bounds.TARGETS_MAX
    assert ended.answer.groups == ()
    assert not ended.answer.is_resolved


def test_an_order_that_waited_for_a_place_and_has_no_node_to_ask_ends() -> None:
    """All places are taken by orders for a node that acts long; 2 is down."""
    stage = Stage({1: 0, 2: 1, 3: 1})
    stage.act_s[3] = 50.0
    stage.missing.add(2)
    for _ in range(bounds.READINGS_ACTIVE_MIN):
        stage.issue(1, Ranges.of([3]), left_s=60.0)
    stage.issue(1, Ranges.of([2]), left_s=60.0)
    stage.run(bounds.SLOT_S + bounds.SETTLE_S + 1.0)
    assert [dict(each.missing) for each in stage.answers] == [{"down": Ranges.of([2])}]


def test_a_greeting_after_the_end_of_a_call_opens_nothing() -> None:
    engine = engine_of()
    engine.handle(Opened("call", 7, Role.CALLED, 9), 0.0)
    assert engine.sizes["links"] == 0


def test_a_peer_that_does_not_hold_a_question_any_more_has_one_stream() -> None:
    """It is asked directly, and forgets each question at once."""
    stage = Stage({1: 0, 2: 1, 3: 2})
    engine = Engine(StageTree(stage, 1), SERVICES)
    asked = engine.handle(Issue(order_of(TAG, "read", b"", Ranges.of([2]), 1), 20.0), 0.0)
    for life in range(5):
        (call,) = [each for each in asked if isinstance(each, CallDirect)]
        engine.handle(Opened(call.link, 2, Role.CALLED, 9), 0.0)
        asked = engine.handle(Arrived(call.link, encode(9, 1, Lost(decode(call.data).body.number))), 0.01 * life)
        assert [each.link for each in asked if isinstance(each, HangUp)] == [call.link]
        assert engine.sizes["direct"] == 1


def called_twice() -> tuple[Engine, list, list]:
    """1 asks 2, to which it has no edge, for two orders: the engine, and what it does for each."""
    engine, two = engine_of(), Ranges.of([2])
    asked = [engine.handle(Issue(order_of(each, "read", b"", two, 1), 9.0), 0.0) for each in (TAG, TAG[::-1])]
    return engine, *asked


def test_questions_to_one_peer_share_a_stream() -> None:
    """The stream ends with the last of them."""
    engine, first, second = called_twice()
    (call,) = [each for each in first if isinstance(each, CallDirect)]
    (sent,) = [each for each in second if isinstance(each, CallDirect | Transmit)]
    assert isinstance(sent, Transmit)
    assert sent.link == call.link
    assert engine.sizes["direct"] == 1
    engine.handle(Opened(call.link, 2, Role.CALLED, 9), 0.1)
    ends = []
    for data in (call.data, sent.data):
        told = Told(decode(data).body.number, ((b"x", Ranges.of([2]).flat()),), is_last=True)
        actions = engine.handle(Arrived(call.link, encode(9, 1, told)), 0.2)
        ends.append([type(each) for each in actions if isinstance(each, Finished | HangUp | Transmit)])
    assert ends == [[Finished], [HangUp, Finished]]
    assert (engine.sizes["direct"], engine.sizes["links"], engine.sizes["questions"]) == (0, 0, 0)


def test_a_question_that_is_over_is_ended_on_a_stream_that_others_use() -> None:
    """The stream stays open, so its end does not say so."""
    engine, first, _ = called_twice()
    (call,) = [each for each in first if isinstance(each, CallDirect)]
    engine.handle(Opened(call.link, 2, Role.CALLED, 9), 0.1)
    actions = engine.handle(Cancel(TAG), 0.2)
    assert bodies(actions) == [End(decode(call.data).body.number, stops=True)]
    assert not any(isinstance(each, HangUp) for each in actions)
    assert any(isinstance(each, HangUp) for each in engine.handle(Cancel(TAG[::-1]), 0.2))


def test_a_stream_on_which_nothing_comes_is_not_shared() -> None:
    """It may be one that a network that was cut still keeps from going on."""
    engine, two, calls = engine_of(), Ranges.of([2]), []
    for number, at in enumerate((0.0, 0.2, 0.55, 0.56)):
        while engine.deadline <= at:
            engine.handle(Wakeup(), engine.deadline)
        actions = engine.handle(Issue(order_of(b"%016d" % number, "read", b"", two, 1), 9.0), at)
        calls += [each for each in actions if isinstance(each, CallDirect)]
        if number == 2:  # the first stream goes on
            engine.handle(Opened(calls[0].link, 2, Role.CALLED, 9), at)
            engine.handle(Arrived(calls[0].link, encode(9, 1, Ack(decode(calls[0].data).body.number))), at)
    assert len({each.link for each in calls}) == 2
    assert engine.sizes["direct"] == 2


def test_the_end_of_a_shared_stream_ends_all_its_questions() -> None:
    engine, first, _ = called_twice()
    (call,) = [each for each in first if isinstance(each, CallDirect)]
    engine.handle(Closed(call.link, "silent"), 0.1)
    for _ in range(100):
        if not engine.sizes["orders"]:
            break
        engine.handle(Wakeup(), engine.deadline)
    assert [engine.sizes[each] for each in ("orders", "questions", "direct", "queue")] == [0, 0, 0, 0]


def test_an_answer_to_an_earlier_attempt_queues_an_order_once() -> None:
    """All places are taken when the order climbs again, and then its leader answers an earlier attempt: it would have
    begun a third time after its end."""
    engine = Engine(StageTree(Stage({1: 0, 2: 1, 3: 2}), 3), SERVICES)
    engine.handle(Opened("up", 2, Role.LEADER, 9), 0.0)
    asked = engine.handle(Issue(order_of(TAG, "read", b"", None, 3), 60.0), 0.0)
    while len(asks := [each for each in bodies(asked) if isinstance(each, Ask)]) < 2:
        pass_until(engine, asked, engine.deadline)
    engine.handle(Arrived("up", encode(9, 1, Ack(asks[1].number))), 1.0)
    pass_until(engine, [], now := bounds.SLOT_S)
    for number in range(bounds.READINGS_ACTIVE_MIN):
        engine.handle(Issue(order_of(b"%016d" % number, "read", b"", None, 3), 60.0), now)
    for each in reversed(asks):
        told = Told(each.number, is_last=True, lacks="no coordinator")
        engine.handle(Arrived("up", encode(9, 1, told)), now)
        pass_until(engine, [], now := now + 0.5)
    assert engine.sizes["admission"] == bounds.READINGS_ACTIVE_MIN + 1
    engine.handle(Cancel(TAG), now)
    pass_until(engine, [], 70.0)
    assert (engine.sizes["orders"], engine.sizes["admission"]) == (0, 0)


def pass_until(engine: Engine, actions: list, until: float) -> None:
    """Add what the engine does by itself until then. No node can be called."""
    while (at := engine.deadline) <= until:
        done = engine.handle(Wakeup(), at)
        while calls := [each for each in done if isinstance(each, CallDirect)]:
            actions += done
            done = [each for call in calls for each in engine.handle(Closed(call.link, "silent"), at)]
        actions += done


@pytest.mark.parametrize(
    ("idle_s", "measured_s", "after_s", "margin_s"),
    [
        (0.001, 0.001, 0.0, 0.052),
        (0.001, 0.101, 0.0, 0.252),
        (0.001, 0.101, 3.0, 0.152),
        (0.001, 0.101, 60.0, 0.052),
        (0.001, 0.25, 0.0, 0.3),
        (0.1, 0.1, 60.0, 0.25),
        (0.1, 0.06, 0.0, 0.21),
        (0.1, 0.06, 60.0, 0.17),
        (0.2, 0.2, 60.0, 0.3),
    ],
)
def test_a_hop_keeps_more_of_the_time_where_round_trips_are_long(
    idle_s: float, measured_s: float, after_s: float, margin_s: float
) -> None:
    link = LinkState(Opened("link", 2, Role.LEADER, 1, round_trip_s=idle_s))
    link.measure(measured_s, 10.0)
    assert link.margin_s(10.0 + after_s) == pytest.approx(margin_s, abs=0.0005)


def test_a_quick_acknowledgement_does_not_bring_a_slow_time_back() -> None:
    link = LinkState(Opened("link", 2, Role.LEADER, 1, round_trip_s=0.001))
    link.measure(0.25, 10.0)
    link.measure(0.002, 70.0)
    assert link.margin_s(70.0) == pytest.approx(0.053, abs=0.002)


def test_a_link_that_opened_in_a_slow_time_becomes_quick() -> None:
    link = LinkState(Opened("link", 2, Role.LEADER, 1, round_trip_s=0.2))
    for turn in range(20):
        link.measure(0.001, 10.0 + turn)
    assert link.margin_s(90.0) == pytest.approx(0.052)


def test_nodes_that_were_asked_directly_and_have_acknowledged_are_expired() -> None:
    """2 hangs, and its subordinate 12 was asked past it; then 12 hangs, too."""
    stage = Stage({1: 0, 2: 1, 12: 2, 22: 12})
    stage.act_s = dict.fromkeys(stage.leaders, 60.0)
    stage.stop(2)
    stage.issue(1, Ranges.of([2, 12, 22]), "write", left_s=0.5)
    stage.at(0.35, lambda: stage.stop(12))
    stage.run(2.0)
    assert {position for position, _ in stage.acted} == {12, 22}
    assert [each.missing for each in stage.answers] == [
        (("expired", Ranges.of([12, 22])), ("silent", Ranges.of([2])))
    ]


def test_after_a_slow_time_the_deepest_nodes_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 8 seven hops go up to 1, and eight down to 16."""
    stage = Stage(
        {1: 0, **{each: each - 1 for each in range(2, 9)}, 9: 1, **{each: each - 1 for each in range(10, 17)}}
    )
    monkeypatch.setattr(order_stage, "DELAY_S", 0.125)
    stage.issue(8, None, left_s=8.0)
    stage.run(20.0)
    monkeypatch.setattr(order_stage, "DELAY_S", 0.001)
    stage.answers.clear()
    stage.issue(8, None, left_s=4.0)
    stage.run(4.0)
    assert [each.missing for each in stage.answers] == [()]
