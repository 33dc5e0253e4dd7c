"""What a world tells others: every event to a watcher, and ends of processes and streams to what is carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from subord.core.events import Action, Event
from subord.core.view import Position

if TYPE_CHECKING:
    from subord.sim.world.world import World


class Watcher(Protocol):
    """Called before and after each event; the result of `before` is passed to `after_event`."""

    def before(self, world: World, position: Position, event: Event) -> Any: ...
    def after_event(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], token: Any
    ) -> None: ...


class Carried:
    """What is carried beside the tree (services/orders.py); this one: nothing. Positions are of nodes whose process
    or stream begins or ends."""

    is_there = False
    """Whether anything is carried: then an end finds by its digest that the host of the other is gone."""

    def begin(self, position: Position) -> None:
        """A process starts."""

    def end(self, position: Position) -> None:
        """A process has ended; `closed` follows for each of its streams."""

    def lose(self, position: Position) -> None:
        """Another host, with an empty disk, has the address from now on."""

    def resumed(self, position: Position) -> None:
        """A stopped process continues, or its clock has jumped."""

    def opened(self, position: Position, leader: Position) -> None:
        """A stream to the leader opens."""

    def closed(self, source: Position, target: Position, *, is_told: bool) -> None:
        """`source` closes a stream; `is_told` False: its host is gone, so `target` is not told."""
