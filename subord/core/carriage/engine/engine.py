"""The engine of orders: carries orders down the tree and answers up, at one node.

`handle` takes one event (interface.py) and returns the actions that the driver carries out; `deadline` says when to
give Wakeup. It reads no clock and makes no choice by chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from subord.core.carriage.engine.frames import Tag
from subord.core.carriage.engine.interface import Action, Event, Services
from subord.core.carriage.engine.tree import Tree


class Engine:
    """The orders of one life of one node."""

    def __init__(self, tree: Tree, services: Services, *, over: Iterable[tuple[Tag, float]] = (), now: float = 0.0):
        """`over`: tags of Note from earlier lives of this node, and for how many seconds to keep them."""

    @property
    def deadline(self) -> float:
        return inf

    def handle(self, event: Event, now: float) -> list[Action]:
        raise NotImplementedError
