#!/usr/bin/env python3
"""The pictures of the page in docs/page.md: a real Chromium and the daemon's web server; the cluster is generated.

    .venv/bin/python docs/build_screenshots.py [NAME...]    writes docs/page-NAME.webp, all without a name

Not part of docs/build.py: the pictures show the time of day.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from math import sin
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
sys.path[:0] = [str(REPOSITORY / "tests" / "helpers"), str(REPOSITORY)]

import msgspec  # noqa: E402 - found by the line above
from chromium import Browser, chromium  # noqa: E402

from subord.api.http.server import EventStream, Query, Response  # noqa: E402
from subord.api.models.document import time_text  # noqa: E402
from subord.core.carriage.documents import Document  # noqa: E402
from subord.core.members import statements  # noqa: E402
from subord.core.members.membership import DOCUMENTS, REGISTER  # noqa: E402
from subord.core.members.register import Record, Run, State  # noqa: E402
from subord.core.members.statements import Maintain  # noqa: E402
from subord.core.view import Asked, Liveness, Why  # noqa: E402
from subord.services.elastic.past.public import PATH as ELASTIC  # noqa: E402
from subord.services.machines.shown.public import PATH as MACHINES  # noqa: E402
from subord.services.metrics import core  # noqa: E402
from subord.services.metrics.classes import public  # noqa: E402
from subord.services.shares.past.public import PATH as SHARES  # noqa: E402
from tests.api.fake_node_api import FakeNode, World  # noqa: E402
from tests.api.served_node import fixed_answer  # noqa: E402
from tests.browser.elastic_world import elastic_document  # noqa: E402
from tests.browser.machines_world import machines_document  # noqa: E402
from tests.browser.metrics_world import LOAD, MEMORY, publish  # noqa: E402
from tests.browser.served_page import Served, large, served, streams  # noqa: E402
from tests.browser.shares_world import shares_document  # noqa: E402

BYTES_MAX = 120_000
AGO_S = 190  # since the failure
DAY_S = 86_400.0


class Picture(NamedTuple):
    """What is taken. `chosen`: the position of a node; `fails`: some nodes are down; `filters`: a state to show;
    `metric`: by which nodes are coloured. `shares`: the cluster divides its nodes among classes.
    `elastic`: it grows and shrinks with a queue. `machines`: so many servers have virtual machines."""

    nodes: int
    width: int = 1200
    height: int = 780
    theme: str = "light"
    fails: bool = True
    filters: str = ""
    chosen: int | None = None
    scale: int = 1
    metric: str = ""
    shares: bool = False
    elastic: bool = False
    machines: int = 0
    quality: int = 80


PICTURES = {
    "light": Picture(500),
    "dark": Picture(500, theme="dark", chosen=190),
    "30": Picture(30, height=760, fails=False),
    "30-failing": Picture(30, height=760),
    "500": Picture(500, fails=False),
    "5000": Picture(5000, height=900),
    "5000-healthy": Picture(5000, height=900, fails=False),
    "phone": Picture(500, width=390, height=760, chosen=33, scale=2),
    "phone-tree": Picture(500, width=390, height=760, scale=2),
    "maintenance": Picture(500, filters="maintained"),
    "metric": Picture(500, height=820, metric=LOAD, quality=70),
    "shares": Picture(500, fails=False, shares=True),
    "elastic": Picture(500, fails=False, elastic=True),
    "machines": Picture(500, height=1100, fails=False, machines=24),
    "metric-5000": Picture(5000, height=920, theme="dark", metric=MEMORY, quality=60),
}
SILENT = (12, 13, 300)
"""Nodes that publish no metrics."""
MAINTENANCE = "firmware upgrade, rack B"


class Aged(World):
    """Most places are old, those of the failure are new."""

    moved: set[int]

    def age_s(self, position: int) -> float:
        return AGO_S if position in self.moved else 2 * DAY_S


class Guest(FakeNode):
    """A node that says why it is a guest."""

    def why(self) -> Why:
        """Its home is down, and its leader accepted it."""
        world, home = self.world, self.settings.numbering.computed_leader(self.position)
        leader = world.leaders[self.position]
        assert leader is not None
        assert home is not None
        return Why(
            position=self.position,
            place=world.place(self.position),
            leader=leader,
            reason="the nearest with a free guest slot",
            ranked=(home, leader, 22, 21),
            asked=(
                Asked(position=leader, answer="accepted", ago_s=AGO_S - 1.2),
                Asked(position=home, answer="no answer", ago_s=4.0),
            ),
            ranking=world.ranking,
        )


def cluster(nodes: int, *, fails: bool) -> Aged:
    """Some nodes die, and their subordinates go to a neighbour."""
    model = large(nodes)
    world = Aged(model.leaders, model.settings)
    dead = [4, 23, 24, nodes - 3] if fails else []
    orphans = [each for each, leader in world.leaders.items() if leader in dead and each not in dead]
    for each in orphans:
        leader = world.leaders[each]
        assert leader is not None
        world.leaders[each] = 5 if leader == 4 else 25
    world.liveness |= dict.fromkeys(dead, Liveness.MISSING)
    world.moved = {*dead, *orphans}
    return world


def maintain(node: FakeNode, nodes: int) -> None:
    """Two nodes are under maintenance; one of them is stopped, and one is down for long."""
    said = Maintain(((9, 9), (nodes - 3, nodes - 3)), MAINTENANCE, "ann")
    order = statements.maintain_order("a", said, node.tracker.wall_ms)
    node.tracker.spread(DOCUMENTS, [Document(*order)])
    since_ms = node.tracker.wall_ms - 7_200_000
    node.tracker.spread(REGISTER, [Run(nodes + 5, nodes + 5, Record(1, State.DOWN, since_ms, 0))])


def changes(world: Aged) -> Iterator[dict[str, object]]:
    """An hour of events: some restarts, then the failure."""
    now, name = time.time(), world.settings.network.address_text_of
    rule = world.settings.numbering.computed_leader

    def change(kind: str, position: int, ago_s: float, old: int | None = None) -> dict[str, object]:
        leader = None if kind == "missing" else world.leaders[position]
        where = {"leader": leader and name(leader), "former_leader": old and name(old)}
        return {
            "number": 1,
            "time": time_text(now - ago_s),
            "kind": kind,
            "address": name(position),
            "place": world.place(position).value,
            **where,
        }

    yield change("restarted", 7, 3 * 3600, 1)
    for number, position in enumerate((12, 13, 14, 15, 27, 28, 19)):
        yield change("restarted", position, 3300 - 6 * number - 400 * (number // 4), rule(position))
    for number, position in enumerate(sorted(world.moved)):
        kind = "missing" if position in world.liveness else "moved"
        yield change(kind, position, AGO_S - (kind == "moved") * (1 + number / 20), rule(position))


def problems(world: Aged) -> dict[str, object]:
    """As `/v1/errors` answers."""
    name = world.settings.network.address_text_of
    known = [each for each in world.liveness if each != max(world.leaders) - 3]
    down = [name(each) for each in (*known, max(world.leaders) + 5)]
    text = "down: ended or vanished without goodbye"
    refused = {"kind": "refused", "text": "refused: fan-out 4, we use 8", "nodes": 1, "addresses": ["10.0.200.7"]}
    found = [
        {**refused, "since_s": 41.0},
        {"kind": "missing", "text": text, "nodes": len(down), "addresses": down, "since_s": None},
    ]
    fails = bool(world.liveness)
    return {
        "asked": name(1),
        "complete": True,
        "note": None,
        "nodes": len(world.leaders) - len(world.liveness),
        "problems": found if fails else [],
        "maintained": int(fails),
    }


CLOCK = "window.agoS = 540; const { now } = Date; Date.now = () => now() - 1000 * window.agoS;"
"""The page lives in the past until it has a history."""
CHOOSE = """
const choice = document.getElementById("metric");
choice.value = arguments[0];
choice.dispatchEvent(new Event("change"));
"""
LATER = """
window.agoS = arguments[0];
document.dispatchEvent(new Event("visibilitychange"));
return new Promise((done) => setTimeout(done, 150));
"""


def measure(browser: Browser, at: Served, node: FakeNode, metric: str) -> None:
    """Choose a metric, and have its figures of nine minutes."""
    browser.until(lambda: len(browser.all("#metric option")) > 1, "metrics")
    browser.run(CHOOSE, metric)
    for ago_s in range(540, -1, -20):
        drift = 0.4 * sin(ago_s / 70) + (0.3 if ago_s < AGO_S else 0.0)
        at.change(partial(publish, node, SILENT, drift))
        browser.run(LATER, ago_s)
    browser.until(lambda: browser.all("#scale button"), "a legend")


async def unkept(node: FakeNode, path: str, query: Query) -> Response | EventStream:
    """As the daemon answers, which keeps its answers for seconds."""
    return await public.paths(node, core.document)[path](query)


def taken(browser: Browser, wanted: Picture) -> bytes:
    """One picture."""
    size = {"width": wanted.width, "height": wanted.height, "deviceScaleFactor": wanted.scale}
    browser.emulate("Emulation.setDeviceMetricsOverride", **size, mobile=wanted.width < 500)
    browser.emulate("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": wanted.theme}])
    world = cluster(wanted.nodes, fails=wanted.fails)
    node = world.node(1)
    world.known[1] = node
    if wanted.fails:
        maintain(node, wanted.nodes)
    node.quiet_s = AGO_S if wanted.fails else 2300
    lines = b"".join(b"event: change\ndata: %s\n\n" % json.dumps(each).encode() for each in changes(world))
    handlers = {
        "/v1/events": streams(lines),
        "/v1/errors": fixed_answer(json.dumps(problems(world)).encode()),
    }
    if wanted.metric:
        handlers |= {path: partial(unkept, node, path) for path in public.paths(node, core.document)}
        publish(node, SILENT)
    if wanted.shares:
        handlers[SHARES] = fixed_answer(msgspec.json.encode(shares_document()))
    if wanted.elastic:
        handlers[ELASTIC] = fixed_answer(msgspec.json.encode(elastic_document()))
    if wanted.machines:
        handlers[MACHINES] = fixed_answer(msgspec.json.encode(machines_document(wanted.machines)))
    script = browser.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": CLOCK if wanted.metric else ""}
    )
    if wanted.chosen:
        world.known[wanted.chosen] = Guest(world, wanted.chosen)
    with served(node, handlers) as at:
        world.is_timed = False
        browser.open(at.url + (f"#{world.settings.network.address_text_of(wanted.chosen)}" if wanted.chosen else ""))
        browser.until(lambda: browser.text("#connection-text") == "live", "a live page")
        assert browser.run("return document.styleSheets.length"), "a busy machine: try again"
        browser.until(lambda: browser.all("#event-list li"), "events")
        ready = "#why table" if wanted.chosen else "#problems-summary"
        browser.until(lambda: browser.all(ready) and "Asking" not in browser.text(ready), "the side")
        if wanted.metric:
            measure(browser, at, node, wanted.metric)
        if wanted.shares:
            browser.until(lambda: browser.all("#shares-rows tr"), "the shares")
        if wanted.elastic:
            browser.until(lambda: browser.all("#elastic-rows tr"), "elastic growth")
        if wanted.machines:
            browser.until(lambda: browser.all("#machines-rows tr"), "virtual machines")
        if wanted.filters:
            browser.run(f"document.querySelector('[data-mark={wanted.filters}]').click()")
        browser.run("return new Promise((done) => setTimeout(done, 500))")
        shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": wanted.quality})
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
        browser.driver.get("about:blank")
    return base64.b64decode(shot["data"])


def main(names: list[str]) -> None:
    """Needs the packages `chromium` and `chromium-driver`."""
    with chromium() as browser:
        for name in names or PICTURES:
            picture = taken(browser, PICTURES[name])
            assert len(picture) < BYTES_MAX, "too large for a document"
            file = DOCS / f"page-{name}.webp"
            file.write_bytes(picture)
            print(f"{file.relative_to(REPOSITORY)}: {len(picture)} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
