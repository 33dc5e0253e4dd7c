"""The base of all checkers: one invariant each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from subord.core.events import Action, Event
from subord.core.view import Position
from subord.sim.violation import Violation
from subord.sim.world.world import World


class Checker(ABC):
    """One invariant. `before` may return a token for `after`; both look only at the node that handles the event.

    The class attributes decide which events a checker is called for, so that a checker of one kind of message costs
    nothing for the others.
    """

    name = ""
    before_of: tuple[type, ...] = ()  # kinds of event for `before`
    after_of: tuple[type, ...] | None = None  # kinds of event or message for `after`; None: all
    after_actions = False  # also `after` for every event answered with actions

    def woke(self, _world: World, _position: Position) -> None:  # noqa: B027 - few override it
        """The node handles its next event later than `own_sleep_s` after its deadline: it slept. Called before
        `before`.
        """

    def looks_after(self, kind: type, *, acted: bool) -> bool:
        """Whether `after` is called for an event, or a message, of this kind."""
        return self.after_of is None or kind in self.after_of or (self.after_actions and acted)

    def before(self, _world: World, _position: Position, _event: Event) -> object:
        return None

    @abstractmethod
    def after(self, world: World, position: Position, event: Event, actions: Sequence[Action], token: object) -> None:
        """Raises Violation when the invariant does not hold."""

    def complain(self, world: World, text: str) -> NoReturn:
        raise Violation(self.name, world.now, text)
