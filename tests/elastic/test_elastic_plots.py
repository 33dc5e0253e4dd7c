"""The pictures of statistics, and which points are drawn."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from pathlib import Path

import pytest

from subord.services.elastic import PLOTS
from subord.services.elastic.statistics import Statistics
from subord.services.elastic.statistics.plots import LABELS, NoPlotterError, Plotter, thinned

NOW = 1_800_000_000.0
YEAR = 365 * 24 * 60
PNG = b"\x89PNG\r\n\x1a\n"


def rows(number: int) -> list[Statistics]:
    return [Statistics(NOW + 60 * each, 3, each % 5, each % 7, 12, 60.0, 30.0, 0.5) for each in range(number)]


@pytest.fixture(scope="module")
def plotter() -> Plotter:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'subord[plots]'")
    return Plotter()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk: a write is cut short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 300])
def test_there_are_six_pictures_of_800_by_400_dots(plotter: Plotter, tmp_path: Path, number: int) -> None:
    plotter.write(rows(number), str(tmp_path))
    assert {each.name for each in tmp_path.iterdir()} == {f"{name}.png" for name in PLOTS}
    for each in tmp_path.iterdir():
        head = each.read_bytes()[:24]
        assert head.startswith(PNG)
        assert (int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) == (800, 400)


def test_each_curve_has_a_label() -> None:
    assert set(LABELS) == set(PLOTS)


@pytest.mark.slow
def test_pictures_that_cannot_be_written_are_as_they_were(plotter: Plotter, tmp_path: Path) -> None:
    plotter.write(rows(2), str(tmp_path))
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        plotter.write(rows(300), str(tmp_path))
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_few_points_are_all_drawn() -> None:
    points = [(60.0 * each, each % 3.0) for each in range(300)]
    assert list(thinned(points)) == points
    assert list(thinned([])) == []


@pytest.mark.slow
def test_of_a_year_few_points_are_drawn_and_no_peak_is_lost() -> None:
    points = [(60.0 * each, 5.0) for each in range(YEAR)]
    points[YEAR // 3] = (points[YEAR // 3][0], 900.0)
    points[YEAR // 2] = (points[YEAR // 2][0], 0.0)
    found = list(thinned(points, 1000))
    assert len(found) <= 1000
    assert {points[YEAR // 3], points[YEAR // 2]} < set(found)
    assert not any(isnan(value) for _, value in found)
    assert found == sorted(found)


@pytest.mark.parametrize("number", [100, 100_000])
def test_no_curve_is_drawn_over_a_time_without_polls(number: int) -> None:
    half = number // 2
    pause_s = 60.0 * number
    points = [(60.0 * each + (pause_s if each >= half else 0.0), 1.0) for each in range(number)]
    broken = [time for time, value in thinned(points, 1000) if isnan(value)]
    assert len(broken) == 1
    assert broken[0] >= points[half][0]


def test_the_number_of_points_is_bounded_whatever_the_times_are() -> None:
    points = [(float(each * each % 997), float(each % 11)) for each in range(5000)]
    for most in (8, 100, 1500):
        assert len(list(thinned(points, most))) <= most


def test_without_matplotlib_the_word_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        NoPlotterError, match=r"need Matplotlib, which is not installed: `pip install 'subord\[plots\]'`"
    ):
        Plotter()
