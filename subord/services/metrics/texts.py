"""Samples of exporters and of text files, in the text format of Prometheus.

Input is one page; outputs are samples under the names `family{label="value"}`, the labels in order of the alphabet.
The official client parses; what it does not understand makes the whole page unusable, because a page that is half
written would give wrong sums. Invariants: a page gives at most SAMPLES_MAX samples, chosen by the wanted names before
anything is parsed; a value that is not finite is no sample; a failure repeats nothing of what could not be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Final, NamedTuple

from subord.services.metrics.kernel import Samples
from subord.services.metrics.rates import name_of_rate

SAMPLES_MAX: Final = 1_000
LINE_CHARS_MAX: Final = 4_096
NAME_CHARS_MAX: Final = 60
"""Of a sample with its labels, or of its rate; a field of a report has 64."""
_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\["\\n])*"'
NAME: Final = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_LABEL}(?:,{_LABEL})*)\}})?")
"""A sample with its labels, as `name_of` writes it."""
TYPE: Final = "# TYPE "
ENDS: Final = ("", "_total", "_count", "_sum", "_bucket")
"""Of names of samples, which their declaration lacks."""
UNPARSED: Final = (IndexError, KeyError, TypeError, AttributeError)
"""What the parser raises beside ValueError."""


class TextError(ValueError):
    """The page is not used. `reason` is a label of metrics; the message follows the name of the source."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def samples_of(
    text: str, wants: Callable[[str], bool], is_carried: Callable[[str], bool] = lambda _: True
) -> Samples:
    """The wanted samples of a page. `wants`: by the name without labels; `is_carried`: by that with labels under
    which it is told (name_of_rate). Raises TextError."""
    if text and not text.endswith("\n"):
        raise TextError("garbled", "does not end with a line break: it is half written")
    lines = list(_wanted_lines(text, wants))
    if not any(each.is_sample for each in lines):
        return {}
    found: dict[str, float] = {}
    for name, value in _parsed(lines, wants):
        told = name_of_rate(name)
        if not isfinite(value) or not is_carried(told):
            continue
        if len(told) > NAME_CHARS_MAX:
            raise TextError("too_large", f"has a name of more than {NAME_CHARS_MAX} characters: {told:.80}")
        if not (told.isprintable() and NAME.fullmatch(told)):  # the parser takes any
            raise TextError("garbled", "has a name that is none of a metric, or cannot be printed")
        if name in found:
            raise TextError("garbled", f"has {name} twice")
        found[name] = value
    return found


class _Line(NamedTuple):
    number: int
    text: str
    is_sample: bool


def _parsed(lines: list[_Line], wants: Callable[[str], bool]) -> Iterator[tuple[str, float]]:
    """Names with their values. Raises TextError."""
    # The library costs 2 MiB, and many nodes read no page.
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families("\n".join([*(each.text for each in lines), ""])):
            for sample in family.samples:
                # The parser appends _total to the names of all counters.
                if wants(sample.name) or wants(family.name):
                    yield name_of(sample.name, sample.labels.items()), sample.value
    except (*UNPARSED, ValueError):
        # What stands there is not repeated: the file may be a link to one that others must not read.
        raise TextError("garbled", f"is not in the Prometheus text format{_where(lines)}") from None


def _where(lines: list[_Line]) -> str:
    """The first line that the parser does not take alone."""
    from prometheus_client.parser import text_string_to_metric_families

    for each in lines:
        try:
            list(text_string_to_metric_families(each.text + "\n"))
        except (*UNPARSED, ValueError):
            return f": line {each.number}"
    return ""


def name_of(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """A sample as Prometheus writes it."""
    inside = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels))
    return f"{name}{{{inside}}}" if inside else name


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _wanted_lines(text: str, wants: Callable[[str], bool]) -> Iterator[_Line]:
    """The declarations, and the samples that are wanted. The parser is slow, and a page may have many other lines."""
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LINE_CHARS_MAX:
            raise TextError("too_large", f"has a line of more than {LINE_CHARS_MAX} characters")
        if line.startswith(TYPE):
            name = line[len(TYPE) :].split(maxsplit=1)[:1]
            if name and any(wants(name[0] + end) for end in ENDS):
                yield _Line(number, line, is_sample=False)
        elif line and not line.startswith("#") and wants(_family_in(line)):
            count += 1
            if count > SAMPLES_MAX:
                raise TextError("too_large", f"has more than {SAMPLES_MAX} wanted samples")
            yield _Line(number, line, is_sample=True)


def _family_in(line: str) -> str:
    """The name at the beginning of a sample."""
    return line.lstrip().partition("{")[0].partition(" ")[0].partition("\t")[0]
