"""The numberings of docs/protocol.md, section 1, by tables and by properties for every fan-out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.address.numbering import Complete, Numbering, Paper, numbering

FANOUTS = st.integers(2, 40)
POSITIONS = st.one_of(st.integers(1, 5000), st.integers(1, 2**130))
NUMBERINGS = st.builds(numbering, st.sampled_from(["complete", "paper"]), FANOUTS)


@pytest.mark.parametrize("name", ["complete", "paper"])
def test_the_eleven_nodes_of_the_paper(name: str) -> None:
    tree = numbering(name, 2)
    leaders = [tree.computed_leader(position) for position in range(1, 12)]
    assert leaders == [None, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [list(tree.computed_subordinates(leader, 11)) for leader in range(1, 7)] == [
        [2, 3],
        [4, 5],
        [6, 7],
        [8, 9],
        [10, 11],
        [],
    ]


@over(
    ("fanout", "position", "place"),
    [
        (2, 1, (0, 0)),
        (2, 2, (1, 0)),
        (2, 3, (1, 1)),  # 1 + p
        (2, 4, (2, 0)),
        (2, 6, (2, 2)),
        (2, 7, (2, 3)),  # 1 + p + p^2
        (2, 8, (3, 0)),
        (3, 1, (0, 0)),
        (3, 3, (1, 1)),
        (3, 4, (1, 2)),
        (3, 5, (2, 0)),
        (3, 12, (2, 7)),
        (3, 13, (2, 8)),
        (3, 14, (3, 0)),
        (8, 8, (1, 6)),
        (8, 9, (1, 7)),
        (8, 10, (2, 0)),
        (8, 72, (2, 62)),
        (8, 73, (2, 63)),
        (8, 74, (3, 0)),
    ],
)
def test_complete_at_level_boundaries(fanout: int, position: int, place: tuple[int, int]) -> None:
    assert Complete(fanout).level_and_offset(position) == place
    assert Complete(fanout).position_at(*place) == position


@over(
    ("fanout", "position", "place"),
    [
        (3, 1, (0, 0)),
        (3, 2, (0, 1)),
        (3, 3, (1, 0)),
        (3, 8, (1, 5)),
        (3, 9, (2, 0)),
        (3, 13, (2, 4)),
        (3, 26, (2, 17)),
        (3, 27, (3, 0)),
        (8, 7, (0, 6)),
        (8, 8, (1, 0)),
        (8, 63, (1, 55)),
        (8, 64, (2, 0)),
        (10, 999, (2, 899)),  # where a floating point logarithm goes wrong
        (10, 1000, (3, 0)),
        (10, 10**30 - 1, (29, 9 * 10**29 - 1)),
        (10, 10**30, (30, 0)),
    ],
)
def test_paper_at_level_boundaries(fanout: int, position: int, place: tuple[int, int]) -> None:
    assert Paper(fanout).level_and_offset(position) == place
    assert Paper(fanout).position_at(*place) == position


@pytest.mark.parametrize(
    ("tree", "leaders"),
    [
        (Complete(3), [None, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5]),
        (Paper(3), [None, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]),
        (Complete(8), [None] + [1] * 8 + [2] * 8 + [3]),
        (Paper(8), [None] + [1] * 14 + [2] * 8 + [3]),
    ],
)
def test_computed_leaders(tree: Numbering, leaders: list[int | None]) -> None:
    assert [tree.computed_leader(n + 1) for n in range(len(leaders))] == leaders


@pytest.mark.parametrize(
    ("tree", "sizes"),
    [(Complete(2), [1, 2, 4]), (Complete(8), [1, 8, 64]), (Paper(2), [1, 2, 4]), (Paper(8), [7, 56, 448])],
)
def test_level_sizes(tree: Numbering, sizes: list[int]) -> None:
    assert [tree.level_size(level) for level in range(3)] == sizes


@over(
    ("tree", "position", "slots"),
    [(Complete(8), 1, 8), (Complete(8), 2, 8), (Paper(8), 1, 14), (Paper(8), 2, 8), (Paper(2), 1, 2)],
)
def test_home_slots(tree: Numbering, position: int, slots: int) -> None:
    assert tree.home_slots(position) == slots
    assert len(tree.computed_subordinates(position, 10**9)) == slots


@given(POSITIONS)
def test_for_two_both_numberings_are_the_same(position: int) -> None:
    complete, paper = Complete(2), Paper(2)
    assert complete.level_and_offset(position) == paper.level_and_offset(position)
    assert complete.computed_leader(position) == paper.computed_leader(position)
    assert complete.home_slots(position) == paper.home_slots(position)
    assert complete.computed_subordinates(position, 1000) == paper.computed_subordinates(position, 1000)


@given(NUMBERINGS, POSITIONS)
def test_position_at_undoes_level_and_offset(tree: Numbering, position: int) -> None:
    level, offset = tree.level_and_offset(position)
    assert 0 <= offset < tree.level_size(level)
    assert tree.position_at(level, offset) == position


@given(FANOUTS, POSITIONS)
def test_paper_is_as_printed(fanout: int, position: int) -> None:
    level, offset = Paper(fanout).level_and_offset(position)
    assert fanout**level <= position < fanout ** (level + 1)
    assert offset == position - fanout**level


@given(NUMBERINGS, POSITIONS)
def test_the_computed_leader_is_one_level_up_at_offset_by_fanout(tree: Numbering, position: int) -> None:
    level, offset = tree.level_and_offset(position)
    leader = tree.computed_leader(position)
    if position == 1:
        assert leader is None
    elif level == 0:
        assert leader == 1
    else:
        assert leader == tree.position_at(level - 1, offset // tree.fanout)


@pytest.mark.slow
@given(NUMBERINGS, st.integers(1, 300))
def test_computed_subordinates_invert_computed_leader(tree: Numbering, size: int) -> None:
    for leader in range(1, size + 2):
        expected = [n for n in range(1, size + 1) if tree.computed_leader(n) == leader]
        assert list(tree.computed_subordinates(leader, size)) == expected
        assert len(expected) <= tree.home_slots(leader)


def test_numberings_are_values() -> None:
    assert numbering("complete", 8) is numbering("complete", 8)
    assert numbering("complete", 8) == Complete(8)
    assert numbering("paper", 8) == Paper(8)
    assert Complete(8) != Paper(8)
    with pytest.raises(AttributeError):
        Complete(8).fanout = 9  # type: ignore[misc]


@over("fanout", [1, 0, -2])
@over("name", ["complete", "paper"])
def test_a_fanout_below_two_is_refused(name: str, fanout: int) -> None:
    with pytest.raises(ValueError, match=f"the fan-out is {fanout}"):
        numbering(name, fanout)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="no numbering 'roman'"):
        numbering("roman", 2)  # type: ignore[arg-type]
    for tree in (Complete(3), Paper(3)):
        with pytest.raises(ValueError, match="no position 0"):
            tree.level_and_offset(0)
        with pytest.raises(ValueError, match="no position 0"):
            tree.computed_leader(0)
        with pytest.raises(ValueError, match="no position 0"):
            tree.computed_subordinates(0, 9)
        with pytest.raises(ValueError, match="no offset"):
            tree.position_at(1, tree.level_size(1))
        with pytest.raises(ValueError, match="no offset -1"):
            tree.position_at(1, -1)
        with pytest.raises(ValueError, match="no level -1"):
            tree.level_size(-1)
