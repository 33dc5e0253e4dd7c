"""The overview of the page: one cell a node, by level, coloured by state."""

from __future__ import annotations

from typing import Any

import pytest
from chromium import Browser

from subord.core.view import Liveness
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.page_reader import box
from tests.browser.served_page import large

NO_PROBLEMS = fixed_answer(b"{}")
"""Where they do not matter: 5,000 nodes in one process take 46 s to say that they have none."""
PIXELS = """
const canvas = document.querySelector("#overview canvas");
const probe = document.createElement("i");
probe.style.color = `var(--${arguments[0]})`;
document.body.append(probe);
const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
probe.remove();
const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
const pen = copy.getContext("2d", { willReadFrequently: true });
pen.drawImage(canvas, 0, 0);
const { data, width } = pen.getImageData(0, 0, canvas.width, canvas.height);
const found = [];
for (let at = 0; at < data.length; at += 4) {
  const same = data[at + 3] > 250 && wanted.every((part, index) => Math.abs(part - data[at + index]) < 3);
  if (same) found.push([(at / 4) % width, Math.floor(at / 4 / width)]);
}
const area = canvas.getBoundingClientRect();
return found.map(([x, y]) => [area.left + x / devicePixelRatio, area.top + y / devicePixelRatio]);
"""


def pixels(browser: Browser, state: str) -> list[list[float]]:
    """Where the drawing has the colour of a state, in the window."""
    found: list[list[float]] = browser.run(PIXELS, state)
    return found


def words(browser: Browser) -> str:
    label = browser.one("#overview canvas").get_attribute("aria-label")
    assert label is not None
    return label


def elements(browser: Browser) -> int:
    return int(browser.run("return document.getElementsByTagName('*').length"))


def press_at(browser: Browser, place: list[float]) -> None:
    where: dict[str, Any] = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        browser.emulate("Input.dispatchMouseEvent", type=kind, **where)


@pytest.mark.parametrize("nodes", [30, 500, 5000])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_size_is_seen_at_once(browser: Browser, page_of: PageOf, nodes: int, width: int) -> None:
    browser.emulate("Emulation.setDeviceMetricsOverride", width=width, height=780, deviceScaleFactor=1, mobile=False)
    try:
        world = large(nodes)
        node = page_of(world.node(1), {"/v1/errors": NO_PROBLEMS})
        browser.until(lambda: words(browser).count("level ") > 2, "an overview")
        assert pixels(browser, "down") == []
        node.change(lambda: world.liveness.update({nodes - 3: Liveness.MISSING, 9: Liveness.STALE}))
        browser.until(lambda: "1 down" in words(browser), "a death")
        browser.until(lambda: pixels(browser, "down") and pixels(browser, "stale"), "in red")
        press_at(browser, pixels(browser, "down")[len(pixels(browser, "down")) // 2])
        position = nodes - 3
        expected = f"10.0.{position // 256}.{position % 256}"
        browser.until(lambda: browser.text("#node-title") == expected, "the cell leads to its node")
        assert box(browser, "#overview")["height"] <= 250
        assert browser.run("return document.documentElement.scrollWidth") <= width
        browser.until(lambda: "candidate" in browser.text("#why"), "the node's own reasons")
        browser.until(lambda: elements(browser) < 3000, "no rows out of sight")
        assert f"more candidates: subord why {expected} lists all" in browser.text("#why")
    finally:
        browser.emulate("Emulation.clearDeviceMetricsOverride")


def test_the_overview_in_words(browser: Browser, page_of: PageOf) -> None:
    world = large(30)
    world.liveness |= {4: Liveness.MISSING, 9: Liveness.HELD}
    world.leaders[30] = 2
    page_of(world.node(1))
    expected = "Nodes by level. level 0: 1 node; level 1: 8 nodes, 1 down, 1 held; level 2: 21 nodes, 1 guests."
    browser.until(lambda: words(browser) == expected, words(browser))


def test_a_search_fades_the_others(browser: Browser, page_of: PageOf) -> None:
    world = large(30)
    world.liveness |= {4: Liveness.MISSING, 20: Liveness.MISSING}
    page_of(world.node(1))
    browser.until(lambda: pixels(browser, "down"), "red cells")
    before = len(pixels(browser, "down"))
    browser.press("/")
    browser.press("10.0.0.20")
    browser.until(lambda: 0 < len(pixels(browser, "down")) < before, "one of the two")


def test_the_overview_has_the_colours_of_the_theme(browser: Browser, page_of: PageOf) -> None:
    world = large(30)
    world.liveness[4] = Liveness.MISSING
    page_of(world.node(1))
    for theme in ("dark", "light"):
        browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
        browser.until(lambda: pixels(browser, "down"), theme, within_s=3)
