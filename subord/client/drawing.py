"""A tree as text for a terminal, a pipe, or Graphviz.

A picture is a list of lines of (text, style) pieces. Styles become colours only when it is printed.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TextIO

from subord.client.daemon import Document
from subord.client.ranking import of_row
from subord.client.text import age, count, printable
from subord.client.tree_parts import UP

Piece = tuple[str, str]
Line = list[Piece]

HOME, HOME_APART = "all at home", "all at home in this tree"
"""Of a tree, and of one whose root other nodes refused."""

STROKES = ("├─ ", "└─ ", "│  ", "   ")
STROKES_ASCII = ("|- ", "`- ", "|  ", "   ")

ROOT_STYLE = "bold green"
STROKE_STYLE = "dim"
MARK_STYLES = {
    "guest": "yellow",
    "down": "bold red",
    "missing": "bold red",
    "stale": "magenta",
    "held": "cyan",
    "gone": "red",
    "under": "blue",
}
NOTE_STYLE = "yellow"
COUNTED = (("down", "down"), ("stale", "stale"), ("held", "held"), ("maintained", "under maintenance"))
NUMBER_STYLE = "dim"
DOT_COLOURS = {"guest": "orange", "missing": "red", "stale": "purple", "held": "blue", "down": "red"}


def picture(
    tree: Document,
    rows: Sequence[Document],
    depth_max: int | None,
    strokes: Sequence[str],
    shows: tuple[str, ...] = (),
    *,
    branch: Sequence[Document] = (),
) -> list[Line]:
    """The summary, the note if any, and one line per node.

    `rows` is the part of `tree["rows"]` to draw (depth first, whole branches); rows more than `depth_max` below its
    first are counted instead of drawn. `shows`: numbers beside each node (ranking.py). `branch`: as in `summary`.
    """
    return [*heading(summary(tree, branch), tree["note"]), *branches(rows, depth_max, strokes, shows)]


def heading(text: str, note: str | None) -> list[Line]:
    """The first lines of an answer: its summary, and why it is not complete."""
    lines: list[Line] = [[(text, "bold")]]
    return [*lines, [(f"incomplete: {printable(note)}", NOTE_STYLE)]] if note else lines


def summary(tree: Document, branch: Sequence[Document] = ()) -> str:
    """One line: "11 nodes, depth 3, all at home, root 10.0.0.1".

    `branch`: the rows of one branch, whose nodes below the first row are counted instead: "6 nodes below 10.0.0.2 of
    11, depth 2, all at home, root 10.0.0.1".
    """
    counted = _counts(branch) if branch else tree
    nodes, at_home = counted["nodes"], counted["at_home"]
    refused = tree.get("refused")  # missing in answers of older daemons
    parts = [count(nodes, "node") + (f" below {branch[0]['address']} of {tree['nodes']}" if branch else "")]
    parts += [f"{counted[key]} {words}" for key, words in COUNTED if counted.get(key)]  # a daemon may be older
    if nodes:
        parts.append(f"depth {counted['depth']}")
        all_home = HOME_APART if refused else HOME
        parts.append(all_home if at_home == nodes else f"{at_home} at home, {count(nodes - at_home, 'guest')}")
    roots = [row["address"] for row in tree["rows"] if row["place"] == "root"]
    parts.append(f"{'roots' if len(roots) > 1 else 'root'} {' '.join(roots) or 'not known'}")
    return ", ".join(parts) + (f"; {printable(refused)}" if refused else "")


def _counts(branch: Sequence[Document]) -> Document:
    """Of the nodes below the first row, what api/models/trees.py counts of the whole tree."""
    top, *below = branch
    live = [row for row in below if row["standing"] in UP]
    standings = Counter(row["standing"] for row in below)
    return {
        **{standing: standings[standing] for standing in ("stale", "held")},
        "down": standings["missing"] + standings["gone"],
        "maintained": sum(row.get("maintenance") is not None for row in below),
        "nodes": len(live),
        "at_home": sum(row["place"] != "guest" for row in live),
        "depth": max((row["real_level"] - top["real_level"] for row in live), default=0),
    }


def branches(
    rows: Sequence[Document], depth_max: int | None, strokes: Sequence[str], shows: tuple[str, ...] = ()
) -> Iterator[Line]:
    """One line per node, with the strokes that join it to its leader."""
    tee, corner, through, blank = strokes
    shown = cut(rows, depth_max)
    last = _is_last([row for row, _ in shown])
    prefix: list[str] = []
    for index, (row, hidden) in enumerate(shown):
        depth = row["real_level"] - rows[0]["real_level"]
        del prefix[max(depth - 1, 0) :]
        line: Line = []
        if depth:
            line.append(("".join(prefix) + (corner if last[index] else tee), STROKE_STYLE))
            prefix.append(blank if last[index] else through)
        yield line + _node(row, hidden, shows)


def cut(rows: Sequence[Document], depth_max: int | None) -> list[tuple[Document, int]]:
    """The rows at most `depth_max` below the first one, each with the number of deeper rows below it."""
    base = rows[0]["real_level"] if rows else 0
    kept = [index for index, row in enumerate(rows) if depth_max is None or row["real_level"] - base <= depth_max]
    return [(rows[index], following - index - 1) for index, following in pairwise([*kept, len(rows)])]


def colourless(lines: Iterable[Line]) -> str:
    """The plain text of a picture."""
    return "".join("".join(text for text, _ in line) + "\n" for line in lines)


def show(lines: list[Line], out: TextIO, *, is_plain: bool = False) -> None:
    """Print a picture: coloured on a terminal that wants colours, else or if `is_plain` without colours."""
    if is_plain or not wants_colour(out):
        out.write(colourless(lines))
        return
    from rich.console import Console
    from rich.text import Text

    text = Text("\n").join(Text.assemble(*line) for line in lines)
    Console(file=out, highlight=False).print(text, soft_wrap=True)


def wants_colour(out: TextIO) -> bool:
    """A terminal that can show colours, unless NO_COLOR (https://no-color.org) is set and not empty."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def strokes_for(out: TextIO) -> Sequence[str]:
    """Line-drawing characters if `out` can carry them, else ASCII."""
    try:
        "".join(STROKES).encode(out.encoding or sys.getdefaultencoding())
    except (UnicodeEncodeError, LookupError):
        return STROKES_ASCII
    return STROKES


def dot(rows: Sequence[Document], shows: tuple[str, ...] = ()) -> str:
    """The rows as a Graphviz digraph, arrows from leader to subordinate."""
    lines = ["digraph subord {", "  node [shape=box];"]
    present = {row["address"] for row in rows}
    for row in rows:
        marks = _marks(row)
        label = "\\n".join([row["address"], *of_row(row, shows), *marks])
        colour = next((colour for mark in reversed(marks) if (colour := DOT_COLOURS.get(mark.split()[0]))), "black")
        lines.append(f'  "{row["address"]}" [label="{label}", color={colour}];')
    lines += [
        f'  "{row["leader"]}" -> "{row["address"]}";' for row in rows if row["leader"] in present and not row["apart"]
    ]
    return "\n".join([*lines, "}"])


def _node(row: Document, hidden: int, shows: tuple[str, ...]) -> Line:
    line: Line = [(row["address"], ROOT_STYLE if row["place"] == "root" else "")]
    line += [(f"  {number}", NUMBER_STYLE) for number in of_row(row, shows)]
    line += [(f"  {mark}", MARK_STYLES.get(mark.partition(" ")[0], NOTE_STYLE)) for mark in _marks(row)]
    if hidden:
        line.append((f"  ({hidden} below)", STROKE_STYLE))
    return line


def _marks(row: Document) -> list[str]:
    """The words beside a node: only its deviations from a live node at home."""
    marks = [row["place"]] if row["place"] == "guest" else []
    if row["standing"] == "missing":
        marks.append("down")
    elif row["standing"] == "gone":
        marks.append("down" if row["since_s"] is None else f"down for {age(row['since_s'])}")
    elif row["standing"] != "live":
        marks.append(row["standing"])
    if row.get("maintenance"):
        marks.append(f"under maintenance: {printable(row['maintenance'])}")
    if row["apart"]:
        marks.append(f"({row['apart']})")
    return marks


def _is_last(rows: Sequence[Document]) -> list[bool]:
    """Whether each row is the last subordinate of its leader. One pass from the end."""
    last = [False] * len(rows)
    continued: list[bool] = []  # by depth: a later row stands there under the same leader
    for index in range(len(rows) - 1, -1, -1):
        depth = rows[index]["real_level"]
        continued += [False] * (depth + 1 - len(continued))
        del continued[depth + 1 :]
        last[index] = not continued[depth]
        continued[depth] = True
    return last
