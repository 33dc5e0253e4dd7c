"""Sums of records: rows, what they cover, periods, days, jobs of several hosts, and records of several databases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from subord.client.errors import CommandError
from subord.services.account import times
from subord.services.account.reading import Stored
from subord.services.account.sums import SLACK_S, Period, Report, each_once

DAY = 86_400
NOON = 1_800_014_400 - 1_800_014_400 % DAY + DAY // 2
"""Of a day in UTC."""


def stored(sequence: int, *, node: str = "10.0.0.4", stored_at: float = NOON, **fields: Any) -> Stored:
    job = {"v": 1, "id": str(sequence), "ended": NOON, **fields}
    return Stored(node, 7, sequence, json.dumps(job).encode(), int(stored_at))


def report(*records: Stored, by: str = "user", period: Period | None = None) -> Report:
    found = Report(by, period or Period())
    for each in records:
        found.add(each)
    return found


def test_what_a_row_has() -> None:
    found = report(
        stored(1, user="ann", started=NOON - 100, slots=4, cpu_user_s=300, cpu_system_s=1, status=0),
        stored(2, user="ann", started=NOON - 10, status=1),
        stored(3, user="ann", signal=9, cpu_user_s=5),
        stored(4),
    )
    ((name, sums), (other, _)) = found.sorted_rows()
    assert (name, other) == ("ann", "")
    assert (sums.jobs, sums.failed, sums.wall_s, sums.slot_s, sums.cpu_s) == (3, 2, 110, 410, 306)
    assert (found.records, found.without_start, found.without_cpu, found.without_status) == (4, 2, 2, 1)
    assert (found.total().jobs, found.total().slot_s) == (4, 410)


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("user", "ann"),
        ("group", "staff"),
        ("account", "physics"),
        ("queue", "all.q"),
        ("cluster", "one"),
        ("host", "n4"),
        ("day", times.day(NOON)),
    ],
)
def test_rows(by: str, name: str) -> None:
    fields = {"user": "ann", "group": "staff", "account": "physics", "queue": "all.q", "cluster": "one", "host": "n4"}
    assert list(report(stored(1, **fields), by=by).rows) == [name]


def test_a_record_without_host_is_of_its_node() -> None:
    assert list(report(stored(1, node="10.0.0.9"), by="host").rows) == ["10.0.0.9"]


def test_a_job_on_two_hosts_counts_once_with_the_seconds_of_both() -> None:
    of = {"id": "17", "started": NOON - 10, "status": 1}
    found = report(stored(1, host="n1", **of), stored(1, node="10.0.0.5", host="n2", **of))
    assert (found.total().jobs, found.total().failed, found.total().slot_s) == (1, 1, 20)
    again = report(stored(1, **of), stored(2, **{**of, "started": NOON - 9}))
    assert again.total().jobs == 2  # a batch system uses an id again


def test_a_record_that_its_node_has_written_again_counts_once_and_is_told() -> None:
    of = {"id": "17", "user": "ann", "started": NOON - 10}
    found = report(stored(1, **of), stored(2, **of), stored(3, **of), stored(4, node="10.0.0.5", **of))
    assert (found.records, found.repeated, found.total().wall_s) == (2, 2, 20)
    other = report(stored(1, **of), stored(2, **of, slots=2))
    assert (other.records, other.repeated) == (2, 0)
    outside = report(stored(1, **of), stored(2, **of), period=Period(NOON + 1))
    assert (outside.records, outside.repeated) == (0, 0)


def test_what_cannot_be_read_is_counted_where_it_was_stored() -> None:
    bad = stored(1)._replace(body=b"17 ok")
    assert report(bad, stored(2)).unreadable == 1
    period = Period(NOON - 10, NOON + 10)
    outside = bad._replace(stored_at=NOON + 10)
    assert report(bad, outside, stored(2), period=period).unreadable == 1


def test_the_period_is_of_the_end_and_half_open() -> None:
    ends = [NOON - 1, NOON, NOON + 9, NOON + 10]
    found = report(*(stored(n, ended=end) for n, end in enumerate(ends, 1)), period=Period(NOON, NOON + 10))
    assert found.records == 2
    assert Period(since=NOON).stored_since == NOON - SLACK_S
    assert Period().stored_since <= -(1 << 53)


def test_days_together_are_the_period() -> None:
    """A job is in the day of its end alone."""
    midnight = NOON + DAY // 2
    found = report(*(stored(n, ended=midnight + at, started=NOON) for n, at in enumerate((-1, 0, 1), 1)), by="day")
    assert {name: sums.jobs for name, sums in found.rows.items()} == {
        times.day(NOON): 1,
        times.day(NOON + DAY): 2,
    }


def test_late_records_are_counted() -> None:
    found = report(stored(1, ended=NOON - 365 * DAY), stored(2, ended=NOON - DAY), stored(3))
    assert (found.records, found.late) == (3, 1)


def test_each_name_counts_once() -> None:
    first = [stored(1), stored(2), stored(2, node="10.0.0.5")]
    second = [stored(2, stored_at=NOON + 5), stored(3)]
    found = list(each_once([first, second, []]))
    assert [(each.node, each.sequence) for each in found] == [
        ("10.0.0.4", 1),
        ("10.0.0.4", 2),
        ("10.0.0.4", 3),
        ("10.0.0.5", 2),
    ]
    assert list(each_once([first])) == first


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", DAY),
        ("1970-01-02T01:00", DAY + 3600),
        ("1970-01-02 01:00:01.5", DAY + 3601.5),
        ("1970-01-02T01:00Z", DAY + 3600),
        ("1970-01-02T01:00+01:00", DAY),
        ("90s", NOON - 90),
        ("10min", NOON - 600),
        ("7d", NOON - 7 * DAY),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert times.parsed("--since", text, NOON) == seconds


@pytest.mark.parametrize("text", ["", "x", "yesterday", "2026-13-01", "2026-02-30", "7 weeks", "-1d", "99999d", "7"])
def test_texts_that_are_no_time(text: str) -> None:
    with pytest.raises(CommandError, match=r"--since .* is no time: .*nothing was read"):
        times.parsed("--since", text, NOON)


def test_a_day_that_no_calendar_has() -> None:
    assert times.day(1e18) == ""


def test_records_of_two_clusters_with_one_name_count_both() -> None:
    first, second = (Stored("10.0.0.4", 7, 1, body, 5) for body in (b"a", b"b"))
    assert list(each_once([[second], [first], [second]])) == [first, second]
