"""What a counter file or a Prometheus page says: one number, and whether it counts jobs or already is a rate. Pure.

Intuition: reading a meter in somebody else's cellar. The dial may be dusty, the wrong one, or missing; then one goes
back and says which it was, and yesterday's figure stays in the book.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite

from subord.config.performance import Selector
from subord.runtime.jobs.rates import Kind, Reading

NUMBER = re.compile(r"[+]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
VALUE_MAX = 1e15  # above it the doubles of Prometheus count no single jobs any more
LINE_CHARACTERS_MAX = 4096
SAMPLES_MAX = 1000
_COUNTS = ("_total", "_count")  # of a counter; of a histogram or a summary
_ENDS = ("", *_COUNTS, "_sum", "_bucket")  # what the name of a sample may have that its declaration has not


class ReadingError(Exception):
    """Nothing can be read there; `reason` is for counting, the message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def counter_of(text: str) -> Reading:
    """Of a counter file: one number. Raises ReadingError."""
    number = text.strip()
    if len(number) > 64 or NUMBER.fullmatch(number) is None:
        raise ReadingError("garbled", "does not hold one number, the jobs completed so far")
    return Reading("counter", _checked(float(number)))


def metric_of(text: str, wanted: Selector) -> Reading:
    """Of a page: all samples that fit, added up. Raises ReadingError."""
    # The library costs 2 MiB, and most nodes read no page.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    kinds: set[Kind | None] = set()
    total = 0.0
    try:
        for family in text_string_to_metric_families("\n".join(_lines_about(text, wanted.name))):
            for sample in family.samples:
                # The parser lets the names of all counters end in _total.
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
        raise ReadingError("no_metric", f"has {wanted.name}, which is neither plainly a counter nor plainly a gauge")
    return Reading(kind, _checked(total))


def _lines_about(text: str, name: str) -> Iterator[str]:
    """What the parser needs, and no more: it is slow, and a page may have many thousand lines about other things."""
    declarations = tuple(f"# TYPE {name.removesuffix(end)} " for end in _ENDS)
    samples = 0
    for line in text.split("\n"):
        if line.startswith(declarations):
            yield line[:LINE_CHARACTERS_MAX]
        elif line.startswith(name) and line[len(name) : len(name) + 1] in ("{", " ", "\t"):
            samples += 1
            if samples > SAMPLES_MAX or len(line) > LINE_CHARACTERS_MAX:
                raise ReadingError("too_large", f"has more than {SAMPLES_MAX} samples of {name}, or endless ones")
            yield line


def _fits(labels: dict[str, str], wanted: Selector) -> bool:
    return all(labels.get(name, "") == value for name, value in wanted.labels)


def _kind(declared: str, name: str) -> Kind | None:
    """By the declaration, and where it says nothing by the name."""
    match declared:
        case "counter" | "gauge":
            return declared
        case "histogram" | "summary":
            return "counter" if name.endswith("_count") else None
    return "counter" if name.endswith(_COUNTS) else "gauge"


def _checked(value: float) -> float:
    if not (isfinite(value) and 0 <= value <= VALUE_MAX):
        raise ReadingError("garbled", f"says {value:g}, which is no number of jobs")
    return float(value)
