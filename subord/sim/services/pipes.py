"""Streams of a simulated cluster that carry frames: in order, late, and never once the receiver's life is over.

Inputs are events for the far end of a stream; output is a call of `deliver` for each. What is sent waits while the
receiver is stopped, or the network is closed. Invariant: the far end sees the end of a stream after all that was sent
before it; of a host that vanished, after USER_TIMEOUT_S.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import Arrived, Closed, Event, Link
from subord.core.view import Position
from subord.sim.world.links import DELAY_S, SITE_DELAY_S
from subord.sim.world.world import World

USER_TIMEOUT_S: Final = 30.0
AGAIN_S: Final = 0.2  # until a kernel sends again what was lost, or found the network closed

Deliver = Callable[["End", Event], None]


class End:
    """One end of a stream, of one life of a node. `engine` None: the node knows no orders."""

    def __init__(self, position: Position, engine: Engine | None, link: Link) -> None:
        self.position = position
        self.engine = engine
        self.link = link
        self.other: End | None = None
        """None: the stream is not open yet."""
        self.early: list[bytes] = []
        """What was sent before it was open."""
        self.is_open = True
        self.arriving: deque[tuple[float, Event]] = deque()
        self.last_at = 0.0
        self.is_forced = False
        """Whether its kernel has given the far end up."""


class Pipes:
    """All streams of one world. `is_alive`: whether the life of an end goes on."""

    def __init__(self, world: World, chance: Random, *, deliver: Deliver, is_alive: Callable[[End], bool]) -> None:
        self._world = world
        self._chance = chance
        self._deliver = deliver
        self._is_alive = is_alive

    def join(self, one: End, other: End) -> None:
        """A stream between two ends."""
        one.other, other.other = other, one

    def delay_s(self, one: Position, other: Position) -> float:
        """One way, of one frame; a lost one is sent again."""
        weather, chance = self._world.weather, self._chance
        sites = abs(weather.site_of.get(one, 0) - weather.site_of.get(other, 0))
        delay_s = DELAY_S[0] + (DELAY_S[1] - DELAY_S[0]) * chance.random() + SITE_DELAY_S * sites
        if weather.disturbs:
            delay_s += weather.delay_s + weather.jitter_s * chance.random()
            delay_s += AGAIN_S * (chance.random() < weather.loss)
        return delay_s

    def round_trip_s(self, one: Position, other: Position) -> float:
        """As a kernel has measured it."""
        weather = self._world.weather
        sites = abs(weather.site_of.get(one, 0) - weather.site_of.get(other, 0))
        return 2 * (DELAY_S[1] + SITE_DELAY_S * sites + weather.delay_s + weather.jitter_s / 2)

    def send(self, source: End, event: Event) -> None:
        """Send to the far end."""
        if source.is_open and source.other is not None:
            self.put(source.other, event, self.delay_s(source.position, source.other.position))

    def put(self, end: End, event: Event, delay_s: float) -> None:
        """An event for an end, after all before it."""
        at = max(end.last_at, self._world.now + delay_s)
        end.last_at = at
        end.arriving.append((at, event))
        self._world.after(at - self._world.now, self.pump, end)

    def close(self, source: End, *, is_told: bool) -> None:
        """This end closes, or its process has ended; `is_told` False: with its host."""
        if not source.is_open:
            return
        source.is_open = False
        other = source.other
        if other is None:
            return
        if is_told:
            self.put(other, Closed(other.link), self.delay_s(source.position, other.position))
        self._world.after(USER_TIMEOUT_S, self._give_up, other)

    def _give_up(self, end: End) -> None:
        """The kernel of the far end has got no acknowledgement for so long."""
        end.is_forced = True
        self.put(end, Closed(end.link), 0.0)

    def pump(self, end: End) -> None:
        """Deliver what has arrived."""
        world = self._world
        while end.arriving and end.arriving[0][0] <= world.now + 1e-9:
            if not end.is_open or not self._is_alive(end):
                end.arriving.clear()
                return
            if end.position in world.paused:
                return
            event = end.arriving[0][1]
            if isinstance(event, Arrived | Closed) and not self._reaches(end):
                world.after(AGAIN_S, self.pump, end)
                return
            end.arriving.popleft()
            if isinstance(event, Closed):
                end.is_open = False
                self._close_back(end)
            self._deliver(end, event)

    def _reaches(self, end: End) -> bool:
        """Whether the network lets through what the far end sent."""
        weather, other = self._world.weather, end.other
        return end.is_forced or other is None or weather.is_open(other.position, end.position, stream=True)

    def _close_back(self, end: End) -> None:
        """An end that learns of the far end's end closes, too."""
        other = end.other
        if other is not None and other.is_open and self._is_alive(other):
            self.put(other, Closed(other.link), self.delay_s(end.position, other.position))
