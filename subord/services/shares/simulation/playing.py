"""Plays a cluster of nodes and leaders in rounds of one period.

Input is a cluster, and what changes before a round; output is the usage of each class in each round, over all nodes.
Where nothing is skewed, all nodes report at the end of a round, then the leaders decide, then the root, so a leader
decides by the row that the root gave a round before. With skew each node and each leader has a time of its own in
the period, and rows count at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from subord.core.carriage.shares.interface import Row
from subord.services.shares.policy import Policy
from subord.services.shares.simulation.actors import REQUESTS, Leader, Node
from subord.services.shares.simulation.serving import Serve

Change = Callable[[int, Sequence[Node]], None]
"""Called before each round with its number."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """When in a period, in requests from 1 on, each node reports, and each leader decides; how often the root."""

    nodes: Sequence[int]
    leaders: Sequence[int]
    root_rounds: int = 1


def together(nodes: int, leaders: int, root_rounds: int = 1) -> Times:
    """All at the end of a period."""
    return Times(nodes=[REQUESTS] * nodes, leaders=[REQUESTS] * leaders, root_rounds=root_rounds)


def skewed(nodes: int, leaders: int, rng: Random, root_rounds: int = 1) -> Times:
    """Each at a drawn time."""

    def drawn(count: int) -> list[int]:
        return [rng.randint(1, REQUESTS) for _ in range(count)]

    return Times(nodes=drawn(nodes), leaders=drawn(leaders), root_rounds=root_rounds)


class Cluster:
    """Nodes under leaders under a root; no leaders: rows that never change."""

    def __init__(self, loads: Sequence[Row], rows: Sequence[Row], serve: Serve) -> None:
        self.nodes = [Node(load, row, serve) for load, row in zip(loads, rows, strict=True)]
        self._root: Leader | None = None
        self._leaders: list[Leader] = []
        self._times = together(len(self.nodes), 0)

    def lead(self, leaders: int, wanted: Row, policy: Policy, times: Times) -> None:
        """Equal branches, in order."""
        size = len(self.nodes) // leaders
        groups = [self.nodes[at * size : (at + 1) * size] for at in range(leaders)]
        self._leaders = [Leader(group, wanted, policy) for group in groups]
        self._root = Leader(self._leaders, wanted, policy)
        self._times = times

    def play(self, rounds: int, change: Change | None = None) -> list[list[float]]:
        """For each round the usage of each class, in percent of all nodes."""
        calendar = self._calendar()
        found = []
        for number in range(rounds):
            if change is not None:
                change(number, self.nodes)
            before = self._served()
            for node in self.nodes:
                node.arrive()
            for time in sorted(calendar):
                for act in calendar[time]:
                    act(number, number * REQUESTS + time)
            for node in self.nodes:
                node.advance((number + 1) * REQUESTS)
            capacity = REQUESTS * len(self.nodes)
            found.append([100 * (new - old) / capacity for new, old in zip(self._served(), before, strict=True)])
        return found

    def _served(self) -> list[float]:
        return [sum(column) for column in zip(*[node.served for node in self.nodes], strict=True)]

    def _calendar(self) -> dict[int, list[Callable[[int, int], None]]]:
        """What is done at each time of a period: nodes first, then leaders, the root last."""
        found: dict[int, list[Callable[[int, int], None]]] = {}
        root = self._root
        if root is None:
            return found
        size = len(self.nodes) // len(self._leaders)
        for at, (node, time) in enumerate(zip(self.nodes, self._times.nodes, strict=True)):
            found.setdefault(time, []).append(_node(node, self._leaders[at // size], at % size))
        for at, (leader, time) in enumerate(zip(self._leaders, self._times.leaders, strict=True)):
            found.setdefault(time, []).append(_leader(leader, root, at, self._times.root_rounds))
        found.setdefault(REQUESTS, []).append(_root(root, self._times.root_rounds))
        return found


def _node(node: Node, leader: Leader, place: int) -> Callable[[int, int], None]:
    def act(number: int, now: int) -> None:  # noqa: ARG001  # nodes report in each round
        node.advance(now)
        leader.hear(place, node.report())

    return act


def _leader(leader: Leader, root: Leader, place: int, root_rounds: int) -> Callable[[int, int], None]:
    def act(number: int, now: int) -> None:
        leader.decide(now)
        if number % root_rounds == root_rounds - 1:
            root.hear(place, leader.report())

    return act


def _root(root: Leader, root_rounds: int) -> Callable[[int, int], None]:
    def act(number: int, now: int) -> None:
        if number % root_rounds == root_rounds - 1:
            root.decide(now)

    return act
