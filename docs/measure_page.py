#!/usr/bin/env python3
"""Measures what the page costs its reader, for docs/page.md.

    .venv/bin/python docs/measure_page.py --json docs/figures/page.json

The browser and the daemon's web server are real; the cluster behind them is simulated data, so that it can have ten
thousand nodes on one machine.
"""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "netns-lab"), str(REPOSITORY / "tests" / "helpers"), str(REPOSITORY)]

from chromium import Browser, chromium  # noqa: E402
from netlab.common import measure, results  # noqa: E402

import subord  # noqa: E402 - found by the line above
from subord.core.view import Liveness  # noqa: E402
from tests.api.served_node import fixed_answer  # noqa: E402
from tests.browser.page_reader import events, figures  # noqa: E402
from tests.browser.served_page import large, served  # noqa: E402

MEASURED = "return performance.getEntriesByName('subord-tree').map((each) => [each.startTime, each.duration])"
NO_PROBLEMS = b'{"nodes": 1, "problems": [], "complete": true}'
CHANGES = 5


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="what the page costs its reader")
    parser.add_argument("--nodes", default="500,10000", help="sizes, separated by commas")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    given = parser.parse_args(words)
    if given.json is not None:
        results.check_writable(given.json)
    about = {"machine": measure.machine(), "version": subord.__version__, "commit": measure.commit()}
    sizes = [int(size) for size in given.nodes.split(",")]
    with chromium() as browser:
        about["browser"] = browser.driver.capabilities["browserVersion"].split(".")[0]
        runs = [
            {"nodes": nodes, "repeat": number, **run(browser, nodes), **about}
            for number in range(given.repeat)
            for nodes in sizes
        ]
    for each in runs:
        print({key: value for key, value in each.items() if key not in about})
    if given.json is not None:
        results.write_json(given.json, runs)
    return 0


def run(browser: Browser, nodes: int) -> dict[str, Any]:
    """One reader: from an empty tab to a tree, then some changes."""
    world = large(nodes)
    # The question to all nodes is not the reader's cost, and slow with so many nodes in one process.
    with served(world.node(1), {"/v1/errors": fixed_answer(NO_PROBLEMS)}) as node:
        browser.open(node.url)
        # Milliseconds since the navigation began.
        (first,) = browser.until(lambda: browser.run(MEASURED), "a first tree")
        browser.until(lambda: browser.text("#connection-text") == "live" and events(browser), "a live page")
        seen, drawn = zip(*changes(browser, world, node), strict=True)
        browser.emulate("HeapProfiler.collectGarbage")
        browser.emulate("Performance.enable")
        metrics = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        heap_bytes = {each["name"]: each["value"] for each in metrics}["JSHeapUsedSize"]
        found = {
            "tree_bytes": len(urllib.request.urlopen(f"{node.url}v1/tree?form=rows").read()),  # noqa: S310 - our own
            "first_tree_s": sum(first) / 1000,
            "change_seen_s": sorted(seen)[CHANGES // 2],
            "change_drawn_s": sorted(drawn)[CHANGES // 2],
            "heap_mib": heap_bytes / 2**20,
            "elements": browser.run("return document.getElementsByTagName('*').length"),
        }
        browser.driver.get("about:blank")
    return found


def changes(browser: Browser, world: Any, node: Any) -> Iterator[tuple[float, float]]:
    """(s from a node's death until the page shows it, s of processor time for the new tree)."""
    for number in range(1, CHANGES + 1):
        began = time.perf_counter()
        node.change(partial(world.liveness.update, {len(world.leaders) - number: Liveness.MISSING}))
        browser.until(lambda wanted=str(number): figures(browser)["down"] == wanted, "a death")
        yield time.perf_counter() - began, browser.run(MEASURED)[0][1] / 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
