"""The forest of the page in a real browser: places, and the counts of a closed branch."""

from __future__ import annotations

from typing import Any

from chromium import Browser
from loops import over


def line(address: str, depth: int, **more: object) -> dict[str, object]:
    place = "root" if depth == 0 else "home"
    return {"address": address, "real_level": depth, "standing": "live", "place": place, "since_s": 5, **more}


SHOW = """
const [rows] = arguments;
return import("./forest.js").then(({ Forest }) => {
  const forest = new Forest({ rows }, 1e6);
  const indented = (each) => ".".repeat(each.depth) + each.key;
  SCRIPT
});
"""
ALL = "return forest.rows(() => true, null).map(indented)"


def show(browser: Browser, rows: list[dict[str, object]], script: str) -> Any:
    """What the script returns of the `forest`."""
    return browser.run(SHOW.replace("SCRIPT", script), rows)


@over(
    ("rows", "expected"),
    [
        ([], []),
        ([line("a", 0)], ["a"]),
        ([line("a", 0), line("b", 1), line("c", 2), line("d", 1)], ["a", ".b", "..c", ".d"]),
        # Two trees; and one address twice is two rows.
        ([line("a", 0), line("b", 1), line("c", 0), line("b", 1)], ["a", ".b", "c", ".b (2)"]),
        # No row is lost when a depth leaps.
        ([line("a", 0), line("b", 7), line("c", 8)], ["a", ".b", "..c"]),
        ([line("a", 3)], ["a"]),
        # A node that is down is where the daemon places it.
        ([line("a", 0), line("b", 1), line("x", 2, standing="gone"), line("c", 1)], ["a", ".b", "..x", ".c"]),
        ([line("a", 0), line("x", 0, standing="gone", apart="last was root")], ["a", "x"]),
    ],
)
def test_every_node_has_a_row(page_modules: Browser, rows: list[dict[str, object]], expected: list[str]) -> None:
    assert show(page_modules, rows, ALL) == expected


@over(
    ("standing", "place", "marks"),
    [
        ("live", "home", ["home"]),
        ("live", "root", ["home"]),
        ("live", "guest", ["guest"]),
        ("held", "guest", ["held", "guest"]),
        ("held", "home", ["held", "home"]),
        ("stale", "guest", ["stale"]),  # counted once, so that the counts add up
        ("missing", "guest", ["down"]),
        ("gone", None, ["down"]),
        ("something new", "somewhere", ["home"]),
    ],
)
def test_marks(page_modules: Browser, standing: str, place: str | None, marks: list[str]) -> None:
    rows = [line("a", 0), line("b", 1, standing=standing, place=place)]
    assert show(page_modules, rows, "return forest.nodes.get('b').marks") == marks


def test_a_branch_counts_the_states_inside(page_modules: Browser) -> None:
    rows = [
        line("a", 0),
        line("b", 1, place="guest"),
        line("c", 2, standing="missing"),
        line("d", 2, standing="held", place="guest"),
        line("x", 2, standing="gone"),
        line("e", 1),
    ]
    inside = "const {below, inside} = forest.nodes.get(%r); return [below, inside]"
    below, marks = show(page_modules, rows, inside % "a")
    assert below == 3  # b, d, e
    assert marks == {"down": 2, "stale": 0, "held": 1, "guest": 2, "home": 1, "maintained": 0}
    assert show(page_modules, rows, inside % "e") == [0, None]
    assert show(page_modules, rows, "return forest.path(forest.nodes.get('d')).map((each) => each.key)") == list(
        "abd"
    )


@over(
    ("text", "marks", "hits", "shown"),
    [
        ("", [], None, None),
        ("  ", [], None, None),
        ("c", [], ["c"], ["a", "b", "c"]),
        (" C ", [], ["c"], ["a", "b", "c"]),
        ("", ["down"], ["c"], ["a", "b", "c"]),
        ("", ["down", "guest"], ["b", "c"], ["a", "b", "c"]),
        ("d", ["down"], [], []),
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
    assert show(page_modules, rows, script) == [hits, shown]


@over(("rows_max", "level"), [(0, 1), (1, 1), (3, 1), (6, 1), (7, 2), (8, 2), (100, 3)])
def test_the_level_that_fits(page_modules: Browser, rows_max: int, level: int) -> None:
    """1 + 2 + 4 + 4 rows: the first level is always open."""
    rows = [line("a", 0)]
    for name in "bc":
        rows.append(line(name, 1))
        for number in (1, 2):
            rows += [line(f"{name}{number}", 2), line(f"{name}{number}x", 3)]
    assert show(page_modules, rows, f"return forest.levelThatFits({rows_max})") == level


def test_a_long_chain_overflows_nothing(page_modules: Browser) -> None:
    rows = [line(f"n{depth}", depth) for depth in range(20_000)]
    script = (
        "const last = forest.nodes.get('n19999');"
        "return [last.depth, forest.path(last).length, forest.nodes.get('n0').below,"
        " forest.rows(() => true, null).length, forest.matching('n19999', new Set()).shown.size]"
    )
    assert show(page_modules, rows, script) == [19_999, 20_000, 19_999, 20_000, 20_000]


def test_a_rounded_position_is_marked(page_modules: Browser) -> None:
    script = "return import('./dom.js').then(({ exact }) => [7, 10376293541461622787, '<b>'].map(exact))"
    assert page_modules.run(script) == ["7", "about 1.038e+19", "<b>"]
