"""A leader that hides its branch: the hidden nodes notice it, the root learns of some, and questions stay rare."""

from __future__ import annotations

import msgspec
import pytest
from liars import lies
from small_world import SmallWorld

from subord.core.edges.listing import AGAIN_S, ANSWERS_PER_S, HIDDEN_MAX, INTERVAL_S, NO, TIMES, YES
from subord.core.messages import Advice, Ask, Beat, Message, Terms
from subord.core.snapshots import snapshot

LIAR = 3
HIDDEN = (6, 7, 12, 13, 14, 15)


def alone(message: Message) -> Message:
    """An interior node that reports itself alone."""
    if not isinstance(message, Beat):
        return message
    rows = tuple(row for row in message.changes if row.position == LIAR)
    return msgspec.structs.replace(message, changes=rows, gone=(), rows=1)


def unlisted(world: SmallWorld, position: int) -> tuple[int, ...]:
    return snapshot(world.nodes[position], world.now).unlisted


@pytest.mark.slow
def test_hidden_nodes_report_it_and_the_root_lists_them() -> None:
    world = SmallWorld.empty(2, "10.0.0.0/24")
    lies(world, LIAR, alone)
    world.start_all(range(1, 16))
    world.run(2 * INTERVAL_S + TIMES * 2 * AGAIN_S)
    rows = world.nodes[1].roster.rows
    assert set(rows) == set(range(1, 16)) - set(HIDDEN)
    assert unlisted(world, 1) == HIDDEN, "the root names them"
    for position in world.nodes:
        assert (unlisted(world, position) == (position,)) == (position in HIDDEN) or position == 1
    world.wires.pop(LIAR)
    world.crash(LIAR)  # their next leaders report them
    world.run(3 * INTERVAL_S)
    assert not any(unlisted(world, position) for position in world.nodes)


@pytest.mark.slow
def test_a_correct_tree_asks_rarely_and_reports_nothing() -> None:
    world = SmallWorld.dense(40, 3, "10.0.0.0/24")
    asked: list[float] = []

    def count(_source: int, _target: int, message: Message) -> bool:
        if isinstance(message, Ask) and message.listing:
            asked.append(world.now)
        return False

    world.lossy = count
    world.run(4 * INTERVAL_S)
    below_second_level = 40 - 1 - 3
    assert 2.5 * below_second_level < len(asked) < 6 * below_second_level
    busiest = max(sum(at <= other < at + 10 for other in asked) for at in asked)
    assert busiest < below_second_level / 4, "the questions are spread"
    assert not any(unlisted(world, position) for position in world.nodes)


@pytest.mark.slow
def test_a_root_of_an_earlier_release_tells_nothing() -> None:
    world = SmallWorld.empty(2, "10.0.0.0/24")

    def older(message: Message) -> Message:
        return msgspec.structs.replace(message, listed=0) if isinstance(message, Advice) else message

    lies(world, 1, older)
    lies(world, LIAR, alone)
    world.start_all(range(1, 16))
    world.run(3 * INTERVAL_S)
    assert not any(unlisted(world, position) for position in set(world.nodes) - {1})


def test_what_a_root_keeps_and_answers_is_bounded() -> None:
    world = SmallWorld.dense(3, 2, "10.0.0.0/16")
    world.run(20)
    answered: list[int] = []
    world.lossy = lambda _source, target, message: isinstance(message, Advice) and not answered.append(target)
    terms = world.nodes[1].context.terms
    for source in range(1000, 1000 + 3 * int(ANSWERS_PER_S)):
        world.tell(source, 1, Ask(1, 1, terms, listing=TIMES))
    assert len(answered) == ANSWERS_PER_S
    assert len(unlisted(world, 1)) == HIDDEN_MAX


def test_the_root_says_whether_it_lists_the_asker() -> None:
    world = SmallWorld.dense(3, 2)
    world.run(30)
    answers = []
    for incarnation in (1000, 1001):
        ask = Ask(incarnation, 1, Terms.of(world.settings), listing=1)
        world.nodes[1].listing.answer(2, ask, is_root=True)
        answers.append(world.nodes[1].context.actions.pop())
    assert [each.message.listed for each in answers] == [YES, NO]  # type: ignore[union-attr]
