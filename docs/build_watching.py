"""The output of the commands that watch a whole cluster, for the small cluster of the other stories
(build_stories.py).

Node 2 of eleven dies, and three nodes with another fan-out start. Two minutes later the root is asked, by the code of
the daemon.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import trio
from build_stories import BEGAN, SETTINGS, NodeApi, Tracked, World, _screen
from trio.testing import MockClock

from subord.api.handlers import changes, members, peer_answers, problems
from subord.api.models import nodes, trees
from subord.api.node_api import AskFailure, Question
from subord.client import drawing, problem_lines, tree_parts
from subord.client.change_line import change_line
from subord.client.folding import folded
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.events import FAILURES, LeaderLost
from subord.core.messages import Propose, Terms, Wish
from subord.core.roster_tree import RosterTree
from subord.core.view import Position
from subord.runtime.counters import Counters
from subord.runtime.problems import RecentProblems, of_loss

STRANGERS = (12, 13, 14)


class AskingNode(NodeApi):
    """Can ask the other nodes of its world."""

    def __init__(self, world: World, position: Position, tracker: Tracked | None = None) -> None:
        super().__init__(world, position, tracker)
        self.counters = Counters()
        self.counters.problems = self._recent(position)
        self.orders = self
        self.is_settled = True  # the story is of a cluster that has run for minutes

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:  # noqa: ARG002
        position = SETTINGS.network.position_of(address)
        if position not in self._world.nodes:
            return AskFailure("does not answer")
        await trio.lowlevel.checkpoint()
        return await peer_answers.answer(AskingNode(self._world, position), question)

    async def order(
        self, _service: str, _payload: bytes, _targets: Ranges | None, _left_s: float, **_given: object
    ) -> Answer:
        """The problems of all members, asked by the root."""
        tree = RosterTree(self._node, self.tracker.membership.register)
        split = tree.split(tree.every())
        told = defaultdict[bytes, list[Position]](list)
        for position in (tree.position, *(each for below in split.below.values() for each in below)):
            told[await problems.answer(AskingNode(self._world, position), b"")].append(position)
        return Answer(
            targets=tree.every(),
            groups=tuple((result, Ranges.of(positions)) for result, positions in told.items()),
            missing=tuple(split.absent.items()),
        )

    def _recent(self, position: Position) -> RecentProblems:
        at = self._world.now
        problems = RecentProblems(lambda: at)
        for at, whose, notice in self._world.notices:  # noqa: B007 - the clock above
            if whose == position and isinstance(notice, LeaderLost) and notice.cause in FAILURES:
                problems.note("lost", of_loss(SETTINGS.network.address_text_of(notice.leader), notice.cause))
        at = self._world.now
        return problems


@cache
def with_failures() -> AskingNode:
    """The root, two minutes after the death of 2."""
    world = World(*range(1, 12))
    tracker = Tracked(world, 1)
    world.run(10)
    tracker.look()
    world.run(10)
    tracker.look()  # writes the nodes into the register
    world.run(380)
    world.crash(2)
    for _ in range(120):
        world.run(1)
        tracker.look()
    terms = Terms.of(msgspec.structs.replace(SETTINGS, fanout=8))
    for stranger in STRANGERS:
        world.tell(stranger, 1, Propose(1, stranger, terms, Wish.HOME))
    world.run(2)
    return AskingNode(world, 1, tracker)


def _answered(ask: Callable[..., Any], *arguments: object) -> dict[str, Any]:
    """The answer at the time of the story."""
    clock = MockClock()
    clock.jump(with_failures()._world.now)
    document: dict[str, Any] = json.loads(msgspec.json.encode(trio.run(ask, *arguments, clock=clock)))
    return document


async def _members() -> object:
    return members.own(with_failures())


async def _changes() -> object:
    return changes.own(with_failures())


@contextmanager
def _in_utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    del os.environ["TZ"]
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def errors() -> str:
    document = _answered(problems.find, with_failures(), 0.8)
    return _screen("subord errors", drawing.colourless(problem_lines.lines(document)).splitlines())


def down() -> str:
    root = with_failures()
    document = trees.tree(nodes.roster(SETTINGS, root.roster()), gone=members.gone(root))
    tree: dict[str, Any] = json.loads(msgspec.json.encode(document))
    rows = tree_parts.down(tree["rows"])
    return _screen(
        "subord tree --down",
        drawing.colourless(drawing.picture(tree, rows, None, drawing.STROKES)).splitlines(),
    )


def fold() -> str:
    live = [each["address"] for each in _answered(_members)["members"] if each["standing"] == "live"]
    return _screen("subord members --standing live --fold", [folded(live)])


def happened() -> str:
    with _in_utc():
        late = [each for each in _answered(_changes)["changes"] if each["wall"] > BEGAN + 60]
        lines = [change_line(each) for each in late]
    return _screen("subord events --since 5min", drawing.colourless(lines).splitlines())


PARTS: dict[str, Callable[[], str]] = {"errors": errors, "down": down, "fold": fold, "happened": happened}
