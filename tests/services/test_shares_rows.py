"""Whole tickets, folded reports, and wanted shares as a text."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.carriage.shares.interface import Branch
from subord.services.shares.folding import folded, over_time
from subord.services.shares.tickets import tickets_for, whole
from subord.services.shares.wanted import Share, WantedError, check_known, parse

# -- whole tickets --------------------------------------------------------------------------------------------------


@over(
    ("row", "found"),
    [
        ((60.0, 30.0, 10.0), [60, 30, 10]),
        ((66.4, 32.5, 1.1), [66, 33, 1]),  # the largest remainder
        ((33.5, 33.5, 33.0), [34, 33, 33]),  # of equal ones the earlier class
        ((99.2, 0.4, 0.4), [98, 1, 1]),
        ((49.9, 49.9, 0.2), [50, 49, 1]),
        ((100.0, 0.0, 0.0), [98, 1, 1]),
        ((6.0, 3.0, 1.0), [60, 30, 10]),  # any scale
        ((50.6, 48.9, 0.25, 0.25), [50, 48, 1, 1]),
    ],
)
def test_whole_tickets(row: tuple[float, ...], found: list[int]) -> None:
    assert whole(row) == found


@given(st.integers(1, 126), st.integers(0, 2**32))
def test_whole_tickets_are_exact(classes: int, seed: int) -> None:
    rng = Random(seed)
    row = [1e-3, *[rng.choice([0, rng.random(), 100 * rng.random()]) for _ in range(classes - 1)]]
    found, count = whole(row), tickets_for(len(row))
    assert sum(found) == count
    assert min(found) >= 1
    for tickets, exact in zip(found, (each * count / sum(row) for each in row), strict=True):
        assert tickets <= exact + 1 or tickets == 1


@over("row", [(0.0, 0.0), (50.0, -1.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_rows_without_meaning(row: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="needs shares"):
        whole(row)


@over(("classes", "count"), [(1, 100), (50, 100), (51, 1000), (126, 1000)])
def test_many_classes_need_more_tickets(classes: int, count: int) -> None:
    assert tickets_for(classes) == count


# -- reports --------------------------------------------------------------------------------------------------------


def test_a_fold_is_the_mean_over_nodes() -> None:
    small = Branch((60.0, 40.0), (20.0, 80.0), (False, True), 1)
    large = Branch((20.0, 80.0), (40.0, 40.0), (False, False), 3)
    assert folded([small, large]) == Branch([30.0, 70.0], [35.0, 50.0], [0, 0.25], 4)


BRANCHES = st.builds(
    Branch,
    st.tuples(*[st.floats(0, 100)] * 2),
    st.tuples(*[st.floats(0, 100)] * 2),
    st.tuples(*[st.floats(0, 1)] * 2),
    st.integers(1, 50),
)


@pytest.mark.slow
@given(st.lists(BRANCHES, min_size=1, max_size=4), st.lists(BRANCHES, min_size=1, max_size=4))
def test_the_fold_of_folds_is_that_of_all(some: list[Branch], others: list[Branch]) -> None:
    twice, once = folded([folded(some), folded(others)]), folded([*some, *others])
    assert list(twice.allocation) == pytest.approx(list(once.allocation))
    assert list(twice.usage) == pytest.approx(list(once.usage))
    assert list(twice.needy) == pytest.approx(list(once.needy))
    assert twice.nodes == once.nodes


def test_a_fold_of_needy_nodes_is_needy_in_whole() -> None:
    """Exactly so, whatever the sizes: arithmetic refuses more than all."""
    for count in range(1, 200):
        nodes = Branch((60.0, 40.0), (60.0, 40.0), (1, 0), 1 + count % 7)
        assert list(folded([nodes] * count).needy) == [1, 0]


def test_over_several_periods_the_last_backlog_counts() -> None:
    early = Branch((60.0, 40.0), (20.0, 80.0), (True, True), 2)
    late = Branch((20.0, 80.0), (40.0, 40.0), (False, True), 2)
    assert over_time([early]) is early
    assert over_time([early, late]) == Branch([40.0, 60.0], [30.0, 60.0], (False, True), 2)


# -- wanted shares --------------------------------------------------------------------------------------------------


@over(
    ("text", "shares"),
    [
        ("web=60,batch=30,rest=10", [("web", 60), ("batch", 30), ("rest", 10)]),
        (" web = 60 , rest = 40 ", [("web", 60), ("rest", 40)]),
        ("a=33.333,b=33.333,c=33.334", [("a", 33.333), ("b", 33.333), ("c", 33.334)]),
        ("a=99,b=1", [("a", 99), ("b", 1)]),
        ("a=1.001,b=98.999", [("a", 1.001), ("b", 98.999)]),  # 1.001 * 1000 is below 1001 in floating point
        ("web.slice=060,b-2_x=40.0", [("web.slice", 60), ("b-2_x", 40)]),
    ],
)
def test_wanted_shares(text: str, shares: list[tuple[str, float]]) -> None:
    assert list(parse(text)) == [Share(*each) for each in shares]


def many(count: int) -> str:
    """Equal shares; the last class has what is left."""
    each = round(100 / count, 3)
    return ",".join([f"c{number}={each}" for number in range(count - 1)] + [f"last={100 - each * (count - 1):.3f}"])


def test_126_classes_are_not_too_many() -> None:
    assert len(parse(many(126))) == 126


@over(
    ("text", "complaint"),
    [
        ("", '"" is no share: write CLASS=PERCENT, such as web=60,batch=30,rest=10'),
        ("web", '"web" is no share'),
        ("web=60,,rest=40", '"" is no share'),
        ("web=60,batch=30", "the shares sum to 90, not to 100: 10 are missing"),
        ("web=60,batch=30,rest=10.5", "the shares sum to 100.5, not to 100: 0.5 are too many"),
        ("a=33.333,b=33.333,c=33.333", "the shares sum to 99.999, not to 100: 0.001 are missing"),
        ("web=60,web=40", "class web stands there twice"),
        ("web=100", "web is the only class"),
        ("web=99.5,rest=0.5", "class rest has 0.5 percent, but keeps 1 on every node"),
        ("web=100,rest=0", "class rest has 0 percent"),
        ("web=-60,rest=160", '"-60" is no percent for class web: write a number from 0 to 100'),
        ("web=60%,rest=40%", '"60%" is no percent'),
        ("web=6e1,rest=40", '"6e1" is no percent'),
        ("web=nan,rest=40", '"nan" is no percent'),
        ("web=60.0001,rest=39.9999", "at most 3 decimals"),
        ("web=٦٠,rest=40", "is no percent"),
        ("Web=60,rest=40", '"Web" is no name of a class: small letters'),
        ("../x=60,rest=40", '"../x" is no name of a class'),
        (f"{'x' * 33}=60,rest=40", "at most 32"),
        ("\x1b[31m=60,rest=40", r"'\x1b[31m' is no name"),
        ("=60,rest=40", '"" is no name'),
        (many(127), "127 classes are too many: at most 126"),
        ("x" * 7000, "a text of 7000 characters"),
    ],
)
def test_wrong_shares(text: str, complaint: str) -> None:
    with pytest.raises(WantedError) as refused:
        parse(text)
    assert complaint in str(refused.value)
    assert len(str(refused.value)) < 200
    assert str(refused.value).isprintable()


def test_unknown_classes() -> None:
    shares = parse("web=60,batsh=40")
    check_known(shares, {"web", "batsh", "rest"})
    with pytest.raises(WantedError, match="no class batsh is known: correct the name; known classes: batch, web"):
        check_known(shares, {"web", "batch"})
    with pytest.raises(WantedError, match="known classes: none"):
        check_known(shares, ())
