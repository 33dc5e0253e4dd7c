"""What else rides on the links of the engine: reports, the ledger, blobs; each a part with its own bodies and events.

Inputs are links, bodies and events of the engine; each goes to the part that has its number or its type. Outputs are
frames (Links.send), and actions of a part that the driver carries out. Invariant: a part sees only links that the
engine has open, and bodies of their present lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Protocol

import msgspec

from subord.core.carriage.engine.frames import number_of
from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.engine.links import Links, LinkState


class Part(Protocol):
    """One part at one node. `numbers`: of its bodies, as lanes.PART_BODIES has them. `events`: what it takes."""

    numbers: range
    events: tuple[type[PartEvent], ...]
    dropped: Counter[str]
    """Input that did not count, by a word of the part."""

    @property
    def deadline(self) -> float: ...
    @property
    def sizes(self) -> Mapping[str, int]:
        """Entries of everything that could grow, by a name of the part."""

    def join(self, links: Links) -> None:
        """The links of the engine, once, before all else."""

    def decode(self, body: msgspec.Raw) -> Any:
        """A body within all bounds. Raises Unreadable."""

    def opened(self, link: LinkState, now: float) -> None:
        """A link is open. It is repeated when the round trip is measured anew."""

    def closed(self, link: LinkState, now: float) -> None:
        """A link is no more; nothing can be sent on it."""

    def heard(self, link: LinkState, body: Any, now: float) -> None:
        """A body that `decode` has read."""

    def take(self, event: Any, now: float) -> None:
        """One of `events`."""

    def wake(self, now: float) -> None:
        """Do what is due; after every event of the engine."""


class Parts:
    """The parts of one engine."""

    def __init__(self, parts: Sequence[Part], links: Links) -> None:
        self._parts = parts
        self._links = links
        for each in parts:
            each.join(links)

    @property
    def deadline(self) -> float:
        return min([each.deadline for each in self._parts], default=inf)

    @property
    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for each in self._parts:
            sizes.update(each.sizes)
        return sizes

    @property
    def dropped(self) -> Counter[str]:
        return sum((each.dropped for each in self._parts), Counter())

    def forget_dropped(self) -> None:
        for each in self._parts:
            each.dropped.clear()

    def opened(self, link: LinkState, now: float) -> None:
        for each in self._parts:
            each.opened(link, now)

    def closed(self, link: LinkState, now: float) -> None:
        for each in self._parts:
            each.closed(link, now)

    def hear(self, link: LinkState, body: msgspec.Raw, now: float) -> bool:
        """Give a body to its part; False: it is of no part. Raises Unreadable."""
        number = number_of(body)
        for each in self._parts:
            if number in each.numbers:
                each.heard(link, each.decode(body), now)
                return True
        return False

    def take(self, event: PartEvent, now: float) -> None:
        """Give an event to the part that takes it."""
        taker = next(each for each in self._parts if isinstance(event, each.events))
        taker.take(event, now)

    def wake(self, now: float) -> None:
        for each in self._parts:
            each.wake(now)
