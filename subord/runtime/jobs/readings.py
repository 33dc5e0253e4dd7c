"""Parses a counter file or a Prometheus page into a `Reading`: a number of jobs, or a rate. Pure.

In: text of any content. Out: a finite, non-negative number, or a ReadingError with a reason for the metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite

from subord.config.performance import Selector
from subord.runtime.jobs.rates import Kind, Reading

NUMBER = re.compile(r"[+]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
VALUE_MAX = 1e15  # above, the doubles of Prometheus no longer resolve single jobs
LINE_CHARACTERS_MAX = 4096
SAMPLES_MAX = 1000
_COUNTS = ("_total", "_count")  # of a counter; of a histogram or a summary
_ENDS = ("", *_COUNTS, "_sum", "_bucket")  # suffixes of sample names that their declaration lacks


class ReadingError(Exception):
    """The source has no usable number. `reason` is a metric label; the message follows the name of the source."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def counter_of(text: str) -> Reading:
    """The number in a counter file. Raises ReadingError."""
    number = text.strip()
    if len(number) > 64 or NUMBER.fullmatch(number) is None:
        raise ReadingError("garbled", "does not hold one number, the jobs completed so far")
    return Reading("counter", _checked(float(number)))


def metric_of(text: str, wanted: Selector) -> Reading:
    """The sum of all matching samples of a page. Raises ReadingError."""
    # The library costs 2 MiB, and most nodes read no page.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    kinds: set[Kind | None] = set()
    total = 0.0
    try:
        for family in text_string_to_metric_families("\n".join(_lines_about(text, wanted.name))):
            for sample in family.samples:
                # The parser appends _total to the names of all counters.
                if sample.name in (wanted.name, f"{wanted.name}_total") and _fits(sample.labels, wanted):
                    kinds.add(_kind(family.type, wanted.name))
                    total += _checked(sample.value)
    except (ValueError, IndexError) as error:
        raise ReadingError("garbled", f"is not in the Prometheus text format ({error!r:.80})") from None
    if not kinds:
        labels = " with these labels" if wanted.labels else ""
        raise ReadingError("no_metric", f"has no metric {wanted.name}{labels}")
    kind = kinds.pop()
    if kind is None or kinds:
        raise ReadingError("no_metric", f"has {wanted.name}, which is neither clearly a counter nor clearly a gauge")
    return Reading(kind, _checked(total))


def _lines_about(text: str, name: str) -> Iterator[str]:
    """The lines about one metric. The parser is slow, and a page may have many thousand other lines."""
    declarations = tuple(f"# TYPE {name.removesuffix(end)} " for end in _ENDS)
    samples = 0
    for line in text.split("\n"):
        if line.startswith(declarations):
            yield line[:LINE_CHARACTERS_MAX]
        elif line.startswith(name) and line[len(name) : len(name) + 1] in ("{", " ", "\t"):
            samples += 1
            if samples > SAMPLES_MAX or len(line) > LINE_CHARACTERS_MAX:
                raise ReadingError("too_large", f"has more than {SAMPLES_MAX} samples of {name}, or longer ones")
            yield line


def _fits(labels: dict[str, str], wanted: Selector) -> bool:
    return all(labels.get(name, "") == value for name, value in wanted.labels)


def _kind(declared: str, name: str) -> Kind | None:
    """By the declaration, else by the name."""
    match declared:
        case "counter" | "gauge":
            return declared
        case "histogram" | "summary":
            return "counter" if name.endswith("_count") else None
    return "counter" if name.endswith(_COUNTS) else "gauge"


def _checked(value: float) -> float:
    if not (isfinite(value) and 0 <= value <= VALUE_MAX):
        raise ReadingError("garbled", f"has {value:g}, which is not a number of jobs")
    return float(value)
