"""What a seed draws for a campaign of orders: issuers and targets, older and lying nodes, and how long acting takes.

Inputs are a random generator and the nodes that live; outputs are orders. The order of the random calls decides what
a seed means.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Final, NamedTuple

from subord.core.carriage.engine.frames import Order, order_of
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position
from subord.sim.services.truth import ABSENT, LEASED, READ, WRITE

ORDERS_MAX: Final = 24
WRITES_MAX: Final = 60
GAPS_S: Final = (0.0, 0.0, 0.05, 0.3, 1.0, 2.0, 4.0)
LEFT_S: Final = (0.02, 0.3, 1.0, 3.0, 5.0, 12.0)
ACT_S: Final = (0.0, 0.0, 0.0, 0.02, 0.4, 2.0, inf)
SERVICES: Final = (READ, READ, READ, WRITE, WRITE, ABSENT)
LEASED_ORDERS_MAX: Final = 5
LEASED_LEFT_S: Final = (3.0, 12.0, 25.0)
LEASED_ACT_S: Final = (0.5, 5.0, 20.0, inf)
CANCEL_S: Final = (0.02, 0.3, 4.0, inf, inf)
OLDER_SHARE: Final = 0.2
LIARS_SHARE: Final = 0.4
FEW: Final = 2  # older nodes, or liars


class Drawn(NamedTuple):
    order: Order
    left_s: float
    targets: Ranges | None
    act_s: float


class OrderDraw:
    """Draws for one cluster."""

    def __init__(self, seed: int, positions: Sequence[Position]) -> None:
        self.chance = Random(f"{seed}/orders")
        self._positions = list(positions)
        few = self.chance.sample(self._positions, min(FEW, len(self._positions)))
        draws = self.chance.random(), self.chance.random()
        self.older = set(few[: self.chance.randint(1, FEW)]) if draws[0] < OLDER_SHARE else set[Position]()
        self.liars = set(self.chance.sample(self._positions, 1)) if draws[1] < LIARS_SHARE else set[Position]()
        self.gap_s = self.chance.choice((0.3, 1.0, 3.0))

    def tag(self) -> bytes:
        return self.chance.randbytes(16)

    def pause_s(self) -> float:
        """Until the next order."""
        return self.gap_s * self.chance.choice(GAPS_S)

    def draw(self, issuer: Position) -> Drawn:
        """An order of this issuer."""
        chance = self.chance
        targets = self._targets()
        payload = chance.randbytes(chance.choice((0, 10, 1000)))
        order = order_of(self.tag(), chance.choice(SERVICES), payload, targets, issuer)
        return Drawn(order, chance.choice(LEFT_S), targets, chance.choice(ACT_S))

    def _targets(self) -> Ranges | None:
        chance, positions = self.chance, self._positions
        kind = chance.random()
        if kind < 0.35:
            return None
        if kind < 0.6:
            return Ranges.of([chance.choice(positions) + chance.choice((0, 0, 0, 0, 1))])
        if kind < 0.8:
            first = chance.choice(positions)
            return Ranges(((first, first + chance.randint(0, 2 * len(positions))),))
        return Ranges.of(chance.sample(positions, chance.randint(1, len(positions))))


class LeasedDraw:
    """Draws orders of a leased service, and when their commands end before the answer."""

    def __init__(self, seed: int, positions: Sequence[Position]) -> None:
        self.chance = Random(f"{seed}/leases")
        self._positions = list(positions)
        self.left = LEASED_ORDERS_MAX
        self.kills = self.chance.random() < 0.5
        """Whether the issuer in the settled tree is killed, or its command cancels the order."""

    def pause_s(self) -> float:
        """Until the next order."""
        return self.chance.choice((1.0, 4.0, 10.0))

    def draw(self, issuer: Position) -> tuple[Drawn, float]:
        """An order of this issuer, and after how long its command ends; infinity: it waits for the answer."""
        chance, positions = self.chance, self._positions
        targets = None if chance.random() < 0.5 else Ranges.of(chance.sample(positions, min(3, len(positions))))
        order = order_of(chance.randbytes(16), LEASED, b"", targets, issuer)
        drawn = Drawn(order, chance.choice(LEASED_LEFT_S), targets, chance.choice(LEASED_ACT_S))
        return drawn, chance.choice(CANCEL_S)


class WriterDraw:
    """Draws the sinks, the bound of the spools, and when nodes write records."""

    def __init__(self, seed: int, positions: Sequence[Position]) -> None:
        self.chance = Random(f"{seed}/records")
        self.sinks = set(self.chance.sample(list(positions), min(self.chance.choice((1, 1, 2)), len(positions))))
        self.spool_bytes = self.chance.choice((8_000, 100_000))
        self.left = WRITES_MAX
        self._gap_s = self.chance.choice((0.1, 0.5, 2.0))

    def pause_s(self) -> float:
        """Until the next records."""
        return self._gap_s * self.chance.choice(GAPS_S)
