"""What every referee of the simulator is: one invariant, and how it says that it was broken.

Intuition: a whistle, and a number on the shirt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from subord.core.events import Action, Event
from subord.core.view import Position
from subord.sim.world import World


class Violation(Exception):  # noqa: N818 - the name says what it is
    """An invariant does not hold; `name` is its number in docs/protocol.md."""

    def __init__(self, name: str, at: float, text: str) -> None:
        super().__init__(f"{name} at {at:.3f} s: {text}")
        self.name, self.at, self.text = name, at, text


class Checker(ABC):
    """One invariant. `before` may remember something for `after`; both see only the node that was touched."""

    name = ""

    def before(self, _world: World, _position: Position, _event: Event) -> object:
        return None

    @abstractmethod
    def after(self, world: World, position: Position, event: Event, actions: Sequence[Action], token: object) -> None:
        """Raises Violation when the invariant does not hold."""

    def complain(self, world: World, text: str) -> NoReturn:
        raise Violation(self.name, world.now, text)
