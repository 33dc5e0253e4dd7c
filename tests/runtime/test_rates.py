"""The rate of jobs: decay, its beginning, idle time, and irregular jobs."""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose, log, sin, tau
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.quantize import class_of, steady_class
from subord.runtime.jobs.rates import PER_HOUR_MAX, PER_HOUR_MIN, Kind, Rate, Reading, SampledRate

HALF_LIFE_S = 3600.0
LONG_S = 40 * HALF_LIFE_S


def after_jobs(times: Iterable[float], until: float, half_life_s: float = HALF_LIFE_S) -> Rate:
    """Counted from 0."""
    rate = Rate.begun(half_life_s, 0.0)
    for at in times:
        rate = rate.after_job(1.0, at)
    return rate.after_steady(0.0, until)


def every(gap_s: float, until: float) -> list[float]:
    return [number * gap_s for number in range(1, int(until / gap_s) + 1)]


def sampled(kind: Kind, *readings: tuple[float, float], half_life_s: float = HALF_LIFE_S) -> SampledRate:
    """From (seconds, value)."""
    (began, first), *others = readings
    state = SampledRate.begun(half_life_s, Reading(kind, first), began)
    for at, value in others:
        state = state.after(Reading(kind, value), at)
    return state


# -- jobs that are reported -----------------------------------------------------------------------------------------


def test_without_jobs_the_rate_falls_by_a_sixth_and_stays() -> None:
    rate = after_jobs(every(10.0, LONG_S), LONG_S)
    then = rate.per_hour
    assert then is not None
    for half_lives, left in ((0.1, 0.5**0.1), (0.25, 0.5**0.25), (1, 0.5**0.25), (100, 0.5**0.25)):
        later = rate.after_steady(0.0, LONG_S + half_lives * HALF_LIFE_S).per_hour
        assert later == pytest.approx(then * left, rel=1e-9)


def test_idle_nodes_keep_their_class() -> None:
    jobs = every(10.0, LONG_S)
    before, after = after_jobs(jobs, LONG_S).per_hour, after_jobs(jobs, LONG_S + 50 * HALF_LIFE_S).per_hour
    assert before is not None
    assert after is not None
    assert steady_class(after, class_of(before)) == class_of(before)


def test_a_slow_node_is_slow_after_a_night_without_jobs() -> None:
    """Time that did not count stays out when the next job comes."""
    night_s = 10 * HALF_LIFE_S
    jobs = every(10.0, LONG_S)
    jobs += [LONG_S + night_s + each for each in every(40.0, LONG_S)]
    told = after_jobs(jobs, 2 * LONG_S + night_s).per_hour
    assert told == pytest.approx(90.0, rel=0.01)
    soon = after_jobs([at for at in jobs if at <= LONG_S + night_s + HALF_LIFE_S], LONG_S + night_s + HALF_LIFE_S)
    assert soon.per_hour is not None
    assert 90.0 < soon.per_hour < 360.0


def test_the_frequency_of_updates_changes_nothing() -> None:
    rate = often = after_jobs(every(10.0, LONG_S), LONG_S)
    for second in range(1, 3601):
        often = often.after_steady(0.0, LONG_S + second)
    assert often.level == pytest.approx(rate.after_steady(0.0, LONG_S + 3600).level, rel=1e-9)


@pytest.mark.slow
@over("half_lives", [0.1, 0.25, 0.5, 0.99, 1.0, 1.01, 2.0, 10.0, 40.0])
def test_a_steady_node_is_right_from_the_start(half_lives: float) -> None:
    until = half_lives * HALF_LIFE_S
    told = after_jobs(every(1.0, until), until).per_hour
    assert told == pytest.approx(3600.0, rel=0.01)


@over(
    ("jobs", "until_s", "told"),
    [
        ([], 10 * HALF_LIFE_S, False),
        ([1.0], 359.0, False),
        ([1.0], 360.0, True),
        ([1.0, 2.0, 3.0], 0.0, False),
        ([359.0], 360.0, True),
    ],
)
def test_the_rate_is_unknown_early_and_without_jobs(jobs: list[float], until_s: float, told: bool) -> None:
    assert (after_jobs(jobs, until_s).per_hour is not None) is told


def test_a_weight_counts_as_that_many_jobs() -> None:
    rate = Rate.begun(HALF_LIFE_S, 0.0)
    one = rate
    for _ in range(16):
        one = one.after_job(1.0, 100.0)
    heavy = rate.after_job(16.0, 100.0)
    assert heavy.level == pytest.approx(one.level) == pytest.approx(16 * log(2) / HALF_LIFE_S)


def test_the_rate_is_bounded() -> None:
    assert Rate.begun(1e12, 0.0).after_job(1e-9, 1e12).per_hour == PER_HOUR_MIN
    assert Rate.begun(1.0, 0.0).after_job(1e300, 5.0).per_hour == PER_HOUR_MAX


def test_a_clock_that_stops_or_goes_back_is_tolerated() -> None:
    rate = after_jobs([1000.0, 1000.0, 900.0], 950.0)
    assert rate.at == 1000.0
    assert rate.level == pytest.approx(3 * log(2) / HALF_LIFE_S)


