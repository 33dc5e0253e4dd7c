"""One test for a whole table: it tries every case, and its failure names each case that fails.

`@over(names, cases)` stands where `@pytest.mark.parametrize` would. The cases are tried one after the other in one
test, with the same fixtures: a test of which each case needs fixtures of its own stays parametrised. Two tables above
one test are tried in all combinations. Invariant: no case is skipped because another failed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from reprlib import Repr
from typing import Any

import pytest


class CasesFailedError(AssertionError):
    """Its text names each failed case and the reason."""


FAILURES = (Exception, pytest.fail.Exception)
MESSAGE_CHARACTERS_MAX = 600
SHORT = Repr()
SHORT.maxstring = SHORT.maxother = 80


def over(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the test is called with each case for the arguments `names`."""
    several = isinstance(names, tuple)
    rows = list(_rows((names,) if isinstance(names, str) else names, cases, several=several))
    if not rows:
        raise ValueError(f"no case for {names}")

    def decorated(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def every(**fixtures: Any) -> None:
                failures: list[tuple[str, BaseException]] = []
                for label, row in rows:
                    with _collected(label, failures):
                        await test(**row, **fixtures)
                _tell(failures, len(rows))

        else:

            @functools.wraps(test)
            def every(**fixtures: Any) -> None:
                failures: list[tuple[str, BaseException]] = []
                for label, row in rows:
                    with _collected(label, failures):
                        test(**row, **fixtures)
                _tell(failures, len(rows))

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in rows[0][1]]
        assert len(left) + len(rows[0][1]) == len(signature.parameters), f"{test.__name__} does not take {names}"
        every.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return every

    return decorated


def _rows(names: tuple[str, ...], cases: Iterable[Any], *, several: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for case in cases:
        label, values = "", (case if several else (case,))
        if hasattr(case, "marks"):  # of pytest.param
            assert not case.marks, "one case cannot be marked alone"
            label, values = str(case.id or ""), case.values
        row = dict(zip(names, values, strict=True))
        yield label or ", ".join(f"{name}={_short(value)}" for name, value in row.items()), row


def _short(value: object) -> str:
    return getattr(value, "__name__", "") or SHORT.repr(value)


@contextmanager
def _collected(label: str, failures: list[tuple[str, BaseException]]) -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        failures.append((label, error))
    except BaseException as error:  # such as a skip, which ends the loop
        error.add_note(f"in the case {label}")
        raise


def _tell(failures: list[tuple[str, BaseException]], count: int) -> None:
    """The message has all failures, the traceback is that of the first."""
    if not failures:
        return
    texts = [f"{label}: {_reason(error)}" for label, error in failures]
    raise CasesFailedError(
        "\n".join([f"{len(failures)} of {count} cases failed, here the first", *texts])
    ) from failures[0][1]


def _reason(error: BaseException) -> str:
    if isinstance(error, CasesFailedError):  # of an inner table
        return str(error)
    return f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS_MAX]
