"""What changes at a node when keys are pinned or released, or when the cluster becomes strict.

Input are pins that came or went (core/identity/pins.py) and the operator's word; output are rows and edges that end.
Invariant: no row is held under another key than the one that is pinned, and a strict node has no edge to a node
without identity.
"""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.edges.subordinates import Downlink
from subord.core.events import Dropped
from subord.core.identity.identity import NO_IDENTITY, ROW_FOREIGN_KEY
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.view import Position


class Binding:
    def __init__(self, context: Context, roster: Roster, uplink: Uplink, downlink: Downlink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self._downlink = downlink

    def follow(self) -> None:
        """After any event: judge the rows again whose key was pinned or released meanwhile."""
        pins = self._context.identity.pins
        while pins.fresh:
            self._judge_again(pins.fresh.pop())

    def _judge_again(self, position: Position) -> None:
        pinned = self._context.identity.pins.key_of(position)
        for known in self._downlink.slots.taken.values():
            known.unproven.discard(position)  # so the rows differ, and it reports everything again
            claim = self._roster.claims[known.position].get(position)
            if claim is not None and claim.change.key and pinned and claim.change.key != pinned:
                self._context.note(Dropped(ROW_FOREIGN_KEY))
                self._roster.retract(known.position, position, self._context.now)
                known.refuse_row(position)
        own = self._roster.claims[OWN].get(position)
        if own is not None and own.change.missing and pinned and own.change.key not in (b"", pinned):
            self._roster.retract(OWN, position, self._context.now)

    def become_strict(self, *, on: bool) -> bool:
        """End the edges to subordinates without identity: their next proposals are refused. True: end that to the
        leader, which has none."""
        identity, leader = self._context.identity, self._uplink.leader
        identity.strict = on
        if not on or not identity.is_on:
            return False
        for position in [p for p, known in self._downlink.slots.taken.items() if not known.key]:
            self._context.note(Dropped(NO_IDENTITY))
            self._downlink.dismiss(position)
        return leader is not None and not leader.key
