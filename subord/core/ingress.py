"""Which datagrams concern us at all, and why the others do not.

Intuition: the porter. He reads the envelope, and sends away whoever belongs to another house.
"""

from __future__ import annotations

from collections.abc import Callable

from subord.core.events import Dropped, FirstContact, Received
from subord.core.messages import (
    Announce,
    Ask,
    Message,
    No,
    Propose,
    Refuse,
    Versions,
    difference,
    positions_named,
)
from subord.core.placement.rank_classes import learn
from subord.core.state.context import Context
from subord.core.state.refusals import Refusals
from subord.core.state.view import Position


class Ingress:
    """The porter of one node. `admits_stranger` says whether one more answer may be given this second."""

    def __init__(self, context: Context, refusals: Refusals, admits_stranger: Callable[[], bool]) -> None:
        self._context = context
        self._refusals = refusals
        self._admits_stranger = admits_stranger
        self._met = False  # somebody has spoken to us

    def admits(self, event: Received) -> bool:
        """Does it concern us? Whoever has other settings is told so; what else is not for us is counted."""
        message, context = event.message, self._context
        if isinstance(message, Propose | Ask):
            differs = difference(message.terms, context.terms)
            if differs is not None:
                self._refuse(event.address, message, differs)
                return False
        if isinstance(message, Versions):
            self._refusals.note(event.address, "them", f"speaks wire versions {list(message.spoken)}, we do not")
            return False
        reason = reason_to_drop(context, event)
        if reason is not None:
            context.note(Dropped(reason))
        elif event.source is not None:
            self._note_contact(event.source, message)
        return reason is None

    def _note_contact(self, source: Position, message: Message) -> None:
        context = self._context
        context.heard_at = context.now
        if context.mapping.by_performance:
            learn(context.mapping.rank_classes, source, message)
        if not self._met:
            self._met = True
            context.note(FirstContact(source))

    def _refuse(self, address: str, message: Propose | Ask, differs: str) -> None:
        context = self._context
        self._refusals.note(address, "us", differs)
        if not self._admits_stranger():
            return  # nobody may use us as an echo
        swapped = difference(context.terms, message.terms) or differs
        context.reply(Refuse(context.incarnation, message.exchange, No.TERMS, swapped, 0, (), 0))


def reason_to_drop(context: Context, event: Received) -> str | None:
    """A word for the counter; None: it concerns us."""
    message = event.message
    if isinstance(message, Announce) and message.terms != context.terms:
        return "foreign_announcement"  # another cluster shares the wire: no answer
    if event.source is None:
        return "outside_network"
    if event.source == context.position:
        return "own_address"
    if isinstance(message, Ask) and message.asker and not _may_run_for(context, event.source, message):
        return "false_errand"
    if any(position > context.settings.network.size for position in positions_named(message)):
        return "names_outside_network"
    return None


def _may_run_for(context: Context, delegate: Position, ask: Ask) -> bool:
    """A root ranks below all whom it may send; and it never sends anybody to itself."""
    mapping = context.mapping
    return ask.asker != context.position and mapping.rank(ask.asker, ask.standing) < mapping.rank(delegate)
