"""`subord metrics --plan`, `--set-plan` and `--reset-plan`: what the cluster carries, and an order to change it.

Inputs are patterns of the command line, and of a file with one a line; output is a document that the operator signs.
Invariant: wrong input is named with its place, and then nothing is signed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.orders import order, prepare
from subord.client.orders.plan_file import name_of, text_of
from subord.client.orders.publishing import NOTHING
from subord.client.text import count, printable
from subord.core.carriage.plan import PATTERN_CHARS_MAX, PATTERNS_MAX
from subord.services.asking import shown_document
from subord.services.following import conflict_line
from subord.services.metrics.plan.carried import of_patterns
from subord.services.metrics.rates import is_counter, name_of_rate
from subord.services.metrics.table.layout import to_second
from subord.services.metrics.wanted import CARRIED_MAX, USUAL_GROUP

FILE_BYTES_MAX: Final = 65_536
PREPARE: Final = {"action": "metrics-plan"}
TEST: Final = {"action": "test", "power": "metrics"}


class Written(NamedTuple):
    """A pattern, and where it stands."""

    text: str
    place: str


def run(arguments: argparse.Namespace) -> int:
    """Shows or publishes a plan. Raises CommandError: nothing was changed."""
    if arguments.plan:
        return _show(arguments, asked(arguments, "/v1/metrics/plan"))
    patterns = (USUAL_GROUP,) if arguments.reset_plan else _patterns(arguments)
    body = json.dumps({"patterns": patterns}).encode()
    if arguments.dry_run:
        return _try(arguments, patterns, body)
    ordered = order(arguments, PREPARE, body)
    (ours,) = ordered["orders"]
    now = asked(arguments, "/v1/metrics/plan")
    if (now["version"], tuple(now["patterns"])) != (ours["version"], patterns):
        other = printable(now["principal"] or "another operator")
        text = f"version {now['version']} of {other} counts, which was published at the same time: publish again"
        raise CommandError(text, exit_codes.NOT_REACHED)
    return _show(arguments, now)


def _try(arguments: argparse.Namespace, patterns: tuple[str, ...], body: bytes) -> int:
    """What the order would be, and whether this node would take it."""
    (ours,) = prepare(arguments, PREPARE, body)["orders"]
    tried = order(arguments, TEST)
    (verdict,) = (each for answer in tried["judged"] for each in answer["orders"])
    if verdict["word"]:
        raise CommandError(f"it would be refused: {verdict['sentence']}; {NOTHING}", exit_codes.PERMISSION)
    shown = of_patterns(patterns, ours["version"], verdict["principal"], None)
    return _show(arguments, msgspec.to_builtins(shown), "would be ")


# -- patterns ---------------------------------------------------------------------------------------------------


def _patterns(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Of the words and then of the file, each once. Raises CommandError."""
    written = [Written(each, "--set-plan") for each in arguments.set_plan or ()]
    if arguments.plan_file is not None:
        written += _lines(arguments.plan_file)
    for each in written:
        if why := wrong(each.text):
            raise _error(f"{each.place}: {each.text[:PATTERN_CHARS_MAX]!r} {why}")
    found = tuple(dict.fromkeys(each.text for each in written))
    if not found:
        raise _error("a plan has at least one pattern, and none was given; --reset-plan goes back to the usual ones")
    if len(found) > PATTERNS_MAX:
        raise _error(f"a plan has at most {PATTERNS_MAX} patterns, not {len(found)}: * stands for any text")
    return found


def wrong(pattern: str) -> str:
    """What is wrong with a pattern, as the end of a sentence; "": nothing."""
    if not pattern:
        return "is empty"
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"is longer than {PATTERN_CHARS_MAX} characters: * stands for any text"
    if not pattern.isprintable():
        return "has characters that cannot be printed"
    if pattern.startswith("@") and pattern != USUAL_GROUP:
        return f"is no group of metrics: there is only {USUAL_GROUP}"
    if is_counter(pattern):
        return f"fits no metric, because counters are told as rates: write {name_of_rate(pattern)}"
    return ""


def _lines(path: str) -> Iterator[Written]:
    """One pattern a line; empty lines and comments (#) are left out. Raises CommandError."""
    for number, line in enumerate(text_of(path, FILE_BYTES_MAX).splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield Written(text, f"{name_of(path)}, line {number}")


def _error(text: str) -> CommandError:
    return CommandError(f"{text}; {NOTHING}", exit_codes.USAGE)


# -- output -----------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace, found: Document, would: str = "") -> int:
    return shown_document(arguments, found, _described(found, would))


def _described(found: Document, would: str) -> Iterator[str]:
    which = "the usual metrics are carried"
    if found["version"]:
        by = f" by {found['principal']}" if found["principal"] else ""
        at = f" at {to_second(found['time'])}" if found["time"] else ""
        patterns = count(len(found["patterns"]), "pattern")
        is_usual = list(found["patterns"]) == [USUAL_GROUP]
        which = f"version {found['version']} {would}published{by}{at}: "
        which += "the usual metrics" if is_usual else patterns
    yield which
    for each in found["carried"]:
        yield f"  {each}"
    yield f"a node carries at most {CARRIED_MAX} metrics, those of the first patterns first"
    if found["conflict"]:
        yield conflict_line("plan")
