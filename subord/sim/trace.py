"""Prints a run: one line per message or notice that is not routine, such as `12.345 s 5 -> 2 propose home`."""

from __future__ import annotations

from collections.abc import Callable

from subord.core.events import Notice
from subord.core.messages import Message
from subord.core.view import Position
from subord.sim import words
from subord.sim.world.world import World


class Trace:
    """Passes a line of text to `write` for each event of `world`."""

    def __init__(self, world: World, write: Callable[[str], None]) -> None:
        self._world = world
        self._write = write
        self._notice = world.on_notice
        world.on_message = self._on_message
        world.on_notice = self._on_notice

    def line(self, text: str) -> None:
        """Write a line with the present time."""
        self._write(f"{self._world.now:10.4f} s  {text}")

    def _on_message(self, source: Position, target: Position, message: Message, copies: int) -> None:
        text = words.of_message(message)
        if text or not copies:
            fate = {0: "  (lost)", 1: ""}.get(copies, f"  (arrives {copies} times)")
            self.line(f"{source} -> {target}  {text or type(message).__name__.lower()}{fate}")

    def _on_notice(self, position: Position, notice: Notice) -> None:
        text = words.of_notice(notice)
        if text:
            self.line(f"{position}: {text}")
        self._notice(position, notice)
