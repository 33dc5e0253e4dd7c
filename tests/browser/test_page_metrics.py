"""The page coloured by a metric: the map, the tree, the legend, the figures, and whom they cover."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from chromium import Browser, Keys

from subord.core.view import Liveness
from subord.services.metrics.table.layout import short
from tests.api.fake_node_api import FakeNode, World
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.metrics_world import ERRORS, HEAT, IOWAIT, LOAD, MEMORY, publish
from tests.browser.page_reader import found, row
from tests.browser.served_page import large
from tests.browser.test_page_overview import NO_PROBLEMS, pixels, words

SILENT = (12, 13, 30)


def cluster(nodes: int = 30, silent: tuple[int, ...] = SILENT) -> FakeNode:
    """One node is down, some publish nothing."""
    world = large(nodes)
    world.liveness[9] = Liveness.MISSING
    node = world.node(1)
    world.known[1] = node
    publish(node, silent)
    return node


def offered(browser: Browser) -> list[str]:
    names: list[str] = browser.run("return [...document.getElementById('metric').options].map((each) => each.value)")
    return names


def colour_by(browser: Browser, name: str) -> None:
    browser.until(lambda: name in offered(browser), "the metric is offered")
    choose(browser, name)
    browser.until(lambda: not name or steps(browser), "a legend")


def choose(browser: Browser, name: str) -> None:
    browser.run(
        "const choice = document.getElementById('metric'); choice.value = arguments[0];"
        "choice.dispatchEvent(new Event('change'))",
        name,
    )


def steps(browser: Browser) -> dict[str, int]:
    """The legend as a screen reader says it: words with their number of nodes."""
    labels: list[str] = browser.run(
        "return [...document.querySelectorAll('#scale:not([hidden]) button')].map((each) => each.ariaLabel)"
    )
    pairs = [label.rpartition(": ") for label in labels]
    return {said: int(re.sub(r"\D", "", number)) for said, _, number in pairs}


def figures(browser: Browser) -> dict[str, str]:
    pairs: list[list[str]] = browser.run(
        "return [...document.querySelectorAll('#spread div:not([hidden])')].map((each) => "
        "[...each.children].map((part) => part.textContent))"
    )
    return dict(map(tuple, pairs))


def fill(browser: Browser, address: str) -> list[str]:
    """The colour of the mark of a row, and how it is filled."""
    shown: list[str] = browser.run(
        "const { color, fill } = document.querySelector(arguments[0]).style; return [color, fill]",
        f"{row(address)} > svg.shape",
    )
    return shown


@pytest.mark.parametrize("nodes", [30, 5000])
@pytest.mark.parametrize("width", [360, 1280])
def test_map_and_tree_have_the_colours_of_the_metric(
    browser: Browser, page_of: PageOf, nodes: int, width: int
) -> None:
    browser.emulate("Emulation.setDeviceMetricsOverride", width=width, height=780, deviceScaleFactor=1, mobile=False)
    try:
        silent = (*SILENT, nodes - 5)
        page_of(cluster(nodes, silent))
        assert pixels(browser, "shade-8") == []
        colour_by(browser, LOAD)
        browser.until(lambda: pixels(browser, "shade-8") and pixels(browser, "shade-0"), "high and low nodes")
        assert nodes == 30 or pixels(browser, "none"), "lines of large cells have no pure colour"
        assert pixels(browser, "down"), "a node that is down is marked so in each view"
        assert len(steps(browser)) == 10
        assert sum(steps(browser).values()) == nodes
        assert steps(browser)["no value"] == 5
        said = words(browser)
        assert f"Coloured by {LOAD}. up to " in said
        assert said.endswith("no value: 5 nodes.")
        assert fill(browser, "10.0.0.1")[0].startswith("var(--shade-")
        assert fill(browser, "10.0.0.9") == ["", ""], "of its state"
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run("return document.getElementsByTagName('*').length") < 3000
        assert browser.run("return document.getElementById('tree').clientHeight") > 150
    finally:
        browser.emulate("Emulation.clearDeviceMetricsOverride")


def test_every_number_stands_with_the_nodes_that_it_covers(browser: Browser, page_of: PageOf) -> None:
    page_of(cluster())
    colour_by(browser, LOAD)
    browser.until(lambda: figures(browser), "the figures")
    shown = figures(browser)
    assert list(shown) == ["nodes", "sum", "least", "5 %", "median", "95 %", "99 %", "greatest"]
    assert (shown["nodes"], shown["greatest"]) == ("26", "3.16 on 10.0.0.19")
    told = f"{LOAD}: 26 of 29 nodes reported, the oldest 7 s ago; missing: 10.0.0.[12-13,30] stale."
    assert browser.text("#figures-told") == told
    classes = "Colours: 26 of 30 nodes told; missing: 10.0.0.9 down, 10.0.0.[12-13,30] no value."
    assert browser.text("#classes-told") == classes
    browser.one("#spread button").click()
    browser.until(lambda: browser.text("#node-title") == "10.0.0.19", "the node with the greatest value")
    facts = browser.text("#facts")
    assert f"{LOAD} over 3.15" in facts
    assert browser.text(f"{row('10.0.0.19')} .numbers") == "over 3.15"


def test_a_colour_of_the_legend_shows_its_nodes_alone(browser: Browser, page_of: PageOf) -> None:
    page_of(cluster())
    colour_by(browser, LOAD)
    browser.one("#scale li:last-child button").click()
    expected = {"10.0.0.9", "10.0.0.12", "10.0.0.13", "10.0.0.30"}
    browser.until(lambda: found(browser) == expected, "those without a value")
    assert browser.text("#found") == f"4 nodes found: {LOAD}, no value. Esc shows everything again."
    assert fill(browser, "10.0.0.12") == ["var(--none)", "none"], "hollow, so not told by colour alone"
    browser.press(Keys.ESCAPE)
    browser.until(lambda: not browser.one("#found").is_displayed(), "all again")


def test_a_rare_fault_is_seen_among_thousands(browser: Browser, page_of: PageOf) -> None:
    page_of(cluster(5000), {"/v1/errors": NO_PROBLEMS})
    colour_by(browser, ERRORS)
    assert steps(browser) == {"up to 0": 4995, "over 0": 1, "no value": 4}
    browser.until(lambda: pixels(browser, "shade-8"), "the node in the strongest colour")


def test_metrics_are_chosen_with_keys(browser: Browser, page_of: PageOf) -> None:
    page_of(cluster())
    browser.until(lambda: len(offered(browser)) == 6, "the metrics")
    assert offered(browser) == ["", IOWAIT, HEAT, LOAD, MEMORY, ERRORS]
    browser.run("document.getElementById('metric').focus()")
    browser.press("node_l")
    browser.until(lambda: steps(browser), "a legend")
    assert browser.run("return document.getElementById('metric').value") == LOAD
    browser.press(Keys.TAB)
    assert browser.run("return document.activeElement.className") == "step", "the legend comes next"
    assert browser.run("return document.getElementById('metric-part').ariaLabel") == LOAD
    colour_by(browser, "")
    browser.until(lambda: not browser.one("#metric-part").is_displayed(), "states again")
    assert fill(browser, "10.0.0.1") == ["", ""]
    assert "Coloured" not in words(browser)
    assert pixels(browser, "none") == []


def test_the_history_goes_on_while_the_metric_changes(browser: Browser, page_of: PageOf) -> None:
    """The page keeps all metrics, also those that are not shown."""
    page_of(cluster())
    colour_by(browser, HEAT)
    colour_by(browser, LOAD)
    pattern = r"Since \d\d:\d\d: median 2\.51, 5 . 95 % 1\.99 to 3\.07"
    browser.until(lambda: re.fullmatch(pattern, browser.text("#past-text")), browser.text("#past-text"))
    assert len(browser.all("#past .band")) == len(browser.all("#past .middle")) == 1
    broken = browser.run(DRAWN_PAST, LOAD)
    assert broken["text"].endswith("median 1 to 3, 5 \u2013 95 % 0.5 to 6"), broken["text"]
    assert broken["bands"] == 2, "the line is broken where the page has not asked"


def test_without_an_answer_the_page_says_why(browser: Browser, page_of: PageOf) -> None:
    node = cluster()
    address = page_of(node)
    refusal = fixed_answer(json.dumps({"error": "many metrics are asked for"}).encode(), 503)
    colour_by(browser, HEAT)
    address.change(lambda: address.handlers.update({"/v1/metrics/classes": refusal}))
    choose(browser, LOAD)
    said = "The colours are not known: many metrics are asked for."
    browser.until(lambda: browser.text("#metric-note") == said, "the reason")
    assert fill(browser, "10.0.0.1") == ["", ""], "states, until the colours are known"
    assert steps(browser) == {}
    assert all("503" in each for each in browser.complaints())


def test_a_cluster_without_metrics(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(1))
    text = "return document.getElementById('metric').innerText"
    browser.until(lambda: "no node tells metrics" in browser.run(text), "the reason")
    assert offered(browser) == ["", "no node tells metrics"]


def test_names_are_never_markup(browser: Browser, page_of: PageOf) -> None:
    name = "<img src=x onerror='window.hit=1'>"
    node = cluster(11)
    node.world.samples = {each: {name: float(each)} for each in range(1, 12)}
    metric: dict[str, Any] = {"name": name, "count": 11, "sum": 66, "min": 1, "max": 11, "top": []}
    shown = {"asked": 11, "told": 11, "complete": True, "missing": [], "oldest_ms": 0, "left_out": 0}
    missing = [{"cause": name, "text": name, "count": 2, "addresses": [name]}]
    quantiles = {"0.05": 1, "0.5": 6, "0.95": 10, "0.99": 11}
    some = {"thresholds": [5], "least": 1, "greatest": 11, "classes": [{"number": 0, "nodes": 5, "positions": name}]}
    handlers = {
        "/v1/metrics/figures": {**shown, "metrics": [{**metric, "quantiles": quantiles}]},
        "/v1/metrics/classes": {**shown, "missing": missing, "name": name, **some},
    }
    page_of(node, {path: fixed_answer(json.dumps(each).encode()) for path, each in handlers.items()})
    colour_by(browser, name)
    assert name in browser.text("#classes-told")
    assert steps(browser) == {"up to 5": 0, "over 5": 0, "no value": 11}
    assert browser.run("return window.hit ?? null") is None


DRAWN_PAST = """
const [name] = arguments;
const at = (agoS, middle) => {
  return { at: 1e12 - 1000 * agoS, values: new Map([[name, { low: middle / 2, middle, high: 2 * middle }]]) };
};
return import("./spread.js").then(({ drawMetric }) => {
  const past = [at(200, 2), at(190, 1), at(20, 2), at(10, 3), at(0, 2)];
  drawMetric({ name, figures: null, forest: {}, classes: null, errors: {}, past });
  const bands = document.querySelectorAll("#past .band").length;
  return { text: document.getElementById("past-text").textContent, bands };
});
"""
LIGHTNESS = """
const probe = document.createElement("i");
document.body.append(probe);
const light = (name) => {
  probe.style.color = `var(--${name})`;
  const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number)
    .map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
return ["sheet", ...[0, 1, 2, 3, 4, 5, 6, 7, 8].map((each) => `shade-${each}`)].map(light);
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lightness_alone_tells_the_colours_apart(browser: Browser, page_of: PageOf, theme: str) -> None:
    """For readers who see few colours, or none: from the ground on, each one contrasts with the last."""
    page_of(World().node(1))
    browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
    values: list[float] = browser.run(LIGHTNESS)
    ratios = [max(one, other) / min(one, other) for one, other in pairwise(values)]
    assert values in (sorted(values), sorted(values, reverse=True))
    assert min(ratios) > 1.15
    assert ratios[0] > 1.4, "the first one is seen on the ground"


def test_numbers_are_written_as_in_the_command_line(page_modules: Browser) -> None:
    values = [0, 0.01234, 1, 999.4, 999.9, 12_345, -4.56e9, 24_972_689_408, 0.0004567, 1e15, -0.5, 1000, 123456]
    script = "return import('./dom.js').then(({ short }) => arguments[0].map(short))"
    assert page_modules.run(script, values) == [short(float(each)) for each in values]
