"""A root that looks for other trees delegates probes (core/search/delegation.py)."""

from __future__ import annotations

from math import inf

import pytest
from small_world import SmallWorld

from subord.core.discovery.probe_order import common_targets
from subord.core.discovery.prober import EARLY, ROW
from subord.core.events import Dropped
from subord.core.messages import Advice, Ask, Change, Errand, Message
from subord.core.search.delegation import DELEGATES_MAX, INDIRECT_MAX, LOOKED_AT_MAX
from subord.core.settings import LAN
from subord.wire.codec import decode, encode

BLOCK = tuple(range(48_000, 48_020))
OTHER = tuple(range(59_000, 59_020))
FIRST_DOOR = next(number for number, target in enumerate(common_targets(65_534)) if target in BLOCK + OTHER)
ALONE_S = FIRST_DOOR * LAN.probe_gap_s
Sent = list[tuple[float, int, int, Message]]


def blocks_at_rest(*blocks: tuple[int, ...]) -> tuple[SmallWorld, Sent]:
    world = SmallWorld.empty(2)
    said: Sent = []
    world.on_message = lambda source, target, message, _copies: said.append((world.now, source, target, message))
    world.start_all([position for block in blocks for position in block])
    return world, said


def reasons(world: SmallWorld, position: int) -> list[str]:
    """The drop reasons of `position`, in order."""
    return [notice.reason for _, p, notice in world.notices if p == position and isinstance(notice, Dropped)]


def test_two_blocks_meet_long_before_a_single_prober_would_reach_either() -> None:
    assert ALONE_S > 30
    world, _ = blocks_at_rest(BLOCK, OTHER)
    assert world.run_until(world.whole, within_s=ALONE_S) < ALONE_S / 2


def test_an_errand_is_a_question_in_the_name_of_the_root_and_answered_to_it() -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)  # the common list is through
    root, delegate = BLOCK[0], BLOCK[-1]
    said.clear()
    world.start(OTHER[0])
    exchange = world.nodes[root].search.requests.expect((OTHER[0],))
    world.tell(root, delegate, Errand(world.nodes[root].context.incarnation, exchange, (OTHER[0],)))
    world.run(0.05)
    terms = world.nodes[root].context.terms
    asked = Ask(world.nodes[root].context.incarnation, exchange, terms, asker=root)
    assert [(s, t) for _, s, t, message in said if message == asked] == [(delegate, OTHER[0])]
    assert [t for _, s, t, message in said if s == OTHER[0] and isinstance(message, Advice)] == [root]


def test_a_delegate_probes_no_faster_than_for_itself() -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)  # the common list is through
    root, delegate = BLOCK[0], BLOCK[-1]
    said.clear()
    for number in range(20):
        targets = tuple(range(1_000 + ROW * number, 1_000 + ROW * (number + 1)))
        world.tell(
            root, delegate, Errand(world.nodes[root].context.incarnation, 10_000 * number, targets + targets[:2])
        )
        world.run(0.1)
    assert world.nodes[delegate].search.prober.next_at == inf
    knocked = [at for at, source, target, _ in said if source == delegate and target < 2_000]
    assert knocked
    almost_two_rows_s = (2 - EARLY) * ROW * LAN.probe_gap_s - 1e-6
    in_two_rows = [sum(0 <= later - at < almost_two_rows_s for later in knocked) for at in knocked]
    assert max(in_two_rows) == 2 * ROW


@pytest.mark.parametrize("targets", [(2_000,) * 8, tuple(range(2_000, 2_008))])
def test_an_errand_is_at_most_a_row_and_probes_no_target_twice(targets: tuple[int, ...]) -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)
    said.clear()
    world.tell(BLOCK[0], BLOCK[-1], Errand(world.nodes[BLOCK[0]].context.incarnation, 1, targets))
    asked = [target for _, source, target, _ in said if source == BLOCK[-1]]
    assert asked == list(dict.fromkeys(targets[:ROW]))


def test_no_delegate_probes_itself() -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)
    said.clear()
    world.tell(BLOCK[0], BLOCK[-1], Errand(world.nodes[BLOCK[0]].context.incarnation, 1, (BLOCK[-1], 2_000)))
    assert [target for _, source, target, _ in said if source == BLOCK[-1]] == [2_000]


def test_an_exchange_out_of_bounds_is_no_errand() -> None:
    assert isinstance(decode(encode(Errand(1, (1 << 62) - 1, (2_000, 2_001)))), Errand)
    assert not isinstance(decode(encode(Errand(1, 1 << 62, (2_000, 2_001)))), Errand)


