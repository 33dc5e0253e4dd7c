"""The first check of each datagram: what concerns this node, and why the rest is dropped.

Inputs are received messages; output is whether the node handles them. What it does not handle is counted by reason.
A node with other settings or another key gets a refusal. Invariant: a message that is not handled changes nothing
(docs/protocol.md, S6).
"""

from __future__ import annotations

from collections.abc import Callable

from subord.core.events import Dropped, FirstContact, Pinned, Received
from subord.core.identity.identity import WORDS
from subord.core.messages import (
    Accept,
    Announce,
    Ask,
    Goodbye,
    Message,
    No,
    Propose,
    Refuse,
    Versions,
    difference,
    positions_named,
)
from subord.core.state.context import Context
from subord.core.state.refusals import Refusals
from subord.core.view import Incarnation, Position


class Ingress:
    """The check of one node.

    `admits_stranger` takes a token for one answer to a node with other settings; `incarnation_of` is that of a
    neighbour, 0 without an edge.
    """

    def __init__(
        self,
        context: Context,
        refusals: Refusals,
        admits_stranger: Callable[[], bool],
        incarnation_of: Callable[[Position], Incarnation],
    ) -> None:
        self._context = context
        self._refusals = refusals
        self._admits_stranger = admits_stranger
        self._incarnation_of = incarnation_of
        self._was_contacted = False  # a node of the network has sent a message

    def admits(self, event: Received) -> bool:
        """Whether the node handles the message. A sender with other settings is refused; a drop is counted."""
        message, context = event.message, self._context
        if isinstance(message, Propose | Ask):
            differs = difference(message.terms, context.terms)
            if differs is not None:
                swapped = difference(context.terms, message.terms) or differs
                self._refuse(event.address, message, differs, swapped)
                return False
        if isinstance(message, Versions):
            self._refusals.note(event.address, "them", f"speaks wire versions {list(message.spoken)}, we do not")
            return False
        reason = reason_to_drop(context, event)
        if reason is None and event.source is not None and isinstance(message, Propose | Accept | Goodbye):
            reason = self._reason_to_distrust(event.source, event.address, message)
        if reason is not None:
            context.note(Dropped(reason))
        elif event.source is not None:
            self._note_contact(event.source, message)
        return reason is None

    def _reason_to_distrust(self, source: Position, address: str, message: Propose | Accept | Goodbye) -> str | None:
        """A message that its sender has not signed, or with another key than the one pinned to its address."""
        context = self._context
        is_older = message.incarnation < self._incarnation_of(source)
        reason, is_new = context.identity.judge(source, message, context.now, pins=not is_older)
        if is_new:
            context.note(Pinned(source, message.key))
        if reason not in WORDS:
            return reason
        if isinstance(message, Propose):
            self._refuse(address, message, WORDS[reason], WORDS[reason])
        else:
            self._refusals.note(address, "us", WORDS[reason])
        return reason

    def _note_contact(self, source: Position, message: Message) -> None:
        context = self._context
        context.heard_at = context.now
        context.mapping.learn(source, message)
        if not self._was_contacted:
            self._was_contacted = True
            context.note(FirstContact(source))

    def _refuse(self, address: str, message: Propose | Ask, differs: str, swapped: str) -> None:
        """`swapped`: as the other side sees it."""
        context = self._context
        self._refusals.note(address, "us", differs)
        if not self._admits_stranger():
            return  # a forged source must not turn refusals into a flood
        context.reply(Refuse(context.incarnation, message.exchange, No.TERMS, swapped, 0, (), 0))


def reason_to_drop(context: Context, event: Received) -> str | None:
    """The reason for the drop counter; None: the message concerns this node."""
    message = event.message
    if isinstance(message, Announce) and message.terms != context.terms:
        return "foreign_announcement"  # of another cluster on the same wire: not answered
    if event.source is None:
        return "outside_network"
    if event.source == context.position:
        return "own_address"
    if isinstance(message, Ask) and message.asker and not _may_delegate(context, event.source, message):
        return "false_errand"
    if any(position > context.settings.network.size for position in positions_named(message)):
        return "names_outside_network"
    return None


def _may_delegate(context: Context, delegate: Position, ask: Ask) -> bool:
    """A root ranks below its delegates, and delegates no question to itself."""
    mapping = context.mapping
    return ask.asker != context.position and mapping.rank(ask.asker, ask.standing) < mapping.rank(delegate)
