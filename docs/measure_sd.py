#!/usr/bin/env python3
"""Measures what the list of targets (`/sd`) costs the root of a large cluster, for docs/prometheus.md.

    .venv/bin/python docs/measure_sd.py --json docs/figures/sd.json

The cluster is simulated; the list is made by the code of the daemon, without sending it.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / each) for each in ("docs", "tests/helpers", "netns-lab", ".")]

from build_stories import NodeApi  # noqa: E402 - found by the line above
from netlab.common import measure, results  # noqa: E402
from small_world import SmallWorld  # noqa: E402

import subord  # noqa: E402
from subord.api.handlers import control, web  # noqa: E402
from subord.api.http.server import Response  # noqa: E402
from subord.core.address.network import Network  # noqa: E402
from subord.core.carriage.documents import Document  # noqa: E402
from subord.core.carriage.orders import Verdict  # noqa: E402
from subord.core.settings import Settings  # noqa: E402
from subord.runtime.state.memory import Memory  # noqa: E402
from subord.runtime.state.tracker import Tracker  # noqa: E402

ROOT = 1
SETTLED_S = 60.0
SHARE_DEAD = 100  # one of this many nodes is missing


class Root(NodeApi):
    """The root of a simulated cluster, as its web address presents it."""

    def __init__(self, world: SmallWorld) -> None:
        super().__init__(world, ROOT)  # type: ignore[arg-type]
        self.settings = world.settings
        self.address = world.settings.network.address_text_of(ROOT)
        self.web_port = 9717
        self.tracker = Tracker(world.nodes[ROOT], Memory("", world.settings), _unjudged, now=lambda: world.now)


async def _unjudged(_: Document) -> Verdict:
    """No neighbour sends documents here."""
    await trio.lowlevel.checkpoint()
    return Verdict("unsigned")


def main(words: list[str]) -> int:
    """The exit code."""
    given = _options(words)
    if given.json is not None:
        results.check_writable(given.json)
    found = []
    for nodes in given.nodes:
        clock = MockClock()  # of the simulated cluster
        found.append(trio.run(_of_cluster, clock, nodes, given.fanout, given.times, clock=clock))
    for record in found:
        print({key: value for key, value in record.items() if key != "machine"})
    if given.json is not None:
        results.write_json(given.json, found)
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what /sd costs the root")
    parser.add_argument("--nodes", type=lambda text: tuple(map(int, text.split(","))), default=(500, 10_000))
    parser.add_argument("--fanout", type=int, default=8)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    return parser.parse_args(words)


async def _of_cluster(clock: MockClock, nodes: int, fanout: int, times: int) -> dict[str, Any]:
    machine = measure.machine()
    world = SmallWorld(Settings(network=Network.parse("10.0.0.0/16"), fanout=fanout, guest_slots=fanout))
    world.start_all(range(1, nodes + 1))
    world.run(SETTLED_S)
    root = Root(world)
    root.tracker.look()
    leaves = [position for position in range(nodes, 0, -1) if not world.nodes[position].downlink.led]
    for position in leaves[: nodes // SHARE_DEAD]:
        world.crash(position)
    world.run(SETTLED_S / 2)
    root.tracker.look()
    world.run(SETTLED_S * 2)  # they are no longer shown as missing, but still remembered
    clock.jump(world.now)
    gc.collect()
    gc.freeze()  # else the collector would traverse the other nodes of the simulation
    listed = control.control_app(root)["/sd"]
    page = web.metrics_app(root)["/metrics"]
    answer = await listed({})
    assert isinstance(answer, Response)
    return {
        "nodes": nodes,
        "fanout": fanout,
        "live": world.nodes[ROOT].roster.live,
        "listed": len(json.loads(answer.body)),
        **{f"sd_{key}": value for key, value in (await _cost(listed, times)).items()},
        **{f"metrics_{key}": value for key, value in (await _cost(page, times)).items()},
        "machine": machine,
        "version": subord.__version__,
        "commit": measure.commit(),
    }


async def _cost(handler: Callable[[dict[str, str]], Any], times: int) -> dict[str, float]:
    """Bytes, and milliseconds of processor time: of the first call, and the mean of the others."""
    spent_ms = []
    for _ in range(times + 1):
        began = time.process_time()
        answer = await handler({})
        spent_ms.append(1e3 * (time.process_time() - began))
        assert isinstance(answer, Response)
        assert answer.status == 200, answer.body
    return {"bytes": len(answer.body), "first_ms": spent_ms[0], "ms": sum(spent_ms[1:]) / times}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
