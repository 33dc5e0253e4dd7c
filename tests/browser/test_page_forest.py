"""The forest of the page in a real browser: places, and the counts of a closed branch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from chromium import Browser

from tests.api.fake_node_api import World
from tests.browser.served_page import served


@pytest.fixture(scope="module")
def page_modules(chromium_of_all: Browser) -> Iterator[Browser]:
    """A browser on the page, in which its modules can be imported."""
    with served(World().node(1)) as node:
        chromium_of_all.open(node.url)
        yield chromium_of_all
        chromium_of_all.driver.get("about:blank")


def line(address: str, depth: int, **more: object) -> dict[str, object]:
    place = "root" if depth == 0 else "home"
    return {"address": address, "real_level": depth, "standing": "live", "place": place, "since_s": 5, **more}


def gone(address: str, leader: str | None, standing: str = "gone") -> dict[str, object]:
    return {"address": address, "leader": leader, "standing": standing, "place": None, "since_s": 99}


SHOW = """
const [rows, members] = arguments;
return import("./forest.js").then(({ Forest }) => {
  const forest = new Forest({ rows }, 1e6, members && { document: { members }, at: 1e6 });
  const indented = (each) => ".".repeat(each.depth) + each.key;
  SCRIPT
});
"""
ALL = "return forest.rows(() => true, null).map(indented)"


def show(
    browser: Browser, rows: list[dict[str, object]], members: list[dict[str, object]] | None, script: str
) -> Any:
    """What the script returns of the `forest`."""
    return browser.run(SHOW.replace("SCRIPT", script), rows, members)


@pytest.mark.parametrize(
    ("rows", "members", "expected"),
    [
        ([], [], []),
        ([line("a", 0)], None, ["a"]),
        ([line("a", 0), line("b", 1), line("c", 2), line("d", 1)], [], ["a", ".b", "..c", ".d"]),
        # Two trees; and one address twice is two rows.
        ([line("a", 0), line("b", 1), line("c", 0), line("b", 1)], [], ["a", ".b", "c", ".b (2)"]),
        # No row is lost when a depth leaps.
        ([line("a", 0), line("b", 7), line("c", 8)], [], ["a", ".b", "..c"]),
        ([line("a", 3)], [], ["a"]),
        # A gone node is below its last leader, ...
        ([line("a", 0), line("b", 1)], [gone("x", "b")], ["a", ".b", "..x"]),
        # ... below the nearest present node above, ...
        ([line("a", 0)], [gone("x", "y"), gone("y", "a")], ["a", ".x", ".y"]),
        # ... or beside the tree.
        ([line("a", 0)], [gone("x", "z"), gone("y", None)], ["a", "x", "y"]),
        ([line("a", 0)], [gone("x", "y"), gone("y", "x")], ["a", "x", "y"]),
        # A returned node has one row; a missing one without a row is gone; a live one without a row has moved.
        ([line("a", 0), line("x", 1)], [gone("x", "a")], ["a", ".x"]),
        ([line("a", 0)], [gone("x", "a", "missing"), gone("y", "a", "live")], ["a", ".x"]),
    ],
)
def test_every_node_has_a_row(
    page_modules: Browser, rows: list[dict[str, object]], members: list[dict[str, object]] | None, expected: list[str]
) -> None:
    assert show(page_modules, rows, members, ALL) == expected


@pytest.mark.parametrize(
    ("standing", "place", "marks"),
    [
        ("live", "home", ["home"]),
        ("live", "root", ["home"]),
        ("live", "guest", ["guest"]),
        ("held", "guest", ["held", "guest"]),
        ("held", "home", ["held", "home"]),
        ("stale", "home", ["stale"]),
        ("missing", "guest", ["missing", "guest"]),
        ("gone", None, ["gone"]),
        ("something new", "somewhere", ["home"]),
    ],
)
def test_marks(page_modules: Browser, standing: str, place: str | None, marks: list[str]) -> None:
    rows = [line("a", 0), line("b", 1, standing=standing, place=place)]
    assert show(page_modules, rows, None, "return forest.nodes.get('b').marks") == marks


def test_a_branch_counts_the_states_inside(page_modules: Browser) -> None:
    rows = [
        line("a", 0),
        line("b", 1, place="guest"),
        line("c", 2, standing="missing"),
        line("d", 2, standing="held", place="guest"),
        line("e", 1),
    ]
    inside = "const {below, inside} = forest.nodes.get(%r); return [below, inside]"
    below, marks = show(page_modules, rows, [gone("x", "c")], inside % "a")
    assert below == 3  # b, d, e
    assert marks == {"missing": 1, "gone": 1, "stale": 0, "held": 1, "guest": 2, "home": 1}
    assert show(page_modules, rows, None, inside % "e") == [0, None]
    assert show(
        page_modules, rows, None, "return forest.path(forest.nodes.get('d')).map((each) => each.key)"
    ) == list("abd")


@pytest.mark.parametrize(
    ("text", "marks", "hits", "shown"),
    [
        ("", [], None, None),
        ("  ", [], None, None),
        ("c", [], ["c"], ["a", "b", "c"]),
        (" C ", [], ["c"], ["a", "b", "c"]),
        ("", ["missing"], ["c"], ["a", "b", "c"]),
        ("", ["missing", "guest"], ["b", "c"], ["a", "b", "c"]),
        ("d", ["missing"], [], []),
        ("zz", [], [], []),
    ],
)
def test_searching(
    page_modules: Browser, text: str, marks: list[str], hits: list[str] | None, shown: list[str] | None
) -> None:
    rows = [line("a", 0), line("b", 1, place="guest"), line("c", 2, standing="missing"), line("d", 1)]
    script = (
        f"const found = forest.matching({text!r}, new Set({marks!r}));"
        "const sorted = (keys) => keys && [...keys].sort();"
        "return [sorted(found.hits), sorted(found.shown)]"
    )
    assert show(page_modules, rows, None, script) == [hits, shown]


@pytest.mark.parametrize(("rows_max", "level"), [(0, 1), (1, 1), (3, 1), (6, 1), (7, 2), (8, 2), (100, 3)])
def test_the_level_that_fits(page_modules: Browser, rows_max: int, level: int) -> None:
    """1 + 2 + 4 + 4 rows: the first level is always open."""
    rows = [line("a", 0)]
    for name in "bc":
        rows.append(line(name, 1))
        for number in (1, 2):
            rows += [line(f"{name}{number}", 2), line(f"{name}{number}x", 3)]
    assert show(page_modules, rows, None, f"return forest.levelThatFits({rows_max})") == level


def test_a_long_chain_overflows_nothing(page_modules: Browser) -> None:
    rows = [line(f"n{depth}", depth) for depth in range(20_000)]
    script = (
        "const last = forest.nodes.get('n19999');"
        "return [last.depth, forest.path(last).length, forest.nodes.get('n0').below,"
        " forest.rows(() => true, null).length, forest.matching('n19999', new Set()).shown.size]"
    )
    assert show(page_modules, rows, None, script) == [19_999, 20_000, 19_999, 20_000, 20_000]


def test_a_rounded_position_is_marked(page_modules: Browser) -> None:
    script = "return import('./dom.js').then(({ exact }) => [7, 10376293541461622787, '<b>'].map(exact))"
    assert page_modules.run(script) == ["7", "about 1.038e+19", "<b>"]
