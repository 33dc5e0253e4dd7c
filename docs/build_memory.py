"""The memory of a daemon alone and its way to readiness (docs/evaluation/rest.md), before and after late imports."""

from __future__ import annotations

from collections.abc import Callable

import records
from build_evaluation import markdown
from records import Run, spread, values

MEMORY = (
    ("resident, MiB", "resident_mib"),
    ("anonymous", "anonymous_mib"),
    ("of files", "file_mib"),
    ("PSS", "pss_mib"),
)
WORDS = {
    "ready": "ready",
    "asked": "and asked once (`/v1/status`)",
    "scraped": "and scraped once (`/metrics`)",
    "neighbour": "ready, and with one stream to a neighbour",
}


def runs(what: str) -> list[Run]:
    """The runs of one kind, of both checkouts."""
    return records.one(records.read("memory"), what=what)


def about() -> str:
    return records.about(runs("alone"), "is_before", "state")


def alone() -> str:
    """What loads something late, in the order of measurement."""
    rows = [
        [WORDS[state], name, *(spread(values(some, key), 1) for _, key in MEMORY), spread(values(some, "cpu_s"), 2)]
        for state in WORDS
        for name, is_before in (("before", True), ("now", False))
        for some in [records.one(runs("alone"), state=state, is_before=is_before)]
    ]
    return markdown(["daemon", "", *(title for title, _ in MEMORY), "CPU since exec, s"], rows)


def imports() -> str:
    """Each step in addition to those above it."""
    rows = []
    now = records.one(runs("import"), is_before=False)
    for step in dict.fromkeys(run["step"] for run in now):
        some = records.one(now, step=step)
        spent_ms = [1000 * spent for spent in values(some, "cpu_s")]
        rows.append([step, *(spread(values(some, key), 1) for _, key in MEMORY[:2]), spread(spent_ms, 0)])
    return markdown(["import", "adds resident, MiB", "of it anonymous", "CPU, ms"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "memory-about": about,
    "memory-alone": alone,
    "memory-imports": imports,
}
