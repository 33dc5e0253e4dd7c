"""Plots as SVG: lines over a logarithmic axis, readable on light and on dark pages.

A panel maps numbers to places; the background is drawn, too, in both colour schemes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "grid": "#d8dee4",
    "series": ("#0969da", "#bc4c00", "#1a7f37", "#8250df"),
}
DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "grid": "#3d444d",
    "series": ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff"),
}
WIDTH, HEIGHT = 420, 356  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 52, 34, 78, 46  # from its edges to the axes
LEGEND = 56  # from the upper edge
TICKS_MAX = 6
SIZE = 4.0  # of a mark
PIXEL_DIGITS = 1

Point = tuple[float, float]
Look = Literal["joined", "marks", "thin", "plain"]
MARKED: tuple[Look, ...] = ("joined", "marks")


class Line(NamedTuple):
    """One series. `number` selects its colour and mark. A plain line has no marks; a thin one neither, and is not in
    the legend."""

    name: str
    number: int
    points: tuple[Point, ...]
    look: Look = "joined"


class Panel(NamedTuple):
    """Lines over one x axis, logarithmic or from 0; y begins at 0."""

    title: str
    note: str  # a second line
    x_title: str
    lines: tuple[Line, ...]
    x_linear: bool = False

    @property
    def y_max(self) -> float:
        """More than 0, also where all values are 0."""
        return max(y for line in self.lines for _, y in line.points) or 1.0


def svg(panels: Sequence[Panel], about: str) -> str:
    """A picture with the panels side by side. `about` is its text alternative."""
    width = WIDTH * len(panels)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" role="img">',
        f"<title>{escape(about)}</title>",
        f"<style>\n{_style()}\n</style>",
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{HEIGHT - 1}" rx="8"/>',
    ]
    for index, panel in enumerate(panels):
        drawn += [f'<g transform="translate({index * WIDTH} 0)">', *_panel(panel), "</g>"]
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _style() -> str:
    dark = "\n".join(f"  {rule}" for rule in _colours(DARK))
    return "\n".join(
        [
            "text { font: 12px sans-serif; } .title { font-weight: bold; } .end { text-anchor: end; }",
            ".middle { text-anchor: middle; } .line { fill: none; stroke-width: 2; }",
            ".thin { fill: none; stroke-width: 1; stroke-dasharray: 4 3; }",
            *_colours(LIGHT),
            f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}",
        ]
    )


def _colours(theme: dict[str, str | tuple[str, ...]]) -> list[str]:
    series = [
        f".s{number} {{ stroke: {colour}; }} .m{number} {{ fill: {colour}; }}"
        for number, colour in enumerate(theme["series"])
    ]
    return [
        f".paper {{ fill: {theme['paper']}; stroke: {theme['grid']}; }} text {{ fill: {theme['ink']}; }}",
        f".grid {{ stroke: {theme['grid']}; }} .axis {{ stroke: {theme['ink']}; }}",
        *series,
    ]


def _panel(panel: Panel) -> list[str]:
    place = _Scale(panel)
    return [
        f'<text class="title" x="{LEFT}" y="22">{escape(panel.title)}</text>',
        f'<text x="{LEFT}" y="39">{escape(panel.note)}</text>',
        *_legend(panel.lines),
        *_rows(place),
        *_columns(place),
        f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 10}">{escape(panel.x_title)}</text>',
        *(_stroke(line, place) for line in panel.lines if line.look != "marks"),
        *(mark for line in panel.lines if line.look in MARKED for mark in _marks(line, place)),
    ]


class _Scale:
    """Maps numbers to places in a panel."""

    def __init__(self, panel: Panel) -> None:
        xs = [x for line in panel.lines for x, _ in line.points]
        self.is_linear = panel.x_linear
        self.x_ticks = _even(max(xs)) if panel.x_linear else _decades(min(xs), max(xs))
        self.step = nice_step(panel.y_max)
        self.steps = math.ceil(panel.y_max / self.step)

    def x(self, value: float) -> str:
        first, at, last = (self._measured(each) for each in (self.x_ticks[0], value, self.x_ticks[-1]))
        return _pixels(LEFT + (at - first) / (last - first or 1) * (WIDTH - LEFT - RIGHT))

    def _measured(self, value: float) -> float:
        return value if self.is_linear else math.log10(value)

    def y(self, value: float) -> str:
        return _pixels(HEIGHT - BOTTOM - value / (self.step * self.steps) * (HEIGHT - TOP - BOTTOM))


def _decades(least: float, most: float) -> list[float]:
    return [10.0**each for each in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)]


def _even(most: float) -> list[float]:
    step = nice_step(most)
    return [index * step for index in range(math.ceil(most / step) + 1)]


def nice_step(top: float) -> float:
    """The smallest of 1, 2, 5, 10, ... (and tenths) that needs at most TICKS_MAX steps to reach `top`."""
    power = 10.0 ** math.floor(math.log10(top / TICKS_MAX))
    return next(step * power for step in (1, 2, 5, 10) if top <= step * power * TICKS_MAX)


def _pixels(value: float) -> str:
    return f"{round(value, PIXEL_DIGITS):g}"


def _rows(place: _Scale) -> Iterable[str]:
    for index in range(place.steps + 1):
        y = place.y(index * place.step)
        kind = "grid" if index else "axis"
        yield f'<line class="{kind}" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>'
        yield f'<text class="end" x="{LEFT - 6}" y="{y}" dy="4">{index * place.step:g}</text>'


def _columns(place: _Scale) -> Iterable[str]:
    for tick in place.x_ticks:
        x = place.x(tick)
        yield f'<line class="grid" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text class="middle" x="{x}" y="{HEIGHT - BOTTOM + 16}">{tick:,.10g}</text>'


def _legend(lines: Iterable[Line]) -> Iterable[str]:
    for index, line in enumerate(line for line in lines if line.look != "thin"):
        x = LEFT + 90 * index
        if line.look != "marks":
            yield f'<line class="line s{line.number}" x1="{x}" y1="{LEGEND}" x2="{x + 22}" y2="{LEGEND}"/>'
        if line.look in MARKED:
            yield _mark(line.number, x + 11, LEGEND)
        yield f'<text x="{x + 28}" y="{LEGEND + 4}">{escape(line.name)}</text>'


def _stroke(line: Line, place: _Scale) -> str:
    points = " ".join(f"{place.x(x)},{place.y(y)}" for x, y in line.points)
    return f'<polyline class="{"thin" if line.look == "thin" else "line"} s{line.number}" points="{points}"/>'


def _marks(line: Line, place: _Scale) -> Iterable[str]:
    return (_mark(line.number, float(place.x(x)), float(place.y(y))) for x, y in line.points)


def _mark(number: int, x: float, y: float) -> str:
    """A disc, a square, a triangle or a diamond, so that colours are not needed."""
    size = SIZE
    if number == 0:
        return f'<circle class="mark m{number}" cx="{x:g}" cy="{y:g}" r="{size:g}"/>'
    if number == 1:
        corner = f'x="{x - size:g}" y="{y - size:g}"'
        return f'<rect class="mark m{number}" {corner} width="{2 * size:g}" height="{2 * size:g}"/>'
    corners = f"M{x:g} {_pixels(y - size - 1)} l{size + 1:g} {2 * size:g} h{-2 * size - 2:g} z"
    if number == 3:
        half = size + 1
        corners = f"M{x:g} {_pixels(y - half)} l{half:g} {half:g} l{-half:g} {half:g} l{-half:g} {-half:g} z"
    return f'<path class="mark m{number}" d="{corners}"/>'
