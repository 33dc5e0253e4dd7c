"""The order of candidates: the ranked list against the sort key, and the sort key against docs/protocol.md."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.address.numbering import Complete, Numbering, Paper, numbering
from subord.core.address.order import distance, in_rank_order, ranked

NUMBERINGS = st.builds(numbering, st.sampled_from(["complete", "paper"]), st.integers(2, 12))


@over(
    ("tree", "node", "order"),
    [
        (Complete(2), 1, []),
        (Complete(2), 2, [1]),
        (Complete(2), 3, [1, 2]),
        (Complete(2), 7, [3, 2, 1, 5, 4, 6]),
        (Complete(2), 11, [5, 4, 6, 7, 2, 3, 1, 9, 8, 10]),
        (Complete(3), 9, [3, 2, 4, 1, 6, 5, 7, 8]),  # ties of offset go to the lower position
        (Paper(4), 3, [1, 2]),  # level 0: position 1 comes first
        (Paper(4), 9, [2, 1, 3, 5, 4, 6, 7, 8]),
    ],
)
def test_ranked(tree: Numbering, node: int, order: list[int]) -> None:
    assert list(ranked(node, tree)) == order


@over(
    ("tree", "node", "candidate", "expected"),
    [
        (Complete(2), 11, 5, (0, 1, 0, 5)),
        (Complete(2), 11, 7, (0, 1, 2, 7)),
        (Complete(2), 11, 3, (0, 2, 1, 3)),
        (Complete(2), 11, 1, (0, 3, 0, 1)),
        (Complete(2), 11, 10, (1, 0, 1, 10)),
        (Paper(8), 5, 1, (1, 0, 0, 1)),
        (Paper(8), 5, 4, (1, 0, 3, 4)),
    ],
)
def test_distance(tree: Numbering, node: int, candidate: int, expected: tuple[int, int, int, int]) -> None:
    assert distance(node, candidate, tree) == expected


@given(NUMBERINGS, st.integers(1, 400))
def test_ranked_is_the_order_by_distance(tree: Numbering, node: int) -> None:
    expected = sorted(range(1, node), key=lambda candidate: distance(node, candidate, tree))
    assert list(ranked(node, tree)) == expected


@given(NUMBERINGS, st.integers(2, 2**130))
def test_ranked_starts_with_the_computed_leader(tree: Numbering, node: int) -> None:
    assert next(ranked(node, tree)) == tree.computed_leader(node)


@given(NUMBERINGS, st.integers(1, 400), st.lists(st.integers(-3, 500)))
def test_in_rank_order_picks_from_ranked(tree: Numbering, node: int, some: list[int]) -> None:
    assert in_rank_order(node, some, tree) == [candidate for candidate in ranked(node, tree) if candidate in some]


@pytest.mark.parametrize("tree", [Complete(2), Paper(3), Complete(8)])
def test_ranked_is_lazy(tree: Numbering) -> None:
    node = 2**64
    first = list(islice(ranked(node, tree), 1000))
    assert first[0] == tree.computed_leader(node)
    assert first == in_rank_order(node, first, tree)
    assert len(set(first)) == 1000


def test_a_candidate_must_be_lower() -> None:
    for candidate in (5, 6):
        with pytest.raises(ValueError, match="only lower positions"):
            distance(5, candidate, Complete(2))
    with pytest.raises(ValueError, match="no position 0"):
        distance(5, 0, Complete(2))
