"""Counters as rates: how much a counter has grown in a second since the last sample.

Inputs are samples of one source with the times of its node's monotonic clock at which they were read; outputs are the
same samples, with rates in place of counters. Invariants: a counter that went back has begun anew at 0, as after a
restart, and gives no negative rate; no rate is taken over less than APART_S_MIN or more than APART_S_MAX.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from subord.services.metrics.kernel import Samples

COUNTER: Final = "_total"
RATE: Final = "_per_second"
APART_S_MIN: Final = 0.1
APART_S_MAX: Final = 60.0
"""A rate over a longer time says little about now."""
VALUE_MAX: Final = 1e18
"""Beyond this a sum over nodes has no room for a value."""


class Counters(NamedTuple):
    """The counters of the last samples of a source, which was taken at `at`."""

    at: float
    values: Samples


def name_of_rate(name: str) -> str:
    """`x_total{a="b"}` becomes `x_per_second{a="b"}`; a gauge keeps its name."""
    family, brace, labels = name.partition("{")
    return family.removesuffix(COUNTER) + RATE + brace + labels if family.endswith(COUNTER) else name


def is_counter(name: str) -> bool:
    return name.partition("{")[0].endswith(COUNTER)


def rated(samples: Samples, before: Counters | None, now: float) -> tuple[Samples, Counters | None]:
    """The gauges, the rates of counters that `before` has too, and the counters for the next call. A value that is
    not finite, or beyond VALUE_MAX, is left out."""
    known = {name: value for name, value in samples.items() if abs(value) <= VALUE_MAX}
    found = {name: value for name, value in known.items() if not is_counter(name)}
    counters = {name: value for name, value in known.items() if is_counter(name)}
    if before is not None and now - before.at <= APART_S_MAX:
        apart_s = now - before.at
        if apart_s < APART_S_MIN:
            return found, before
        for name, value in counters.items():
            if name in before.values:
                last = before.values[name]
                found[name_of_rate(name)] = (value - last if value >= last else max(value, 0.0)) / apart_s
    return found, Counters(now, counters)
