"""The page of real daemons in namespaces, with the real browser outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from page_of_lab import shown_outside

from tests.browser.page_reader import addresses, events, figures, row, shape

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))

pytestmark = pytest.mark.lab

NODES = 11


@pytest.fixture
def lab(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """A whole tree of real daemons, and the page of node 7, which is not its root, in the browser."""
    from netlab.lab import Lab

    with Lab(nodes=NODES, fanout=2) as lab:
        lab.start_all()
        lab.wait_stable(timeout_s=60)
        with shown_outside(lab, 7, tmp_path) as address:
            browser.open(address)
            yield lab
            browser.driver.get("about:blank")


def moved(browser: Browser) -> set[str]:
    """The nodes that moved away from 10.0.0.2."""
    return {line.split()[0] for line in events(browser) if " moved from 10.0.0.2 " in line}


def test_a_node_is_killed_and_returns(browser: Browser, lab: Any) -> None:
    """The page shows it without reloading."""
    browser.until(lambda: figures(browser).get("nodes") == str(NODES), "the whole tree")
    browser.until(lambda: browser.text("#connection-text") == "live" and events(browser), "events")
    assert addresses(browser) == [f"10.0.0.{n}" for n in (1, 2, 4, 8, 9, 5, 10, 11, 3, 6, 7)]
    assert figures(browser)["root"] == "10.0.0.1"
    browser.one(row("10.0.0.4")).click()
    browser.until(lambda: browser.all("#why table"), "the reasons of another node")
    browser.run("window.notReloaded = true")
    lab.kill(2)
    browser.until(lambda: shape(browser, "10.0.0.2") == "#mark-down", "it is missing")
    browser.until(lambda: figures(browser)["guests"] == "2", "its subordinates are guests")
    browser.until(lambda: "10.0.0.2 is missing, was led by 10.0.0.1" in events(browser), "its event")
    browser.until(lambda: {"10.0.0.4", "10.0.0.5"} <= moved(browser), "those of its subordinates")
    lab.start(2)
    browser.until(lambda: figures(browser)["at home"] == str(NODES), "all at home")
    browser.until(lambda: "10.0.0.2 is back, led by 10.0.0.1" in events(browser), "its event")
    assert shape(browser, "10.0.0.2") == "#mark-home"
    assert browser.run("return window.notReloaded")
