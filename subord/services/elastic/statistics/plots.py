"""The six pictures of statistics: one curve over time each, as PNG.

Input are lines of statistics, which may be as many as a year has; output are six files in one folder. Matplotlib is
needed, an extra of the package. Invariants: a picture has at most POINTS_MAX points, among them the least and the
greatest value of each stretch of time; a file of the folder is replaced as a whole or left as it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import BytesIO
from itertools import pairwise
from math import nan
from statistics import median
from typing import Any, Final

from subord.services.elastic import PLOTS
from subord.services.elastic.statistics import Statistics

DPI: Final = 100
INCHES: Final = (8.0, 4.0)
POINTS_MAX: Final = 1500
"""More than the picture has columns."""
LEFT: Final = 4
"""Points that are left of a stretch: the first, the least, the greatest, and one that breaks the curve."""
GAP_POLLS: Final = 10
"""A curve is not drawn over a time in which as many polls are missing: nothing is known of it."""
SHORT: Final = 60
"""A curve of fewer points shows each of them."""
SPAN_S_MIN: Final = 600.0
DAY_S: Final = 86_400.0
LABELS: Final = {
    "queued": "jobs that wait",
    "running": "jobs that run",
    "num_hosts": "hosts",
    "avg_duration": "mean duration of jobs, s",
    "avg_wait": "mean wait of jobs, s",
    "avg_load": "mean load of hosts",
}
COUNTS: Final = frozenset({"queued", "running", "num_hosts"})
INK, GRID, CURVE = "#1f2328", "#d8dee4", "#0969da"

Point = tuple[float, float]


class NoPlotterError(RuntimeError):
    """Matplotlib is not installed; the text says how to install it."""


class Plotter:
    """Draws. Raises NoPlotterError at once if there is no Matplotlib."""

    def __init__(self) -> None:
        try:
            self._figure: Any = import_module("matplotlib.figure").Figure
            self._canvas: Any = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg
            self._dates: Any = import_module("matplotlib.dates")
            self._ticker: Any = import_module("matplotlib.ticker")
        except ImportError:
            words = "pictures need Matplotlib, which is not installed"
            raise NoPlotterError(f"{words}: `pip install 'subord[plots]'`, on Debian python3-matplotlib") from None

    def write(self, rows: Sequence[Statistics], directory: str) -> list[str]:
        """The paths of the pictures. Raises OSError: those that could not be written are as they were."""
        found = []
        for name in PLOTS:
            path = os.path.join(directory, f"{name}.png")
            points = [(each.time, float(getattr(each, name))) for each in rows]
            _replace(path, _png(self._drawn(name, points)))
            found.append(path)
        return found

    def _drawn(self, name: str, points: Sequence[Point]) -> Any:
        """A figure that has an Agg canvas, so no display is needed."""
        figure = self._figure(figsize=INCHES, layout="constrained")
        self._canvas(figure)
        axes = figure.add_subplot()
        shown = list(thinned(points))
        times, values = [time / DAY_S for time, _ in shown], [value for _, value in shown]
        axes.plot(times, values, color=CURVE, linewidth=1.5, marker="o" if len(shown) < SHORT else "", markersize=3)
        axes.set_title(name, color=INK)
        axes.set_ylabel(LABELS[name], color=INK)
        axes.set_xlabel("time (UTC)", color=INK)
        axes.set_xlim(*_around(times))
        axes.set_ylim(bottom=0.0, top=None if any(values) else 1.0)
        locator = self._dates.AutoDateLocator(minticks=3, maxticks=8)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(self._dates.ConciseDateFormatter(locator))
        if name in COUNTS:
            axes.yaxis.set_major_locator(self._ticker.MaxNLocator(integer=True))
        axes.grid(color=GRID, linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        return figure


def thinned(points: Sequence[Point], most: int = POINTS_MAX) -> Iterator[Point]:
    """At most `most` of the points, in their order; a point that is no number stands where the curve is broken."""
    size = max(1, -(-len(points) * LEFT // (most - LEFT)))
    step_s = median([later[0] - point[0] for point, later in pairwise(points)] or [0.0])
    gap_s = max(GAP_POLLS, 2 * size) * step_s
    before: float | None = None
    for first in range(0, len(points), size):
        for point in _first_and_extremes(points[first : first + size]):
            if before is not None and point[0] - before > gap_s:
                yield point[0], nan
            before = point[0]
            yield point


def _around(times: Sequence[float]) -> tuple[float, float]:
    """In days: from the first to the last time, with a margin, and at least ten minutes."""
    first, last = min(times), max(times)
    margin = max(0.03 * (last - first), SPAN_S_MIN / 2 / DAY_S)
    return first - margin, last + margin


def _first_and_extremes(stretch: Sequence[Point]) -> list[Point]:
    numbers = range(len(stretch))
    least = min(numbers, key=lambda each: stretch[each][1])
    greatest = max(numbers, key=lambda each: stretch[each][1])
    return [stretch[each] for each in sorted({0, least, greatest})]


def _png(figure: Any) -> bytes:
    """In memory: the library that encodes it does not say why a file cannot be written."""
    found = BytesIO()
    figure.savefig(found, format="png", dpi=DPI)
    return found.getvalue()


def _replace(path: str, content: bytes) -> None:
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
