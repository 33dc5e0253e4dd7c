"""A loop over a table tries every case and names each that fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from loops import over


def message(test: Callable[..., Any], **fixtures: object) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        test(**fixtures)
    return str(caught.value).splitlines()


def test_every_case_is_tried_and_each_failure_named() -> None:
    tried = []

    @over("number", range(5))
    def test(number: int) -> None:
        tried.append(number)
        if number == 1:
            raise ValueError("one")
        if number == 3:
            pytest.fail("three")

    assert message(test) == [
        "2 of 5 cases failed, here the first",
        "number=1: ValueError: one",
        "number=3: Failed: three",
    ]
    assert tried == [0, 1, 2, 3, 4]


def test_fixtures_remain_and_tables_multiply() -> None:
    tried = []

    @over(("one", "other"), [(1, "x"), pytest.param(2, "y", id="two")])
    @over("last", [True, False])
    def test(one: int, other: str, *, last: bool, fixture: list[object]) -> None:
        tried.append((one, other, last))
        assert fixture == []
        assert (one, last) != (2, False)

    assert list(inspect.signature(test).parameters) == ["fixture"]
    first, outer, inner, *_ = message(test, fixture=[])
    assert first.startswith("1 of 2 cases failed")
    assert outer == "two: 1 of 2 cases failed, here the first"
    assert inner.startswith("last=False: AssertionError: ")
    assert tried == [(1, "x", True), (1, "x", False), (2, "y", True), (2, "y", False)]


@over("delay_s", [0.0, 1.0])
async def test_what_is_async_is_awaited(delay_s: float, autojump_clock: object) -> None:
    import trio

    before = trio.current_time()
    await trio.sleep(delay_s)
    assert trio.current_time() - before == delay_s


async def test_failures_of_what_is_async_are_named() -> None:
    @over("number", [1, 2])
    async def test(number: int) -> None:
        assert number == 1

    with pytest.raises(AssertionError, match=r"1 of 2 cases failed, here the first\nnumber=2: "):
        await test()


def test_a_skip_is_no_failure_and_an_empty_table_no_test() -> None:
    @over("number", [1])
    def test(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception, match="not here"):
        test()
    with pytest.raises(ValueError, match="no case for number"):
        over("number", [])
