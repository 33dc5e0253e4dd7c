"""Samples of exporters and of text files, in the text format of Prometheus.

Input is one page; outputs are samples under the names `family{label="value"}`, the labels in order of the alphabet.
The official client parses; what it does not understand makes the whole page unusable, because a page that is half
written would give wrong sums. Invariants: a page gives at most SAMPLES_MAX samples, chosen by the wanted names before
anything is parsed; a value that is not finite is no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Final

from subord.services.metrics.kernel import Samples

SAMPLES_MAX: Final = 1_000
LINE_CHARS_MAX: Final = 4_096
NAME_CHARS_MAX: Final = 60
"""Of a sample with its labels; a field of a report has 64."""


class TextError(ValueError):
    """The page is not used. `reason` is a label of metrics; the message follows the name of the source."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def samples_of(text: str, wants: Callable[[str], bool]) -> Samples:
    """The wanted samples of a page. `wants`: by the name without labels. Raises TextError."""
    # The library costs 2 MiB, and many nodes read no page.
    from prometheus_client.parser import text_string_to_metric_families

    if text and not text.endswith("\n"):
        raise TextError("garbled", "does not end with a line break: it is half written")
    found: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join(_wanted_lines(text, wants))):
            for sample in family.samples:
                # The parser appends _total to the names of all counters.
                if not isfinite(sample.value) or not (wants(sample.name) or wants(family.name)):
                    continue
                name = name_of(sample.name, sample.labels.items())
                if len(name) > NAME_CHARS_MAX:
                    raise TextError("too_large", f"has a name of more than {NAME_CHARS_MAX} characters: {name:.80}")
                if name in found:
                    raise TextError("garbled", f"has {name} twice")
                found[name] = sample.value
    except (ValueError, IndexError) as error:
        if isinstance(error, TextError):
            raise
        raise TextError("garbled", f"is not in the Prometheus text format ({error!r:.80})") from None
    return found


def name_of(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """A sample as Prometheus writes it."""
    inside = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels))
    return f"{name}{{{inside}}}" if inside else name


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _wanted_lines(text: str, wants: Callable[[str], bool]) -> Iterator[str]:
    """The declarations, and the samples that are wanted. The parser is slow, and a page may have many other lines."""
    count = 0
    for line in text.split("\n"):
        if len(line) > LINE_CHARS_MAX:
            raise TextError("too_large", f"has a line of more than {LINE_CHARS_MAX} characters")
        if line.startswith("# TYPE "):
            yield line
        elif line and not line.startswith("#") and wants(_family_in(line)):
            count += 1
            if count > SAMPLES_MAX:
                raise TextError("too_large", f"has more than {SAMPLES_MAX} wanted samples")
            yield line
    yield ""


def _family_in(line: str) -> str:
    """The name at the beginning of a sample."""
    return line.lstrip().partition("{")[0].partition(" ")[0].partition("\t")[0]
