"""Repeats of a line: said at once, then counted, then said again; and nothing that a stranger does fills a table."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from subord.runtime.log.dedup import ALIKE_MAX, DEBUG_MAX, REPEAT_S, SUBJECTS_MAX, Dedup

LOST = "lost the subordinate %s (%s)"


def record(words: str, *args: object, level: int = logging.WARNING, **extra: object) -> logging.LogRecord:
    return logging.getLogger("x").makeRecord("x", level, "", 0, words, args, None, extra=extra)


class Said:
    """A log with a clock of its own."""

    def __init__(self) -> None:
        self.repeats = Dedup()
        self.now = 100.0
        self.lines: list[str] = []

    def say(self, *words: object, **options: object) -> None:
        each = record(*words, **options)  # type: ignore[arg-type]
        if not self.repeats.hold(each, self.now):
            self.lines.append(each.getMessage())

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.lines += [f"{each.getMessage()} ({each.remark})" for each in self.repeats.due(self.now)]  # type: ignore[attr-defined]


def test_the_same_is_said_at_once_and_then_counted() -> None:
    said = Said()
    for _ in range(5):
        said.say(LOST, "10.0.0.4", "closed")
        said.say(LOST, "10.0.0.5", "closed")
    assert said.lines == ["lost the subordinate 10.0.0.4 (closed)", "lost the subordinate 10.0.0.5 (closed)"]
    said.after(REPEAT_S - 1)
    assert len(said.lines) == 2
    said.after(1)
    assert said.lines[2:] == [f"{each} (repeated 4 times in 30 s)" for each in said.lines[:2]]
    said.say(LOST, "10.0.0.4", "closed")
    said.after(REPEAT_S)
    assert said.lines[4:] == ["lost the subordinate 10.0.0.4 (closed) (repeated once in 30 s)"]
    for _ in range(3):
        said.after(REPEAT_S)
    said.say(LOST, "10.0.0.4", "closed")
    assert said.lines[5:] == ["lost the subordinate 10.0.0.4 (closed)"], "it was forgotten, so this is news"


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
    repeats = Dedup()
    assert not repeats.hold(record("%s", *one), 0.0)
    assert repeats.hold(record("%s", *other), 0.0) is is_same


def test_a_subject_of_its_own() -> None:
    repeats = Dedup()
    assert not repeats.hold(record("now %s", "here", subject=1), 0.0)
    assert not repeats.hold(record("now %s", "here", subject=2), 0.0), "the same place, but another move"
    assert repeats.hold(record("now %s", "there", subject=2), 0.0)


def test_many_that_differ_only_in_whom_they_are_about() -> None:
    said = Said()
    for number in range(1000):
        said.say("%s and we do not fit", number)
        said.say("this is about something else: %s", number // 500)
    assert len(said.lines) == ALIKE_MAX + 2
    said.after(REPEAT_S)
    assert f"999 and we do not fit (and {1000 - ALIKE_MAX} more like this in 30 s)" in said.lines


def test_all_debug_lines_are_said_until_they_are_too_many() -> None:
    said = Said()
    for _ in range(DEBUG_MAX + 7):
        said.say("sent %s", "beat", level=logging.DEBUG)
    assert len(said.lines) == DEBUG_MAX
    said.after(REPEAT_S)
    assert said.lines[-1] == "sent beat (and 7 more like this in 30 s)"


def test_the_tables_are_bounded_and_who_makes_room_is_said() -> None:
    said = Said()
    said.say("%s", "first")
    said.say("%s", "first")
    for number in range(3 * SUBJECTS_MAX):
        said.say(f"line {number}")  # another template each
    assert len(said.repeats) <= 2 * SUBJECTS_MAX
    said.after(1)
    assert said.lines[-1] == "first (repeated once in 1 s)"


def test_at_the_end_all_is_said() -> None:
    said = Said()
    for _ in range(3):
        said.say("again")
    (last,) = said.repeats.due()
    assert (last.repeated, last.remark) == (2, "repeated 2 times in 30 s")  # type: ignore[attr-defined]
    assert len(said.repeats) == 0
