"""A tree that looks for other trees knocks with many hands (protocol section 3).

Intuition: the mayor of a village that has lost touch with the country does not walk from door to door alone. He
hands out slips with a few addresses each; whoever runs an errand rings there and says who sent him, and the answer
goes to the mayor. Nobody walks further than one alone would have, and the list is through in a fraction of the time.
"""

from __future__ import annotations

from subord.core.discovery.prober import ROW, Walk
from subord.core.events import Dropped
from subord.core.messages import Ask, Errand
from subord.core.state.context import Context
from subord.core.state.roster import OWN, Roster
from subord.core.state.view import Position
from subord.core.uplink.leader import Following
from subord.core.uplink.requests import QUESTIONS_MAX, Questions

RUNNERS_MAX = 8  # at a time
STRANGERS_MAX = 4  # among them: each may cost the root an ARP request


class Errands:
    """Both ends of an errand: the root that sends, the member of its tree that runs."""

    def __init__(self, context: Context, roster: Roster, questions: Questions, walk: Walk) -> None:
        self._context = context
        self._roster = roster
        self._questions = questions
        self._walk = walk

    def knock(self, doors: tuple[Position, ...], *, share: bool) -> None:
        """Ask at these; `share`: and send others to the rows behind, if these are a row."""
        for door in doors:
            if self._is_worth_asking(door):
                self._questions.ask(door, awaited=len(doors) == 1)
        if share and len(doors) > 1 and len(self._questions) <= QUESTIONS_MAX // 2:
            for runner in self._runners():
                self._send(runner, self._walk.row_for_another())

    def _runners(self) -> list[Position]:
        """Our subordinates, and a few of those below them."""
        roster = self._roster
        near = [position for position in roster.claims if position != OWN]
        near = self._context.chance.sample(near, min(RUNNERS_MAX, len(near)))
        far = [p for p in roster.rows if p not in near and p != roster.owner and roster.is_live(p)]
        others = min(STRANGERS_MAX, RUNNERS_MAX - len(near), len(far))
        return near + self._context.chance.sample(far, others)

    def _send(self, runner: Position, row: tuple[Position, ...]) -> None:
        doors = tuple(door for door in row if self._is_worth_asking(door))
        if doors:
            exchange = self._questions.expect(doors)
            self._context.send(
                runner, Errand(self._context.incarnation, exchange, doors, self._context.mapping.standings.own)
            )

    def _is_worth_asking(self, door: Position) -> bool:
        """Neither one of ours, nor asked just now."""
        return not self._roster.is_live(door) and not self._questions.awaits(door)

    def run(self, source: Position, errand: Errand, following: Following) -> None:
        """Knock for the root of our tree, at no other pace than for ourselves."""
        context, leader = self._context, following.leader
        if leader is None or source not in following.path[:1]:
            context.note(Dropped("unexpected"))
        elif source == leader.position and errand.incarnation != leader.incarnation:
            context.note(Dropped("older_incarnation"))
        elif not self._walk.may_run():
            context.note(Dropped("errand_too_soon"))
        else:
            self._walk.note_knocks(ROW)
            for number, door in enumerate(errand.doors[:ROW]):
                if door != context.position and door not in errand.doors[:number]:
                    exchange = errand.exchange + number
                    ask = Ask(errand.incarnation, exchange, context.terms, source, errand.standing)
                    context.send(door, ask)
