"""S13: a node can pass on what it has accepted after any delay (docs/protocol.md, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from subord.core.events import Action, Event, Received
from subord.core.messages import Beat, Message
from subord.core.node import Node
from subord.core.view import Position
from subord.sim.checkers.checker import Checker
from subord.sim.world.world import World
from subord.wire.codec import DATAGRAM_BYTES_MAX, HEADER, WIRE

IDLE_S = (0.0, 1.0, 86_400.0)  # the delay after which a row accepted now is passed on
ROWS_EACH_MAX = 64  # rosters up to this size are checked at every change, larger ones every LOOK_EVERY
LOOK_EVERY = 64


class AcceptedRowsCanBePassedOn(Checker):
    """The beats with which a node would report its subtree are readable by its leader, now and after idle time."""

    name = "S13"
    after_of = (Beat,)

    def __init__(self) -> None:
        self._news = 0

    def after(
        self, world: World, position: Position, event: Event, _actions: Sequence[Action], _token: object
    ) -> None:
        node = world.nodes.get(position)
        if node is None or not isinstance(event, Received) or not isinstance(event.message, Beat):
            return
        if not event.message.changes:
            return
        self._news += 1
        if len(node.roster.rows) <= ROWS_EACH_MAX or self._news % LOOK_EVERY == 0:
            for idle_s in IDLE_S:
                self._demand(world, node, idle_s)

    def _demand(self, world: World, node: Node, idle_s: float) -> None:
        roster = copy(node.roster)  # reports from a copy with lists of its own, which shares only the rows
        roster.report_everything()
        while roster.unreported:
            revisions, changes, gone = roster.batch(node.context.now + idle_s)
            roster.confirm(revisions)
            beat = Beat(node.context.incarnation, 0, 0, 0, 0, changes, gone, rows=len(roster.rows))
            if not is_readable(beat):
                text = f"{node.context.position} cannot pass on after {idle_s:g} s what it has accepted: {changes}"
                self.complain(world, text)


def is_readable(message: Message) -> bool:
    """Whether the datagram of this message keeps the limit and decodes to the same message."""
    try:
        data = WIRE.encode(message)
    except (AssertionError, OverflowError):
        return False
    return len(HEADER) < len(data) <= DATAGRAM_BYTES_MAX and WIRE.decode(data) == message
