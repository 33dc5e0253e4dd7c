"""docs/tree.svg: the output of `subord tree` on a terminal, drawn by its own code and exported by rich.

The tree is an answer of one of 11 real daemons (`netns-lab/lab up --nodes 11 --fanout 2`, then `netns-lab/lab exec 11
-- curl --unix-socket "$SUBORD_SOCKET" 'http://localhost/v1/tree?form=rows'`).

The frame is not that of rich, which fetches a font from another host.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from subord.client import drawing

TREE = Path(__file__).parent / "figures" / "tree-11.json"
EMPTY_TEXT = re.compile(r"<text [^>]*>\s*</text>")
PROMPT = "$ subord tree"
COLUMNS_MIN = 52
FRAME = """\
<svg class="rich-terminal" xml:space="preserve" viewBox="0 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px;
line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class _Terminal(io.StringIO):
    """Accepts colours, as a terminal does."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def svg() -> str:
    """The picture of the paper's tree of 11 nodes."""
    shown = Text.from_ansi(f"{PROMPT}\n{_coloured()}".rstrip())
    columns = max(COLUMNS_MIN, *(len(line) for line in shown.plain.splitlines()))
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown)
    console.print()  # rich reserves the last line for the cursor and cuts it
    drawn = console.export_svg(title="", theme=MONOKAI, code_format=FRAME, unique_id="subord")
    drawn = EMPTY_TEXT.sub("", drawn)
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def _coloured() -> str:
    """The output of `subord tree` on a terminal, control sequences included."""
    document = json.loads(TREE.read_text(encoding="utf-8"))
    terminal = _Terminal()
    with mock.patch.dict(os.environ, {"TERM": "xterm-256color"}, clear=True):
        drawing.show(drawing.picture(document, document["rows"], None, drawing.STROKES), terminal)
    return terminal.getvalue()
