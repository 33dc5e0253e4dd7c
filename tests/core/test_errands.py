"""A root that looks for other trees sends its members to knock (errands.py)."""

from __future__ import annotations

import pytest
from small_world import SmallWorld

from subord.core.doors import common_doors
from subord.core.events import Dropped
from subord.core.messages import Advice, Ask, Errand, Message
from subord.core.settings import LAN
from subord.core.walk import ROW

BLOCK = tuple(range(48_000, 48_020))
OTHER = tuple(range(59_000, 59_020))
FIRST_DOOR = next(number for number, door in enumerate(common_doors(65_534)) if door in BLOCK + OTHER)
ALONE_S = FIRST_DOOR * LAN.knock_s
Said = list[tuple[float, int, int, Message]]


def village(*blocks: tuple[int, ...]) -> tuple[SmallWorld, Said]:
    world = SmallWorld.empty(2)
    said: Said = []
    world.on_message = lambda source, target, message, _copies: said.append((world.now, source, target, message))
    world.start_all([position for block in blocks for position in block])
    return world, said


def test_two_villages_meet_long_before_a_single_walker_would_reach_either() -> None:
    assert ALONE_S > 30
    world, _ = village(BLOCK, OTHER)
    assert world.run_until(world.whole, within_s=ALONE_S) < ALONE_S / 2


def test_an_errand_is_a_question_in_the_name_of_the_root_and_answered_to_it() -> None:
    world, said = village(BLOCK)
    world.run(60)  # it has walked its list to the end
    root, runner = BLOCK[0], BLOCK[-1]
    said.clear()
    world.start(OTHER[0])
    exchange = world.nodes[root].joining._questions.expect((OTHER[0],))
    world.tell(root, runner, Errand(world.nodes[root].context.incarnation, exchange, (OTHER[0],)))
    world.run(0.05)
    terms = world.nodes[root].context.terms
    asked = Ask(world.nodes[root].context.incarnation, exchange, terms, asker=root)
    assert [(s, t) for _, s, t, message in said if message == asked] == [(runner, OTHER[0])]
    assert [t for _, s, t, message in said if s == OTHER[0] and isinstance(message, Advice)] == [root]


def test_nobody_runs_more_often_than_it_would_walk() -> None:
    world, said = village(BLOCK)
    world.run(60)  # it has walked its list to the end
    root, runner = BLOCK[0], BLOCK[-1]
    said.clear()
    for number in range(20):
        doors = tuple(range(1_000 + ROW * number, 1_000 + ROW * (number + 1)))
        world.tell(root, runner, Errand(world.nodes[root].context.incarnation, 10_000 * number, doors))
        world.run(0.1)
    knocked = [at for at, source, target, _ in said if source == runner and target < 2_000]
    assert knocked
    in_two_rows = [sum(0 <= later - at < 2 * ROW * LAN.knock_s for later in knocked) for at in knocked]
    assert max(in_two_rows) <= 3 * ROW
    dropped = [n.reason for _, p, n in world.notices if p == runner and isinstance(n, Dropped)]
    assert dropped.count("errand_too_soon") >= 20 - len(knocked) // ROW


@pytest.mark.parametrize("sender", [BLOCK[3], OTHER[0]])
def test_only_the_own_root_may_send_us(sender: int) -> None:
    world, said = village(BLOCK)
    world.run(60)  # it has walked its list to the end
    said.clear()
    world.tell(sender, BLOCK[-1], Errand(1, 1, (2_000,)))
    world.run(0.05)
    assert not [target for _, _, target, _ in said if target == 2_000]
    assert [n for _, p, n in world.notices if p == BLOCK[-1] and isinstance(n, Dropped)][-1].reason == "unexpected"


def test_a_question_in_our_own_name_is_no_question() -> None:
    world, said = village(BLOCK)
    world.run(60)  # it has walked its list to the end
    said.clear()
    world.tell(BLOCK[3], BLOCK[0], Ask(1, 1, world.nodes[BLOCK[0]].context.terms, asker=BLOCK[0]))
    world.run(0.05)
    assert not [message for _, source, _, message in said if source == BLOCK[0] and isinstance(message, Advice)]
    reasons = [n.reason for _, p, n in world.notices if p == BLOCK[0] and isinstance(n, Dropped)]
    assert reasons[-1] == "own_question"


def test_who_leads_nobody_sends_nobody() -> None:
    world, said = village(BLOCK[:1])
    world.run(30)
    assert not [message for *_, message in said if isinstance(message, Errand)]


def test_in_a_dense_tree_nobody_runs_errands() -> None:
    world = SmallWorld.dense(100, 2)
    world.run(60)
    assert world.sent["Errand"] == 0
