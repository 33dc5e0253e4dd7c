"""Deduplication of log lines: the first passes, repeats are counted and summed up, the tables are bounded."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from subord.runtime.log.dedup import ALIKE_MAX, DEBUG_MAX, REPEAT_S, SUBJECTS_MAX, Dedup

LOST = "lost the subordinate %s (%s)"


def record(words: str, *args: object, level: int = logging.WARNING, **extra: object) -> logging.LogRecord:
    return logging.getLogger("x").makeRecord("x", level, "", 0, words, args, None, extra=extra)


class FakeLog:
    """A log with a settable clock."""

    def __init__(self) -> None:
        self.dedup = Dedup()
        self.now = 100.0
        self.lines: list[str] = []

    def add(self, *words: object, **options: object) -> None:
        each = record(*words, **options)  # type: ignore[arg-type]
        if not self.dedup.hold(each, self.now):
            self.lines.append(each.getMessage())

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.lines += [f"{each.getMessage()} ({each.remark})" for each in self.dedup.due(self.now)]  # type: ignore[attr-defined]


def test_a_line_passes_at_once_and_repeats_are_counted() -> None:
    log = FakeLog()
    for _ in range(5):
        log.add(LOST, "10.0.0.4", "closed")
        log.add(LOST, "10.0.0.5", "closed")
    assert log.lines == ["lost the subordinate 10.0.0.4 (closed)", "lost the subordinate 10.0.0.5 (closed)"]
    log.after(REPEAT_S - 1)
    assert len(log.lines) == 2
    log.after(1)
    assert log.lines[2:] == [f"{each} (repeated 4 times in 30 s)" for each in log.lines[:2]]
    log.add(LOST, "10.0.0.4", "closed")
    log.after(REPEAT_S)
    assert log.lines[4:] == ["lost the subordinate 10.0.0.4 (closed) (repeated once in 30 s)"]
    for _ in range(3):
        log.after(REPEAT_S)
    log.add(LOST, "10.0.0.4", "closed")
    assert log.lines[5:] == ["lost the subordinate 10.0.0.4 (closed)"], "the window ended, so the line passes again"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (({"leader": "a"},), ({"leader": "a"},), True),
        (({"leader": "a"},), ({"leader": "b"},), False),
        (("a",), ("a",), True),
        ((), (), True),
    ],
)
def test_what_counts_as_the_same(
    one: tuple[Mapping[str, str]], other: tuple[Mapping[str, str]], is_same: bool
) -> None:
    dedup = Dedup()
    assert not dedup.hold(record("%s", *one), 0.0)
    assert dedup.hold(record("%s", *other), 0.0) is is_same


def test_a_subject_of_its_own() -> None:
    dedup = Dedup()
    assert not dedup.hold(record("now %s", "here", subject=1), 0.0)
    assert not dedup.hold(record("now %s", "here", subject=2), 0.0), "the same words, another subject"
    assert dedup.hold(record("now %s", "there", subject=2), 0.0)


def test_lines_that_differ_only_in_their_subject_are_limited() -> None:
    log = FakeLog()
    for number in range(1000):
        log.add("%s refused", number)
        log.add("another line: %s", number // 500)
    assert len(log.lines) == ALIKE_MAX + 2
    log.after(REPEAT_S)
    assert f"999 refused (and {1000 - ALIKE_MAX} more like this in 30 s)" in log.lines


def test_debug_lines_pass_up_to_a_limit() -> None:
    log = FakeLog()
    for _ in range(DEBUG_MAX + 7):
        log.add("sent %s", "beat", level=logging.DEBUG)
    assert len(log.lines) == DEBUG_MAX
    log.after(REPEAT_S)
    assert log.lines[-1] == "sent beat (and 7 more like this in 30 s)"


def test_the_tables_are_bounded_and_evicted_windows_are_reported() -> None:
    log = FakeLog()
    log.add("%s", "first")
    log.add("%s", "first")
    for number in range(3 * SUBJECTS_MAX):
        log.add(f"line {number}")  # another template each
    assert len(log.dedup) <= 2 * SUBJECTS_MAX
    log.after(1)
    assert log.lines[-1] == "first (repeated once in 1 s)"


def test_all_windows_are_reported_at_the_end() -> None:
    log = FakeLog()
    for _ in range(3):
        log.add("again")
    (last,) = log.dedup.due()
    assert (last.repeated, last.remark) == (2, "repeated 2 times in 30 s")  # type: ignore[attr-defined]
    assert len(log.dedup) == 0
