"""Counter files and Prometheus pages: values, kinds, and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from subord.config.performance import Selector, selector_of
from subord.runtime.jobs.rates import Reading
from subord.runtime.jobs.readings import LINE_CHARACTERS_MAX, SAMPLES_MAX, ReadingError, counter_of, metric_of

PAGE = """\
# HELP jobs_total Jobs done.
# TYPE jobs_total counter
jobs_total{state="done",queue="a"} 40
jobs_total{state="done",queue="b"} 2 1700000000000
jobs_total{state="failed",queue="a"} 7
# TYPE old counter
old 5
# TYPE speed gauge
speed 12.5
# TYPE seconds histogram
seconds_bucket{le="1"} 3
seconds_bucket{le="+Inf"} 9
seconds_sum 60
seconds_count 9
# TYPE length summary
length{quantile="0.5"} 1
length_count 4
undeclared 3
undeclared_total 8
# TYPE endless gauge
endless +Inf
# TYPE nothing gauge
nothing NaN
# TYPE debt gauge
debt -1
"""


def selected(text: str) -> Selector:
    selector = selector_of(text)
    assert selector is not None
    return selector


@over(
    ("text", "value"),
    [("0", 0), ("42\n", 42), ("  1.5e3 \n", 1500), ("+7", 7), ("1e15", 1e15), (".5", 0.5), ("3.", 3)],
)
def test_a_counter_file_holds_one_number(text: str, value: float) -> None:
    assert counter_of(text) == Reading("counter", value)


@over(
    "text", ["", "\n", "-1", "nan", "inf", "1_000", "1 2", "1,5", "0x10", "x", "1e16", "9" * 65, "1e999", "٣", "1\0"]
)
def test_anything_else_is_garbled(text: str) -> None:
    with pytest.raises(ReadingError) as caught:
        counter_of(text)
    assert caught.value.reason == "garbled"


@over(
    ("metric", "reading"),
    [
        ("jobs_total", Reading("counter", 49)),
        ('jobs_total{state="done"}', Reading("counter", 42)),
        ('jobs_total{queue="a",state="done"}', Reading("counter", 40)),
        ('jobs_total{zone=""}', Reading("counter", 49)),  # what is absent is empty
        ("old", Reading("counter", 5)),
        ("speed", Reading("gauge", 12.5)),
        ("seconds_count", Reading("counter", 9)),
        ("length_count", Reading("counter", 4)),
        ("undeclared", Reading("gauge", 3)),
        ("undeclared_total", Reading("counter", 8)),
    ],
)
def test_a_metric_and_its_kind_are_found(metric: str, reading: Reading) -> None:
    assert metric_of(PAGE, selected(metric)) == reading


@over(
    ("text", "metric", "reason"),
    [
        (PAGE, "job", "no_metric"),
        (PAGE, "jobs", "no_metric"),
        (PAGE, 'jobs_total{state="lost"}', "no_metric"),
        (PAGE, "length", "no_metric"),  # quantiles are no jobs
        (PAGE, "seconds_bucket", "no_metric"),
        (PAGE, "seconds_sum", "no_metric"),
        (PAGE, "endless", "garbled"),
        (PAGE, "nothing", "garbled"),
        (PAGE, "debt", "garbled"),
        ("", "x", "no_metric"),
        ("<html>x 5</html>", "x", "no_metric"),
        ("x{a=b} 5", "x", "garbled"),
        ("x five", "x", "garbled"),
        ("x", "x", "no_metric"),
        ("x{", "x", "garbled"),
        ("x{,\u2003=1} 5", "x", "garbled"),  # the parser raises IndexError
        ("x 1\n# TYPE x counter\nx 2", "x", "no_metric"),  # both
        ("x 1\n" * (SAMPLES_MAX + 1), "x", "too_large"),
        ("x " + "1" * LINE_CHARACTERS_MAX, "x", "too_large"),
        ("x 1e15\nx 1e15", "x", "garbled"),
    ],
)
def test_errors_of_pages(text: str, metric: str, reason: str) -> None:
    with pytest.raises(ReadingError) as caught:
        metric_of(text, selected(metric))
    assert caught.value.reason == reason


def test_other_metrics_are_not_parsed() -> None:
    assert metric_of("rubbish{{{\n" * 5 + "x 1\n" + "y{" * 10_000, selected("x")) == Reading("gauge", 1)


def test_pages_of_the_usual_library_are_read() -> None:
    registry = CollectorRegistry()
    Counter("jobs", "Jobs.", ["queue"], registry=registry).labels("a\n{").inc(3)
    Gauge("speed", "Speed.", registry=registry).set(4)
    Histogram("seconds", "Time.", registry=registry).observe(1)
    page = generate_latest(registry).decode()
    assert metric_of(page, selected("jobs_total")) == Reading("counter", 3)
    assert metric_of(page, selected("speed")) == Reading("gauge", 4)
    assert metric_of(page, selected("seconds_count")) == Reading("counter", 1)


@given(st.text(alphabet='x_total{}="\\, \t#TYPEcounter0123e+-.\n', max_size=200))
def test_random_pages_fail_only_with_a_reading_error(tail: str) -> None:
    try:
        found = metric_of(f"# TYPE x {tail}\nx{{{tail}\nx {tail}\nx{tail}", selected("x"))
    except ReadingError:
        return
    assert found.value >= 0
