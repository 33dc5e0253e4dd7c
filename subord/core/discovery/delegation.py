"""A tree that looks for other trees knocks with many hands (protocol section 3).

Intuition: the mayor of a village that has lost touch with the country does not walk from door to door alone. He
hands out slips with a few addresses each; whoever runs an errand rings there and says who sent him, and the answer
goes to the mayor. Nobody walks further than one alone would have, and the list is through in a fraction of the time.
"""

from __future__ import annotations

from subord.core.discovery.prober import ROW, Prober
from subord.core.events import Dropped
from subord.core.messages import Ask, Errand
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.state.view import Position
from subord.core.uplink.leader import Uplink
from subord.core.uplink.requests import REQUESTS_MAX, Requests

DELEGATES_MAX = 8  # at a time
STRANGERS_MAX = 4  # among them: each may cost the root an ARP request


class Delegation:
    """Both ends of an errand: the root that sends, the member of its tree that runs."""

    def __init__(self, context: Context, roster: Roster, requests: Requests, prober: Prober) -> None:
        self._context = context
        self._roster = roster
        self._requests = requests
        self._prober = prober

    def probe(self, targets: tuple[Position, ...], *, share: bool) -> None:
        """Ask at these; `share`: and send others to the rows behind, if these are a row."""
        for target in targets:
            if self._is_worth_asking(target):
                self._requests.ask(target, awaited=len(targets) == 1)
        if share and len(targets) > 1 and len(self._requests) <= REQUESTS_MAX // 2:
            for delegate in self._delegates():
                self._send(delegate, self._prober.row_for_another())

    def _delegates(self) -> list[Position]:
        """Our subordinates, and a few of those below them."""
        roster = self._roster
        near = [position for position in roster.claims if position != OWN]
        near = self._context.chance.sample(near, min(DELEGATES_MAX, len(near)))
        far = [p for p in roster.rows if p not in near and p != roster.owner and roster.is_live(p)]
        others = min(STRANGERS_MAX, DELEGATES_MAX - len(near), len(far))
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
        """Neither one of ours, nor asked just now."""
        return not self._roster.is_live(target) and not self._requests.awaits(target)

    def run(self, source: Position, errand: Errand, uplink: Uplink) -> None:
        """Knock for the root of our tree, at no other pace than for ourselves."""
        context, leader = self._context, uplink.leader
        if leader is None or source not in uplink.path[:1]:
            context.note(Dropped("unexpected"))
        elif source == leader.position and errand.incarnation != leader.incarnation:
            context.note(Dropped("older_incarnation"))
        elif not self._prober.may_run():
            context.note(Dropped("errand_too_soon"))
        else:
            self._prober.note_probes(ROW)
            for number, target in enumerate(errand.targets[:ROW]):
                if target != context.position and target not in errand.targets[:number]:
                    exchange = errand.exchange + number
                    ask = Ask(errand.incarnation, exchange, context.terms, source, errand.standing)
                    context.send(target, ask)
