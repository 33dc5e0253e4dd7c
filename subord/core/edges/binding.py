"""What changes at a node when keys are pinned or released, or when the operators decide about identities.

Inputs are pins that came or went (core/identity/pins.py) and the operator's word; outputs are rows and edges that
end. Invariant: no row is held under another key than the one that is pinned, and a strict node has no edge to a node
without identity.
"""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.edges.subordinates import Downlink
from subord.core.events import Admission, Dropped
from subord.core.identity.identity import NO_IDENTITY, REVOKED_KEY, ROW_FOREIGN_KEY, ROW_REVOKED_KEY
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
        is_foreign = self._context.identity.is_foreign
        for known in self._downlink.slots.taken.values():
            known.unproven.discard(position)  # so the rows differ, and it reports everything again
            claim = self._roster.claims[known.position].get(position)
            if claim is not None and is_foreign(claim.change):
                self._context.note(Dropped(ROW_FOREIGN_KEY))
                self._roster.retract(known.position, position, self._context.now)
                known.refuse_row(position)
        own = self._roster.claims[OWN].get(position)
        if own is not None and own.change.missing and is_foreign(own.change):
            self._roster.retract(OWN, position, self._context.now)

    def admit(self, admission: Admission) -> bool:
        """Follow the operators. True: end the edge to the leader."""
        identity, leader = self._context.identity, self._uplink.leader
        fresh = admission.revoked - identity.revoked
        identity.strict, identity.revoked = admission.strict, admission.revoked
        if not identity.is_on:
            return False
        for position, known in list(self._downlink.slots.taken.items()):
            if (reason := self._reason_to_end(known.key, fresh)) is not None:
                self._context.note(Dropped(reason))
                self._downlink.dismiss(position)  # its next proposal is refused
        self._drop_rows(fresh)
        return leader is not None and self._reason_to_end(leader.key, fresh) is not None

    def _reason_to_end(self, key: bytes, revoked: frozenset[bytes]) -> str | None:
        if key in revoked:
            return REVOKED_KEY
        return NO_IDENTITY if not key and self._context.identity.strict else None

    def _drop_rows(self, revoked: frozenset[bytes]) -> None:
        """No subordinate lists a node with one of these keys as living."""
        for known in self._downlink.slots.taken.values() if revoked else ():
            claims = self._roster.claims[known.position]
            for position in [p for p, each in claims.items() if each.change.key in revoked]:
                if not claims[position].change.missing:
                    self._context.note(Dropped(ROW_REVOKED_KEY))
                    self._roster.retract(known.position, position, self._context.now)
                    known.refuse_row(position)
