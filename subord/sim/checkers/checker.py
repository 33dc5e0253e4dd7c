"""What every referee of the simulator is: one invariant, and how it says that it was broken.

Intuition: a whistle, and a number on the shirt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from subord.core.events import Action, Event
from subord.core.state.view import Position
from subord.sim.world.world import World


class Violation(Exception):  # noqa: N818 - the name says what it is
    """An invariant does not hold; `name` is its number in docs/protocol.md."""

    def __init__(self, name: str, at: float, text: str) -> None:
        super().__init__(f"{name} at {at:.3f} s: {text}")
        self.name, self.at, self.text = name, at, text


class Checker(ABC):
    """One invariant. `before` may remember something for `after`; both see only the node that was touched.

    What a checker says of itself here decides which events it is shown: one that judges nothing but answers to a
    message is not called for all the others.
    """

    name = ""
    before_of: tuple[type, ...] = ()  # kinds of event that `before` looks at
    after_of: tuple[type, ...] | None = None  # kinds of event or message that `after` looks at; None: all
    after_actions = False  # besides those `after` looks at every event that the node answers with actions

    def woke(self, _world: World, _position: Position) -> None:  # noqa: B027 - few look at it
        """The node handles its next event later than `own_sleep_s` after its deadline: it slept. Before `before`."""

    def looks_after(self, kind: type, *, acted: bool) -> bool:
        """Is `after` to be called for an event, or a message, of this kind?"""
        return self.after_of is None or kind in self.after_of or (self.after_actions and acted)

    def before(self, _world: World, _position: Position, _event: Event) -> object:
        return None

    @abstractmethod
    def after(self, world: World, position: Position, event: Event, actions: Sequence[Action], token: object) -> None:
        """Raises Violation when the invariant does not hold."""

    def complain(self, world: World, text: str) -> NoReturn:
        raise Violation(self.name, world.now, text)
