"""The register of members: runs, merging, and what is refused."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subord.core.members import register as module
from subord.core.members.register import LEAP_MS_MAX, Record, Register, Run, State, runs_of

SIZE = 40
NOW_MS = 1_800_000_000_000
positions = st.integers(1, SIZE)
records = st.builds(Record, st.integers(0, 3), st.sampled_from(State), st.integers(0, 2), st.integers(0, 2))
runs = st.builds(lambda a, b, record: Run(min(a, b), max(a, b), record), positions, positions, records)


def up(first: int, last: int, stamp_ms: int = 1) -> Run:
    return Run(first, last, Record(stamp_ms, State.UP))


def down(position: int, stamp_ms: int = 2) -> Run:
    return Run(position, position, Record(stamp_ms, State.DOWN))


def contents(register: Register) -> dict[int, Record]:
    return {p: record for p in range(1, SIZE + 1) if (record := register.at(p)) is not None}


@pytest.mark.slow
@given(st.lists(runs, max_size=30), st.randoms())
def test_the_order_of_records_does_not_matter(given_runs: list[Run], chance: Random) -> None:
    expected: dict[int, Record] = {}
    for run in given_runs:
        for p in range(run.first, run.last + 1):
            expected[p] = max(expected.get(p, run.record), run.record)
    first, second = Register(SIZE, given_runs), Register(SIZE)
    shuffled = given_runs * 2
    chance.shuffle(shuffled)
    for run in shuffled:
        second.merge([run])
    assert contents(first) == expected
    assert first.runs == second.runs
    assert first.digest == second.digest


@given(st.lists(runs, max_size=30))
def test_runs_are_disjoint_ordered_and_as_few_as_possible(given_runs: list[Run]) -> None:
    register = Register(SIZE, given_runs)
    for left, right in zip(register.runs, register.runs[1:], strict=False):
        assert left.last < right.first
        assert left.last + 1 < right.first or left.record != right.record


@pytest.mark.slow
@given(st.lists(runs, max_size=20), st.lists(runs, max_size=20))
def test_what_changed_is_what_another_register_lacks(one: list[Run], other: list[Run]) -> None:
    register, copy = Register(SIZE, one), Register(SIZE, one)
    changed = register.merge(other)
    copy.merge(changed)
    assert copy.runs == register.runs
    assert not register.merge(changed)


def test_a_cluster_that_started_together_is_one_run() -> None:
    register = Register(SIZE, runs_of(range(1, 31), Record(1, State.UP)))
    assert register.runs == [up(1, 30)]
    register.merge([down(5)])
    assert register.runs == [up(1, 4), down(5), up(6, 30)]
    assert (register.positions(State.DOWN), len(register.positions(State.UP))) == ([5], 29)
    register.merge([up(5, 5, 3), up(31, 31)])
    assert register.runs == [up(1, 4), up(5, 5, 3), up(6, 31)]
    assert register.at(32) is None


def test_taking_leaves_the_rest() -> None:
    register = Register(SIZE, [up(1, 4), down(5), up(6, 9)])
    digest = register.digest
    assert register.take(2) == [up(1, 4), down(5)]
    assert register.items() == [up(6, 9)]
    assert register.digest != digest
    assert register.empty().items() == []


def test_records_survive_the_wire() -> None:
    register = Register(SIZE, [up(1, 4), down(5), Run(6, 6, Record(3, State.FORGOTTEN, 2, 1))])
    assert register.decode(register.encode(register.items()), NOW_MS) == register.runs


@pytest.mark.parametrize(
    "run",
    [
        [0, 3, [1, 1, 0, 0]],
        [3, 1, [1, 1, 0, 0]],
        [1, SIZE + 1, [1, 1, 0, 0]],
        [1, 1, [1, 0, 0, 0]],
        [1, 1, [1, 5, 0, 0]],
        [1, 1, [-1, 1, 0, 0]],
        [1, 1, [1 << 53, 1, 0, 0]],
        [1, 1, [1, 1, 0, SIZE + 1]],
        [1, 1],
        7,
    ],
)
def test_impossible_runs_are_refused(run: object) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        Register(SIZE).decode(msgspec.msgpack.encode([run]), NOW_MS)


def test_a_record_far_ahead_of_the_clock_is_not_taken() -> None:
    """No later record could replace it for long."""
    register = Register(SIZE)
    ahead = [up(1, 1, NOW_MS + LEAP_MS_MAX), up(2, 2, NOW_MS + LEAP_MS_MAX + 1)]
    assert register.decode(register.encode(ahead), NOW_MS) == ahead[:1]


def test_the_number_of_positions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMBERS_MAX", 4)
    register = Register(SIZE, [down(p, p) for p in range(1, 20, 2)])
    assert (len(register), register.refused) == (4, 6)


def test_a_full_register_still_takes_what_happens_to_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMBERS_MAX", 6)
    register = Register(SIZE, [up(1, 6)])
    assert register.merge([down(3)]) == [down(3)]
    assert register.runs == [up(1, 2), down(3), up(4, 6)]
    assert register.merge([up(5, 9, 3)]) == [up(5, 6, 3)]
    register.take(1)
    assert register.merge([up(20, 21)])


def test_one_run_cannot_make_members_of_a_whole_network() -> None:
    """Every position of a run is listed: a short frame would take the memory of all nodes."""
    register = Register(1 << 64)
    assert register.merge([up(1, 1 << 63)]) == []
    assert register.positions(State.UP) == []