def test_an_errand_of_an_older_incarnation_of_the_leader_is_dropped() -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)
    said.clear()
    world.tell(BLOCK[0], BLOCK[1], Errand(world.nodes[BLOCK[0]].context.incarnation - 1, 1, (2_000,)))
    assert said == []
    assert reasons(world, BLOCK[1])[-1] == "older_incarnation"


def test_errands_go_to_at_most_eight_nodes_and_few_indirect_ones() -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)
    root = BLOCK[0]
    rows: dict[float, set[int]] = {}
    for at, source, target, message in said:
        if source == root and isinstance(message, Errand):
            rows.setdefault(at, set()).add(target)
    own = {position for position in BLOCK if world.leader_of(position) == root}
    whole = [delegates for at, delegates in rows.items() if at > 5]  # then no node moves any more
    assert whole
    assert all(len(delegates) <= DELEGATES_MAX and len(delegates - own) <= INDIRECT_MAX for delegates in whole)
    assert max(map(len, whole)) == len(own) + INDIRECT_MAX


@pytest.mark.slow
def test_lost_probes_are_repeated_once() -> None:
    """A fifth of all questions, answers and errands is lost; alone, and without loss, the search takes ALONE_S.

    A target that counts is asked a few times at most, so the search of one seed in sixteen passes it by.
    """
    late = []
    for seed in range(16):
        world = SmallWorld.empty(2, seed=seed)
        world.lossy = lambda _s, _t, said, of=world: (
            isinstance(said, Ask | Advice | Errand) and of.chance.random() < 0.2
        )
        world.start_all(BLOCK + OTHER)
        begun = world.now
        while not world.whole() and world.now < begun + 2 * ALONE_S:
            world.run(0.1)
        if not world.whole():
            late.append(seed)
    assert len(late) <= 1, late


@pytest.mark.parametrize("sender", [BLOCK[3], OTHER[0]])
def test_only_the_own_root_may_delegate(sender: int) -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)  # the common list is through
    said.clear()
    world.tell(sender, BLOCK[-1], Errand(1, 1, (2_000,)))
    world.run(0.05)
    assert not [target for _, _, target, _ in said if target == 2_000]
    assert reasons(world, BLOCK[-1])[-1] == "unexpected"


@pytest.mark.parametrize("asker", [BLOCK[0], BLOCK[5]])
def test_questions_in_the_name_of_the_receiver_or_of_a_higher_rank_are_dropped(asker: int) -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)
    said.clear()
    world.tell(BLOCK[3], BLOCK[0], Ask(1, 1, world.nodes[BLOCK[0]].context.terms, asker=asker))
    assert said == []
    assert reasons(world, BLOCK[0])[-1] == "false_errand"


@pytest.mark.slow
def test_delegated_questions_reserve_no_places_and_are_limited() -> None:
    world, said = blocks_at_rest(BLOCK)
    world.run(60)
    said.clear()
    for asker in range(1, 2_001):
        world.tell(BLOCK[3], BLOCK[1], Ask(1, asker, world.nodes[BLOCK[0]].context.terms, asker=asker))
    answered = sum(source == BLOCK[1] for _, source, _, _ in said)
    assert 0 < answered <= LAN.admissions_per_s
    assert reasons(world, BLOCK[1]).count("errand_busy") == 2_000 - answered
    assert world.nodes[BLOCK[1]].downlink.vacancies._reservations == {}


def test_a_root_draws_delegates_from_a_few_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted instead of timed: each draw looks at few rows, and all rows are drawn in the end."""
    world, _ = blocks_at_rest((7,))
    world.run(10)
    root, rows = world.nodes[7], range(1000, 1000 + 10 * LOOKED_AT_MAX)
    for position in rows:
        root.roster.state(8, Change(position, 8, 1, 1, 0, 0), 0.0)
    looked_at: list[int] = []
    is_live = root.roster.is_live

    def noted(position: int) -> bool:
        looked_at.append(position)
        return is_live(position)

    monkeypatch.setattr(root.roster, "is_live", noted)
    for draws in range(1, 1 + 200):
        drawn = root.search.delegation._delegates()
        assert len(set(drawn)) == 1 + INDIRECT_MAX
        assert len(looked_at) <= draws * LOOKED_AT_MAX
    assert set(looked_at) >= set(rows)


def test_a_root_without_subordinates_delegates_nothing() -> None:
    world, said = blocks_at_rest(BLOCK[:1])
    world.run(30)
    assert not [message for *_, message in said if isinstance(message, Errand)]


@pytest.mark.slow
def test_in_a_dense_tree_nothing_is_delegated() -> None:
    world = SmallWorld.dense(100, 2)
    world.run(60)
    assert world.sent["Errand"] == 0
