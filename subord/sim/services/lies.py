"""Nodes that lie in what they carry: they invent results of other nodes, repeat orders, and answer what none asked.

Inputs are the frames that a lying node receives and sends; outputs are the frames that it sends instead. A node may
say of its own branch what it likes, and only signatures could show it; the lies here are those that must count
nowhere: results of nodes that were not asked through it, second results of one node, and answers without a question.
"""

from __future__ import annotations

from random import Random

import msgspec

from subord.core.carriage.engine.frames import Ask, Frame, Told, decode, encode
from subord.core.carriage.engine.interface import Link
from subord.core.carriage.engine.lanes import PART_BODIES, lane_of
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.view import Position
from subord.sim.services.truth import LIE

LIES = 0.5  # of the answers
FAR = 1_000_000  # from any number of a question


class Liar:
    """One lying node. `others`: positions that it may speak for."""

    def __init__(self, chance: Random, others: list[Position]) -> None:
        self._chance = chance
        self._others = others
        self._parts: dict[tuple[Link, int], Ranges | None] = {}
        self.lies = 0

    def hears(self, link: Link, data: bytes) -> None:
        """A frame comes; it remembers which nodes it is asked for."""
        if lane_of(data) in PART_BODIES:
            return
        body = decode(data).body
        if isinstance(body, Ask):
            is_every = body.climbs and body.order.flat_targets is None
            self._parts[link, body.number] = None if is_every else Ranges.unflat(body.part)

    def says(self, link: Link, data: bytes) -> list[bytes]:
        """The frames that it sends in place of this one."""
        if lane_of(data) in PART_BODIES:
            return [data]
        frame = decode(data)
        if self._chance.random() >= LIES:
            return [data]
        if isinstance(frame.body, Told):
            return self._told(link, frame, frame.body)
        if isinstance(frame.body, Ask):
            return [data, self._written(frame, msgspec.structs.replace(frame.body, number=frame.body.number + FAR))]
        return [data]

    def _told(self, link: Link, frame: Frame, told: Told) -> list[bytes]:
        part = self._parts.get((link, told.number))
        groups = list(told.groups)
        if part is not None:
            strangers = Ranges.of(self._chance.sample(self._others, min(5, len(self._others)))) - part
            groups.append((LIE, strangers.flat()))
        for _, flat in told.groups:
            groups.append((LIE, flat))  # after the first result
        others = Ranges.of(self._others)
        invented = Told(told.number + FAR, ((LIE, others.flat()),), NONE.flat(), (), is_last=True)
        self.lies += 1
        return [
            self._written(frame, invented),
            self._written(frame, msgspec.structs.replace(told, groups=tuple(groups))),
        ]

    @staticmethod
    def _written(frame: Frame, body: Told | Ask) -> bytes:
        return encode(frame.sender, frame.receiver, body)
