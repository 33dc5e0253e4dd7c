"""The parts of docs/evaluation/simulator.md on mechanically made mutants.

Input: docs/figures/mutants.json, which `./dev mutants --write` writes, and tests/mutants.toml, which says for each
survivor why it is equivalent or which test is missing. An entry is found by file, function and text, not by line; a
survivor without an entry is shown as not judged.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from build_tables import table
from records import Run, read

KNOWN = Path(__file__).resolve().parents[1] / "tests" / "mutants.toml"
CAUGHT = {"tests": "a test failed", "campaign": "a campaign seed failed", "time": "it reached the time limit"}
NOT_JUDGED = {"kind": "not judged", "why": "no line in tests/mutants.toml"}
CHARACTERS_MAX = 110


def caught() -> str:
    """How many of the sample were caught, and by which check."""
    document = read("mutants")
    found: list[Run] = document["mutants"]
    how = Counter(each["caught"] for each in found)
    kinds = Counter(entry["kind"] for entry in _entries(_survivors(found)))
    rows = [(CAUGHT[name], str(how[name])) for name in CAUGHT]
    rows += [(f"nothing: {kind}", str(kinds[kind])) for kind in sorted(kinds)]
    number = len(found) - how[""]
    return (
        f"{len(found)} of {document['possible']:,} mutants, drawn with seed {document['seed']}, against "
        f"{document['tests']:,} tests and {document['seeds']} campaign seeds: {number} were caught "
        f"({100 * number / len(found):.1f} %). {document['tests_left_out']} fast tests of these folders open "
        "connections or start processes and were not run.\n"
        f"A mutant took {sum(each['cpu_s'] for each in found) / len(found):.1f} s of the processor on average.\n\n"
        + table(("noticed because", "mutants"), rows)
    )


def left_out() -> str:
    """What mutmut lists and the sample leaves out."""
    return table(("what", "mutants"), [(what, f"{number:,}") for what, number in read("mutants")["left_out"].items()])


def survivors() -> str:
    """Each survivor, with the judgement."""
    found = _survivors(read("mutants")["mutants"])
    if not found:
        return "None survived.\n"
    rows = [
        (f"`{each['file']}`, `{each['function']}`", _code(each["before"]), _code(each["after"]), _judgement(entry))
        for each, entry in zip(found, _entries(found), strict=True)
    ]
    return table(("where", "was", "became", "why nothing notices"), rows)


def _survivors(found: Sequence[Run]) -> list[Run]:
    survived = (each for each in found if not each["caught"])
    return sorted(survived, key=lambda each: (each["file"], each["line"], each["number"]))


def _entries(found: Sequence[Run]) -> list[dict[str, str]]:
    entries = tomllib.loads(KNOWN.read_text(encoding="utf-8")).get("survivor", [])
    known = {(each["file"], each["function"], each["before"], each["after"]): each for each in entries}
    return [known.get((each["file"], each["function"], each["before"], each["after"]), NOT_JUDGED) for each in found]


def _judgement(entry: dict[str, str]) -> str:
    return f"{entry['kind']}: {entry['why']}"


def _code(text: str) -> str:
    short = text if len(text) <= CHARACTERS_MAX else text[:CHARACTERS_MAX] + "..."
    if "|" in short:  # renderers differ about a pipe in a code span of a table
        return f"<code>{''.join(each if each.isalnum() else f'&#{ord(each)};' for each in short)}</code>"
    return f"`` {short} ``" if short else "(left out)"


PARTS: dict[str, Callable[[], str]] = {
    "mutants-caught": caught,
    "mutants-left-out": left_out,
    "mutants-survivors": survivors,
}
