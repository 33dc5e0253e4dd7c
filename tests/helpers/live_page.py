"""The page of a real node in Chromium, as a program in the network namespace of that node.

    python tests/helpers/live_page.py URL NODES METRIC PICTURE.png

It opens the page, and colours it by the metric. When the page says that all nodes are present and have told the
metric, it prints a line of JSON: what the page shows. It reads the address of a node that is killed then, waits until
the page calls it down and has figures without it, takes the picture, and prints such a line again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from chromium import Browser, chromium  # noqa: E402 - found by the line above

from tests.browser.page_reader import events, figures  # noqa: E402
from tests.browser.test_page_metrics import colour_by, offered, steps  # noqa: E402

WITHIN_S = 120.0
"""The first figures of all nodes come after two intervals."""


def main(url: str, nodes: int, metric: str, picture: str) -> None:
    """Raises AssertionError for what does not come."""
    with chromium() as browser:
        browser.open(url)
        browser.until(lambda: browser.text("#connection-text") == "live", "a live page", WITHIN_S)
        browser.until(lambda: metric in offered(browser), "the metric is offered", WITHIN_S)
        colour_by(browser, metric)
        told = f"{metric}: {nodes} of {nodes} nodes reported"
        browser.until(lambda: browser.text("#figures-told").startswith(told), told, WITHIN_S)
        browser.until(lambda: sum(steps(browser).values()) == nodes, "a legend with all nodes", WITHIN_S)
        _say(shown(browser))
        dead, left = sys.stdin.readline().strip(), nodes - 1
        browser.until(lambda: any(dead in each for each in events(browser)), "the death among the events", WITHIN_S)
        told = f"{metric}: {left} of {nodes} nodes reported"
        browser.until(lambda: browser.text("#figures-told").startswith(told), told, WITHIN_S)
        browser.until(
            lambda: f"{dead} down" in browser.text("#classes-told"), "colours without the dead node", WITHIN_S
        )
        Path(picture).write_bytes(browser.driver.get_screenshot_as_png())
        _say({**shown(browser), "complaints": browser.complaints()})


def shown(browser: Browser) -> dict[str, Any]:
    """What the page says of the cluster and of the metric."""
    texts = {each: browser.text(f"#{each}") for each in ("figures-told", "classes-told", "orders-summary")}
    elements = browser.run("return document.getElementsByTagName('*').length")
    return {**texts, "header": figures(browser), "steps": steps(browser), "elements": elements}


def _say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    address, count, name, path = sys.argv[1:]
    main(address, int(count), name, path)
