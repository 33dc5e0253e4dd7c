"""What the network does to a datagram: loss, delay, duplication, partitions and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from subord.core.view import Position

DELAY_S = (0.0001, 0.0003)  # of a quiet local network
SITE_DELAY_S = 0.01  # more per step between two sites, which stand in a row


class Block(msgspec.Struct, frozen=True):
    """Drops what `sources` send to `targets`."""

    sources: frozenset[Position]
    targets: frozenset[Position]
    datagrams: bool
    streams: bool


class Weather:
    """The state of the network of one world. Times are seconds."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._group_of: dict[Position, int] = {}
        self._blocks: list[Block] = []
        self.cut: set[Position] = set()
        self.site_of: dict[Position, int] = {}  # missing: 0
        self.fair()

    def fair(self) -> None:
        """End loss, delay and duplication; blocks and partitions stay."""
        self.set(loss=0.0, delay_s=0.0, jitter_s=0.0, doubled=0.0)

    def set(self, *, loss: float, delay_s: float, jitter_s: float, doubled: float) -> None:
        """From now on; see the step `weather` of scenario/definition.py."""
        self.loss, self.delay_s, self.jitter_s, self.doubled = loss, delay_s, jitter_s, doubled
        self._rough = bool(loss or delay_s or jitter_s or doubled)

    def partition(self, groups: Sequence[Iterable[Position]]) -> None:
        """Only members of one group reach each other; all without a group form one more."""
        self._group_of = {position: number for number, group in enumerate(groups, 1) for position in group}

    def block(self, rule: Block) -> None:
        """Add a block in one direction."""
        self._blocks.append(rule)

    def mend(self) -> None:
        """End loss, delay, duplication, blocks, partitions and cuts."""
        self._group_of = {}
        self._blocks = []
        self.cut.clear()
        self.fair()

    @property
    def disturbs(self) -> bool:
        """Whether anything is lost, late, doubled, blocked or cut off."""
        return bool(self._rough or self._blocks or self._group_of or self.cut)

    def group_of(self, position: Position) -> int:
        """Nodes with the same number reach each other, unless blocked; a node without cable is alone: negative."""
        return -position if position in self.cut else self._group_of.get(position, 0)

    def is_open(self, source: Position, target: Position, *, stream: bool = False) -> bool:
        """Whether anything gets from `source` to `target`."""
        if source == target:
            return True
        if (self.cut or self._group_of) and self.group_of(source) != self.group_of(target):
            return False
        return not any(
            source in each.sources and target in each.targets and (each.streams if stream else each.datagrams)
            for each in self._blocks
        )

    def fate(self, source: Position, target: Position) -> tuple[float, ...]:
        """The delay of every copy that arrives; empty: lost."""
        closed = (self.cut or self._group_of or self._blocks) and not self.is_open(source, target)
        if closed:
            return ()
        delay_s = DELAY_S[0] + (DELAY_S[1] - DELAY_S[0]) * self._chance.random()
        if self.site_of:
            delay_s += SITE_DELAY_S * abs(self.site_of.get(source, 0) - self.site_of.get(target, 0))
        return self._rough_fate(delay_s) if self._rough else (delay_s,)

    def _rough_fate(self, delay_s: float) -> tuple[float, ...]:
        chance = self._chance
        copies = 2 if chance.random() < self.doubled else 1
        arriving = sum(chance.random() >= self.loss for _ in range(copies))
        return tuple(delay_s + self.delay_s + self.jitter_s * chance.random() for _ in range(arriving))
