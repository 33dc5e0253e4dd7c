"""The cost of the page for its reader (docs/page.md), and its files (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import records
from build_evaluation import markdown
from records import Run

import subord
from subord.api.http.page import FILES

FOLDER = Path(subord.__file__).with_name("page")
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


def files() -> str:
    """Every program of the page with the first sentence of its opening comment."""
    programs = (name for name in sorted(FILES) if name.endswith(".js"))
    return "".join(f"- `{name}`: {_opening(name)}\n" for name in programs)


def _opening(name: str) -> str:
    line, _, _ = (FOLDER / name).read_text(encoding="utf-8").partition("\n")
    return line.removeprefix("// ")


PARTS: dict[str, Callable[[], str]] = {"page-figures": figures, "page-files": files}
