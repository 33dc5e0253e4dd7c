"""What happens to the bytes of a datagram on its way: slow links, replays and flipped bits.

links.py looks at source and target only; this module looks at the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from random import Random

import msgspec

from subord.core.view import Position
from subord.sealing.header import SEALED_VERSION
from subord.sim.scenario.lasting import Flip, Link, Replay
from subord.wire.codec import MAGIC, Fault, decode

FLIPS_TRIED_MAX = 32  # until one is readable; else the datagram is unchanged
HEADER_BYTES = 2  # magic and version, which are not flipped
SEALED = bytes((MAGIC, SEALED_VERSION))

Copy = tuple[float, bytes]
"""Delay in seconds, and the bytes that arrive."""


class _Rule(msgspec.Struct, frozen=True):
    sources: frozenset[Position]
    targets: frozenset[Position]
    until: float
    step: Link | Replay | Flip

    def fits(self, source: Position, target: Position) -> bool:
        there = source in self.sources and target in self.targets
        return there or (source in self.targets and target in self.sources)


class Transit:
    """The rules of one world; without rules a datagram is unchanged."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.rules: list[_Rule] = []
        self.flips = 0  # bits flipped so far
        self.misread_at = -inf  # when a bit was last flipped in a datagram in the clear

    def add(
        self, sources: Iterable[Position], targets: Iterable[Position], until: float, step: Link | Replay | Flip
    ) -> None:
        self.rules.append(_Rule(frozenset(sources), frozenset(targets), until, step))

    def mend(self) -> None:
        """Drop all rules."""
        self.rules.clear()

    def carry(
        self, source: Position, target: Position, data: bytes, delays: Sequence[float], now: float
    ) -> list[Copy]:
        """The copies that arrive; `delays` is what links.py lets through."""
        copies = [(delay_s, data) for delay_s in delays]
        for rule in self.rules:
            if rule.until > now and rule.fits(source, target):
                copies = self._changed(rule.step, copies)
        if not data.startswith(SEALED) and any(sent != data for _, sent in copies):
            self.misread_at = now
        return copies

    def _changed(self, step: Link | Replay | Flip, copies: list[Copy]) -> list[Copy]:
        chance = self._chance
        match step:
            case Link():
                more_s = [(delay_s + step.delay_s + len(d) / 1000 * step.per_kb_s, d) for delay_s, d in copies]
                return [each for each in more_s if not self._is_lost(step, each[1])]
            case Replay():
                again = [(delay_s + step.later_s, d) for delay_s, d in copies if chance.random() < step.share]
                return copies + again
            case Flip():
                return [(delay_s, self._flipped(d) if chance.random() < step.share else d) for delay_s, d in copies]

    def _flipped(self, data: bytes) -> bytes:
        self.flips += 1
        return flipped(data, self._chance)

    def _is_lost(self, link: Link, data: bytes) -> bool:
        return bool(link.mtu and len(data) > link.mtu) or self._chance.random() < link.loss


def flipped(data: bytes, chance: Random) -> bytes:
    """The datagram with one bit flipped: any bit if it is sealed, else one that leaves it readable."""
    if data.startswith(SEALED):
        changed = bytearray(data)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    for _ in range(FLIPS_TRIED_MAX):
        changed = bytearray(data)
        if len(changed) <= HEADER_BYTES:
            break
        changed[chance.randrange(HEADER_BYTES, len(changed))] ^= 1 << chance.randrange(8)
        if not isinstance(decode(bytes(changed)), Fault):
            return bytes(changed)
    return data
