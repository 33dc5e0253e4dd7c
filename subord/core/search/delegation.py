"""Delegation of probes: a root lets nodes of its tree probe for it (docs/protocol.md, section 3).

Inputs are rows of the common list and errands of a root; outputs are errands and questions. With each of its own rows
a root sends further rows of the common list to up to eight nodes. They ask in its name at the pace of their own
probes, and the answers go to the root. Invariant: no node probes more often than it would alone.
"""

from __future__ import annotations

from itertools import islice

from subord.core.discovery.prober import ROW, Prober
from subord.core.edges.leader import Uplink
from subord.core.events import Dropped
from subord.core.messages import Ask, Errand
from subord.core.search.requests import REQUESTS_MAX, Requests
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.view import Position

DELEGATES_MAX = 8  # for each row of the root
INDIRECT_MAX = 4  # of these not subordinates: each may cost the root an ARP request
LOOKED_AT_MAX = 256  # rows from which these are drawn


class Delegation:
    """Both sides of one node: as the root that delegates, and as the delegate."""

    def __init__(self, context: Context, roster: Roster, requests: Requests, prober: Prober) -> None:
        self._context = context
        self._roster = roster
        self._requests = requests
        self._prober = prober

    def probe(self, targets: tuple[Position, ...], *, share: bool) -> None:
        """Ask `targets`. With `share`, and if they are a row, delegate the rows behind it."""
        for target in targets:
            if self._is_worth_asking(target):
                self._requests.ask(target, awaited=len(targets) == 1)
        if share and len(targets) > 1 and len(self._requests) <= REQUESTS_MAX // 2:
            for delegate in self._delegates():
                self._send(delegate, self._prober.row_for_delegate())

    def _delegates(self) -> list[Position]:
        """Subordinates first, then a few nodes further below, both at random."""
        roster = self._roster
        near = [position for position in roster.claims if position != OWN]
        near = self._context.chance.sample(near, min(DELEGATES_MAX, len(near)))
        step = 1 + len(roster.rows) // LOOKED_AT_MAX
        rows = islice(roster.rows, self._context.chance.randrange(step) if step > 1 else 0, None, step)
        far = [p for p in rows if p not in near and p != roster.owner and roster.is_live(p)]
        others = min(INDIRECT_MAX, DELEGATES_MAX - len(near), len(far))
        return near + self._context.chance.sample(far, others)

    def _send(self, delegate: Position, row: tuple[Position, ...]) -> None:
        targets = tuple(target for target in row if self._is_worth_asking(target))
        if targets:
            exchange = self._requests.expect(targets)
            self._context.send(
                delegate,
                Errand(self._context.incarnation, exchange, targets, self._context.mapping.rank_classes.own),
            )

    def _is_worth_asking(self, target: Position) -> bool:
        """True for a position outside the subtree that has no open question."""
        return not self._roster.is_live(target) and not self._requests.awaits(target)

    def run(self, source: Position, errand: Errand, uplink: Uplink) -> None:
        """Ask the targets in the name of the root, within the pace of the node's own probes."""
        context, leader = self._context, uplink.leader
        if leader is None or source not in uplink.path[:1]:
            context.note(Dropped("unexpected"))
        elif source == leader.position and errand.incarnation != leader.incarnation:
            context.note(Dropped("older_incarnation"))
        elif not self._prober.has_room_for_row():
            context.note(Dropped("errand_too_soon"))
        else:
            self._prober.note_probes(ROW)
            for number, target in enumerate(errand.targets[:ROW]):
                if target != context.position and target not in errand.targets[:number]:
                    exchange = errand.exchange + number
                    ask = Ask(errand.incarnation, exchange, context.terms, source, errand.standing)
                    context.send(target, ask)
