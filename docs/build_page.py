"""The cost of the page for its reader (docs/page.md)."""

from __future__ import annotations

from collections.abc import Callable

import records
from build_evaluation import markdown
from records import Run

COLUMNS: tuple[tuple[str, str, float, int], ...] = (
    ("transferred tree, KiB", "tree_bytes", 1 / 1024, 0),
    ("tree visible in a new tab, s", "first_tree_s", 1, 2),
    ("from a death to its mark, s", "change_seen_s", 1, 2),
    ("drawing a change, ms", "change_drawn_s", 1000, 0),
    ("memory of the script, MiB", "heap_mib", 1, 1),
    ("page elements", "elements", 1, 0),
)


def figures() -> str:
    """One row per size."""
    runs: list[Run] = records.read("page")
    rows = [
        [f"{nodes:,}", *(_cell(some, key, scale, digits) for _, key, scale, digits in COLUMNS)]
        for (nodes,), some in records.groups(runs, "nodes").items()
    ]
    browsers = ", ".join(sorted({f"Chromium {run['browser']}" for run in runs}))
    about = records.about(runs, "nodes").rstrip("\n")
    return f"\n{markdown(['nodes', *(name for name, *_ in COLUMNS)], rows)}\n{about}\n{browsers}, headless.\n"


def _cell(runs: list[Run], key: str, scale: float, digits: int) -> str:
    return records.spread([value * scale for value in records.values(runs, key)], digits)


PARTS: dict[str, Callable[[], str]] = {"page-figures": figures}