@pytest.mark.parametrize(("period_half_lives", "amplitude"), [(0.05, 0.02), (0.5, 0.14), (8.0, 0.30)])
def test_a_job_rate_varying_by_30_percent_stays_in_its_class(period_half_lives: float, amplitude: float) -> None:
    """1000 jobs an hour on average; slower variations show more."""
    step_s, period_s = 10.0, period_half_lives * HALF_LIFE_S
    rate, present, told = Rate.begun(HALF_LIFE_S, 0.0), 0, []
    for number in range(1, int(30 * HALF_LIFE_S / step_s)):
        now = number * step_s
        jobs = 1000 / 3600 * step_s * (1 + 0.3 * sin(tau * now / period_s))
        rate = rate.after_job(jobs, now)
        if now > 8 * HALF_LIFE_S:
            assert rate.per_hour is not None
            told.append(rate.per_hour)
    assert 1000 * (1 - amplitude) * 0.99 <= min(told) <= max(told) <= 1000 * (1 + amplitude) * 1.01
    classes = [present := steady_class(each, present) for each in told]
    assert set(classes) == {classes[0]}
    assert abs(classes[0] - class_of(1000)) <= 1


@pytest.mark.parametrize(
    ("jobs_per_half_life", "strays", "too_high"), [(10, 0.6 / 10**0.5, 0.08), (100, 0.6 / 10, 0.0)]
)
def test_random_jobs_vary_as_documented(jobs_per_half_life: int, strays: float, too_high: float) -> None:
    chance = Random(7)
    rate, now, told = Rate.begun(HALF_LIFE_S, 0.0), 0.0, []
    for number in range(20_000):
        now += chance.expovariate(jobs_per_half_life / HALF_LIFE_S)
        before = rate.after_steady(0.0, now)
        if number > 20 * jobs_per_half_life:
            assert before.per_hour is not None
            told.append(before.per_hour / jobs_per_half_life - 1)
        rate = rate.after_job(1.0, now)
    mean = sum(told) / len(told)
    assert mean == pytest.approx(too_high, abs=0.02)
    spread = (sum((each - mean) ** 2 for each in told) / len(told)) ** 0.5
    assert spread == pytest.approx(strays, rel=0.15)


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(1e-6, 1e6)), max_size=20),
    st.floats(1, 2592000),
    st.floats(0, 1e9),
)
def test_the_sampled_rate_is_above_0_and_finite(
    jobs: list[tuple[float, float]], half_life_s: float, rest_s: float
) -> None:
    rate = Rate.begun(half_life_s, 0.0)
    for gap_s, weight in jobs:
        rate = rate.after_job(weight, rate.at + gap_s)
    told = rate.after_steady(0.0, rate.at + rest_s).per_hour
    assert told is None or PER_HOUR_MIN <= told <= PER_HOUR_MAX


# -- sources that are read ------------------------------------------------------------------------------------------


@over(
    ("kind", "readings", "per_hour"),
    [
        ("counter", [(0, 500)], None),
        ("counter", [(0, 500), (100, 600)], None),  # too early
        ("counter", [(0, 0), (3600, 0)], None),  # no job yet
        ("counter", [(0, 500), (3600, 600)], 100.0),
        ("counter", [(0, 500), (1800, 550), (3600, 600)], 100.0),
        ("counter", [(0, 500), (3600, 600), (3600, 900)], 100.0),  # no time has passed
        ("counter", [(0, 500), (3600, 600), (3600, 900), (7200, 700)], 100.0),
        ("counter", [(0, 500), (3600, 100)], 100.0),  # began anew at 0
        ("counter", [(0, 500), (1800, 550), (1801, 0), (3601, 50)], 100.0),
        ("gauge", [(0, 70)], None),
        ("gauge", [(0, 70), (360, 70)], 70.0),
        ("gauge", [(0, 70), (3600, 70), (7200, 70)], 70.0),
        ("gauge", [(0, 70), (360000, 70), (363600, 140)], 105.0),  # half of the way in a half-life
    ],
)
def test_rates_of_readings(kind: Kind, readings: list[tuple[float, float]], per_hour: float | None) -> None:
    told = sampled(kind, *readings).rate.per_hour
    assert told is None if per_hour is None else told == pytest.approx(per_hour, rel=1e-3)


def test_missed_readings_count_as_evenly_spread() -> None:
    steady = [(each * 100.0, each * 10.0) for each in range(101)]
    missed = [pair for pair in steady if not 3000 < pair[0] < 7000]
    assert isclose(sampled("counter", *steady).rate.level, sampled("counter", *missed).rate.level)


def test_a_source_of_another_kind_starts_again() -> None:
    state = sampled("counter", (0, 500), (3600, 600)).after(Reading("gauge", 70), 3610)
    assert state == SampledRate.begun(HALF_LIFE_S, Reading("gauge", 70), 3610)


def test_a_constant_counter_keeps_the_rate() -> None:
    state = sampled("counter", *[(each * 360.0, each * 10.0) for each in range(400)])
    then = state.rate.per_hour
    assert then is not None
    later = state.after(state.last, state.rate.at + HALF_LIFE_S).rate.per_hour
    assert later == pytest.approx(then * 0.5**0.25, rel=1e-6)
