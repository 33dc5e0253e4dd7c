"""The picture, character by character."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from subord.api.handlers.control import control_app
from subord.client import drawing
from subord.core.view import Liveness
from tests.api.fake_node_api import World

PICTURE = """\
11 nodes, depth 3, all at home, root 10.0.0.1
10.0.0.1
├─ 10.0.0.2
│  ├─ 10.0.0.4
│  │  ├─ 10.0.0.8
│  │  └─ 10.0.0.9
│  └─ 10.0.0.5
│     ├─ 10.0.0.10
│     └─ 10.0.0.11
└─ 10.0.0.3
   ├─ 10.0.0.6
   └─ 10.0.0.7
"""

PICTURE_WITH_PROBLEMS = """\
7 nodes, 1 down, 1 stale, 1 held, depth 3, 6 at home, 1 guest, root 10.0.0.1
10.0.0.1
├─ 10.0.0.3
│  ├─ 10.0.0.6  held
│  │  ├─ 10.0.0.12
│  │  └─ 10.0.0.13
│  ├─ 10.0.0.7  down
│  └─ 10.0.0.9  guest  stale
└─ 10.0.0.4  guest
   └─ 10.0.0.8
"""

PICTURE_TWO_LEVELS = """\
11 nodes, depth 3, all at home, root 10.0.0.1
10.0.0.1
|- 10.0.0.2  (6 below)
`- 10.0.0.3  (2 below)
"""

DOT = """\
digraph subord {
  node [shape=box];
  "10.0.0.1" [label="10.0.0.1", color=black];
  "10.0.0.2" [label="10.0.0.2\\nguest\\nheld", color=blue];
  "10.0.0.1" -> "10.0.0.2";
}"""


async def rows_of(world: World, position: int = 1) -> dict[str, Any]:
    response = await control_app(world.node(position))["/v1/tree"]({"form": "rows"})
    document: dict[str, Any] = json.loads(response.body)
    return document


def plain(tree: dict[str, Any], depth: int | None = None, strokes: Any = drawing.STROKES) -> str:
    return drawing.colourless(drawing.picture(tree, tree["rows"], depth, strokes))


async def test_the_papers_eleven_nodes() -> None:
    assert plain(await rows_of(World(), 11)) == PICTURE


async def test_deviations_are_marked_in_words() -> None:
    world = World({1: None, 3: 1, 4: 1, 6: 3, 7: 3, 8: 4, 9: 3, 12: 6, 13: 6})
    world.liveness = {6: Liveness.HELD, 7: Liveness.MISSING, 9: Liveness.STALE}
    assert plain(await rows_of(world)) == PICTURE_WITH_PROBLEMS


async def test_a_bounded_depth_counts_the_rest_in_ascii() -> None:
    assert plain(await rows_of(World()), 1, drawing.STROKES_ASCII) == PICTURE_TWO_LEVELS


async def test_an_incomplete_tree_has_a_note_below_the_summary() -> None:
    world = World()
    world.gone = {1}
    lines = plain(await rows_of(world, 4)).splitlines()
    assert lines[0] == "7 nodes, depth 2, all at home, root not known"
    assert lines[1] == "incomplete: 10.0.0.1 (root) does not answer: this is what 10.0.0.2 knows"
    assert lines[2] == "10.0.0.2"


async def test_rows_apart_are_trees_of_their_own_with_the_reason() -> None:
    tree = await rows_of(World({1: None, 2: 1}))
    tree["rows"].append({**tree["rows"][1], "address": "10.0.0.8", "real_level": 0, "apart": "has no leader"})
    assert plain(tree).splitlines()[1:] == ["10.0.0.1", "└─ 10.0.0.2", "10.0.0.8  (has no leader)"]


async def test_dot_names_every_node_and_edge_once() -> None:
    world = World({1: None, 2: 1})
    world.liveness = {2: Liveness.HELD}
    tree = await rows_of(world)
    tree["rows"][1]["place"] = "guest"
    assert drawing.dot(tree["rows"]) == DOT


async def test_numbers_are_below_the_names_in_graphviz() -> None:
    world = World({1: None, 2: 1})
    world.numbers = {2: (0.02, 90.4)}
    lines = drawing.dot((await rows_of(world))["rows"], ("rtt", "performance")).splitlines()
    assert lines[2:4] == [
        '  "10.0.0.1" [label="10.0.0.1\\n-\\n-", color=black];',
        '  "10.0.0.2" [label="10.0.0.2\\n20 ms\\nabout 90 jobs/h", color=black];',
    ]


async def test_the_tree_of_an_older_daemon_has_no_numbers() -> None:
    tree = await rows_of(World({1: None, 2: 1}))
    for row in tree["rows"]:
        del row["round_trip_s"], row["performance"]
    drawn = drawing.colourless(drawing.picture(tree, tree["rows"], None, drawing.STROKES, ("rtt",)))
    assert drawn.splitlines()[1:] == ["10.0.0.1  -", "└─ 10.0.0.2  -"]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environment", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
async def test_colour_only_where_it_is_wanted(
    out: io.StringIO, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tree = await rows_of(World())
    drawing.show(drawing.picture(tree, tree["rows"], None, drawing.STROKES), out)
    assert ("\x1b[" in out.getvalue()) is coloured
    if not coloured:
        assert out.getvalue() == PICTURE


async def test_colours_change_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    tree, out = await rows_of(World()), Terminal()
    drawing.show(drawing.picture(tree, tree["rows"], None, drawing.STROKES), out)
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == PICTURE


@pytest.mark.parametrize(("encoding", "strokes"), [("utf-8", drawing.STROKES), ("ascii", drawing.STROKES_ASCII)])
def test_ascii_strokes_where_the_terminal_has_no_others(encoding: str, strokes: object) -> None:
    assert drawing.strokes_for(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == strokes
