"""Nodes that were alive lately: candidates for the next search, and kept on disk for the next start.

Inputs are nodes that answered or were named, and what an earlier process saved. The latest stands first. Both lists
are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.events import Known
from subord.core.state.context import Context
from subord.core.view import Position

PEERS_MAX = 16
OTHERS_MAX = 8


class PeerCache(list[Position]):
    """At most PEERS_MAX positions that may lead the node, latest first.

    `others`, at most OTHERS_MAX, may not lead it but know their root, which may. A root asks them.
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self.others: list[Position] = []
        self.remembered = Known(())

    def remember(self, known: Known) -> None:
        """Take over what an earlier process kept on disk, before the start."""
        self.remembered = known
        self.know((*([] if known.leader is None else [known.leader]), *known.positions))

    def know(self, positions: Iterable[Position]) -> None:
        """Note positions that may be alive."""
        mapping, own = self._context.mapping, self._context.position
        met = dict.fromkeys((*positions, *self, *self.others))
        self[:] = [p for p in met if mapping.might_lead(p)][:PEERS_MAX]
        self.others = [p for p in met if mapping.may_lead(own, p)][:OTHERS_MAX]
