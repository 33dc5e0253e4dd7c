"""The plots of the documents: points are at their values, and colours are readable in both themes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from documents import imported
from loops import over

SVG = "{http://www.w3.org/2000/svg}"


build_plot = imported("build_plot")
build_growth = imported("build_growth")
records = imported("records")


def drawn(*points: tuple[float, float], look: str = "joined") -> ElementTree.Element:
    line = build_plot.Line("p = 2", 0, points, look)
    return ElementTree.fromstring(build_plot.svg([build_plot.Panel("title", "note", "nodes", (line,))], "about"))


def marks(picture: ElementTree.Element) -> list[tuple[float, float]]:
    """Centres of the circles, without that of the legend."""
    found = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in picture.iter(f"{SVG}circle")]
    return [(x, y) for x, y in found if y != build_plot.LEGEND]


def test_decades_are_equally_wide_and_values_equally_high() -> None:
    (x1, y1), (x2, y2), (x3, y3) = marks(drawn((10, 5), (100, 10), (1000, 0)))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y3 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert (x1, y3) == (build_plot.LEFT, build_plot.HEIGHT - build_plot.BOTTOM)
    assert y2 == build_plot.TOP


def test_a_thin_line_has_no_marks_and_marks_have_no_line() -> None:
    thin, marked = drawn((1, 1), (10, 2), look="thin"), drawn((1, 1), (10, 2), look="marks")
    assert (marks(thin), len(list(thin.iter(f"{SVG}polyline")))) == ([], 1)
    assert (len(marks(marked)), list(marked.iter(f"{SVG}polyline"))) == (2, [])


def test_a_plain_line_has_no_marks_and_is_in_the_legend() -> None:
    picture = drawn((1, 1), (10, 2), look="plain")
    assert (list(picture.iter(f"{SVG}circle")), len(list(picture.iter(f"{SVG}polyline")))) == ([], 1)
    assert "p = 2" in {each.text for each in picture.iter(f"{SVG}text")}


def test_a_panel_of_zeros_has_an_axis() -> None:
    assert marks(drawn((1, 0), (10, 0)))[0][1] == build_plot.HEIGHT - build_plot.BOTTOM


@over(("top", "step"), [(1, 0.2), (5.9, 1), (6.1, 2), (17, 5), (31, 10), (130, 50), (0.8, 0.2)])
def test_ticks_are_round_numbers(top: float, step: float) -> None:
    assert build_plot.nice_step(top) == pytest.approx(step)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    shares = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [build_plot.LIGHT, build_plot.DARK], ids=["light", "dark"])
def test_colours_are_readable_on_their_paper(theme: dict[str, str]) -> None:
    assert contrast(theme["ink"], theme["paper"]) >= 7
    assert all(contrast(colour, theme["paper"]) >= 4.5 for colour in theme["series"])


@pytest.mark.parametrize("draw", build_growth.PICTURES.values(), ids=build_growth.PICTURES)
def test_the_growth_plots_show_every_row(draw: object) -> None:
    text = draw()  # type: ignore[operator]
    picture = ElementTree.fromstring(text)
    words = " ".join(picture.itertext())
    runs = build_growth._document()["runs"]
    points, fanouts = len(records.groups(runs, "nodes", "fanout")), {run["fanout"] for run in runs}
    panels = len(re.findall(r'class="title"', text))
    assert text.count('class="mark ') == panels * (points + len(fanouts))  # and one each in the legend
    assert all(f"p = {fanout}" in words for fanout in fanouts)
    assert "prefers-color-scheme: dark" in text


def test_a_slope_is_that_of_the_line() -> None:
    assert build_growth.slope_per_decade([(10, 1), (100, 3), (1000, 5)]) == pytest.approx(2)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (((100, 2.0), (1000, 2.01), (10_000, 2.0)), "constant: +0.000"),
        (((100, 2.0), (1000, 3.0), (10_000, 4.0)), "grows: +1.000 (+33.3 %)"),
        (((100, 4.0), (1000, 3.0), (10_000, 2.0)), "falls: -1.000"),
        (((10, 99.0), (100, 2.0), (1000, 2.0)), "constant"),
    ],
)
def test_the_verdict_follows_the_slope(points: tuple[tuple[float, float], ...], said: str) -> None:
    assert build_growth.verdict(points).startswith(said)
