"""Which datagrams concern us at all, and why the others do not.

Intuition: the porter. He reads the envelope, and sends away whoever belongs to another house.
"""

from __future__ import annotations

from subord.core.context import Context
from subord.core.events import Received
from subord.core.messages import Announce, Ask, positions_named
from subord.core.view import Position


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


def _may_run_for(context: Context, runner: Position, ask: Ask) -> bool:
    """A root ranks below all whom it may send; and it never sends anybody to itself."""
    mapping = context.mapping
    return ask.asker != context.position and mapping.rank(ask.asker, ask.standing) < mapping.rank(runner)
