"""Who was alive lately: worth asking when we have no leader, and worth remembering on disk.

Intuition: an address book with few pages. Whoever was met last stands first, and the oldest entry makes room.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.events import Known
from subord.core.state.context import Context
from subord.core.state.view import Position

PEERS_MAX = 16
OTHERS_MAX = 8


class PeerCache(list[Position]):
    """At most PEERS_MAX positions that may lead us, latest first.

    `others` may not, but know their root, which may: who is root asks them, too. At most OTHERS_MAX.
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self.others: list[Position] = []
        self.remembered = Known(())

    def remember(self, known: Known) -> None:
        """From an earlier life, before we start."""
        self.remembered = known
        self.know((*([] if known.leader is None else [known.leader]), *known.positions))

    def know(self, positions: Iterable[Position]) -> None:
        """These may be alive."""
        mapping, own = self._context.mapping, self._context.position
        met = dict.fromkeys((*positions, *self, *self.others))
        self[:] = [p for p in met if mapping.might_lead(p)][:PEERS_MAX]
        self.others = [p for p in met if mapping.may_lead(own, p)][:OTHERS_MAX]
