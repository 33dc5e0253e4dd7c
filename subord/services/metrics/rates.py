"""Counters as rates: how much a counter has grown in a second since the last sample.

Inputs are samples of one node with the times of its monotonic clock; outputs are the same samples, with rates in
place of counters. Invariants: a counter that went back has begun anew at 0, as after a restart, and gives no
negative rate; no rate is taken over less than APART_S_MIN.
"""

from __future__ import annotations

from math import isfinite
from typing import Final, NamedTuple

from subord.services.metrics.kernel import Samples

COUNTER: Final = "_total"
RATE: Final = "_per_second"
APART_S_MIN: Final = 0.1
SAMPLES_MAX: Final = 4_096


class Counters(NamedTuple):
    """The counters of the last sample, which was taken at `at`."""

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
    not finite is left out."""
    known = {name: value for name, value in samples.items() if isfinite(value)}
    found = {name: value for name, value in known.items() if not is_counter(name)}
    counters = {name: value for name, value in list(known.items())[:SAMPLES_MAX] if is_counter(name)}
    if before is not None:
        apart_s = now - before.at
        if apart_s < APART_S_MIN:
            return found, before
        for name, value in counters.items():
            if name in before.values:
                last = before.values[name]
                found[name_of_rate(name)] = (value - last if value >= last else max(value, 0.0)) / apart_s
    return found, Counters(now, counters)
