"""Averages over the last jobs, and the line of statistics of a poll."""

from __future__ import annotations

from subord.services.elastic import COLUMNS, PLOTS
from subord.services.elastic.managing.averages import JOBS_MAX, Averages, Ended
from subord.services.elastic.statistics import Statistics, read

NOW = 1_800_000_000.0


def job(number: int, waited_s: float = 10, ran_s: float = 60, ended: float = NOW) -> Ended:
    return Ended(str(number), ended - ran_s - waited_s, ended - ran_s, ended)


def test_without_jobs_the_averages_are_nothing() -> None:
    found = Averages()
    found.add([], NOW)
    assert (len(found), found.duration_s, found.wait_s) == (0, 0.0, 0.0)


def test_a_job_that_comes_twice_counts_once() -> None:
    found = Averages()
    found.add([job(1), job(2, waited_s=30, ran_s=120)], NOW - 3600)
    found.add([job(1)], NOW - 3600)
    assert (len(found), found.duration_s, found.wait_s) == (2, 90.0, 20.0)


def test_the_last_200_jobs_count() -> None:
    found = Averages()
    found.add([job(number, ran_s=number, ended=NOW + number) for number in range(1, 301)], NOW)
    assert len(found) == JOBS_MAX
    assert found.duration_s == sum(range(101, 301)) / 200


def test_jobs_from_before_the_window_do_not_count() -> None:
    found = Averages()
    found.add([job(1, ended=NOW - 7200), job(2)], NOW - 3600)
    assert len(found) == 1
    found.add([], NOW + 1)
    assert len(found) == 0


def test_clocks_that_differ_make_no_time_negative() -> None:
    found = Averages()
    found.add([Ended("1", NOW + 5, NOW, NOW - 5)], NOW - 3600)
    assert (found.duration_s, found.wait_s) == (0.0, 0.0)


def test_a_line_has_eight_columns_and_is_read_again() -> None:
    one = Statistics(NOW, 20, 39, 61, 40, 3600.5, 901.0, 1.25)
    assert one.line() == "2027-01-15 08:00:00,20,39,61,40,3600.5,901.0,1.25\n"
    assert len(one.line().split(",")) == len(COLUMNS) == 8
    assert set(PLOTS) < set(COLUMNS)
    assert read(one.line() + "2027-01-15 08:0\n" + one.line()) == [one, one]
