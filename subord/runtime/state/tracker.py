"""Keeps the memory of a daemon up to date: the history, the register of members, and the documents of operators.

In: notices of the core, and frames of neighbours, whose documents `judge` accepts or refuses; it is also given the
neighbour. Out: calls of `Membership.look`, soon after a change, at most one in LOOKS_S_MIN, so that many changes at
once cost one comparison; calls of `wake`, and of `on_documents` with documents that are new here. memory.py saves
what changed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final

import trio

from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Verdict
from subord.core.events import Notice
from subord.core.members.history import History
from subord.core.members.membership import LOOKS_S_MIN, Judged
from subord.core.node import Node
from subord.runtime.state.memory import Memory

READERS_LOOK_S_MIN: Final = 0.25
"""Between two looks, also by request."""


class Tracker:
    """The tracker of one daemon. `look` may be called at any time and is cheap while nothing has changed."""

    def __init__(
        self,
        node: Node,
        memory: Memory,
        judge: Callable[[Document, str], Awaitable[Verdict]],
        now: Callable[[], float] = trio.current_time,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.memory = memory
        self.membership = memory.membership
        self.wake: Callable[[], None] = lambda: None
        """Called when there may be something to send."""
        self.on_documents: list[Callable[[list[Document]], None]] = []
        self.on_pins: Callable[[], None] = lambda: None
        """Called when keys of other nodes came or went."""
        self._judge = judge
        self._node = node
        self._now = now
        self._wall = wall
        self._due = trio.Event()
        self._looked_at = -inf

    @property
    def history(self) -> History:
        return self.membership.history

    @property
    def wall_ms(self) -> int:
        """The time of this host, in ms since 1970."""
        return int(self._wall() * 1000)

    def observe(self, notice: Notice) -> None:
        """Note a loss above or a goodbye, and schedule a look if the notice may have changed the roster."""
        if self.membership.observe(notice, self._now(), self._wall()):
            self._due.set()
        self._tell()

    def leave(self) -> None:
        """This node says goodbye."""
        self.membership.left(self._node.context.position, self._wall())
        self._tell()

    async def receive(self, edge: object, data: bytes, peer: str) -> bool:
        """Take a frame of the neighbour at the address `peer`; False: it is malformed."""
        received = self.membership.exchange.read(edge, data, self._now(), self.wall_ms)
        if received is None:
            return False
        judged = [(each, await self._judge(each, peer)) for each in self.membership.to_judge(received)]
        self._took(self.membership.take(edge, received, judged))
        return True

    def take(self, judged: list[Judged]) -> None:
        """Take documents from the control socket."""
        self._took(self.membership.take_documents(judged))

    def spread(self, name: str, items: list[Any]) -> None:
        """Take items of this node itself."""
        self.membership.exchange.spread(name, items)
        self._tell()

    def _took(self, documents: list[Document]) -> None:
        if documents:
            self.membership.release(self.wall_ms)
        for tell in self.on_documents if documents else ():
            tell(documents)
        self._tell()
        self._tell_of_pins()

    def look(self) -> None:
        """Bring the history and the register up to date."""
        now = self._now()
        if now - self._looked_at >= READERS_LOOK_S_MIN and self.membership.look_at(self._node, now, self._wall()):
            self._looked_at = now
            self._tell()
            self._tell_of_pins()

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that keep the memory, and save it."""
        nursery.start_soon(self.keep_forever)
        nursery.start_soon(self.memory.save_forever)

    async def keep_forever(self) -> None:
        """Look after each change, and when the membership asks for it."""
        while True:
            with trio.move_on_at(self.membership.deadline):
                await self._due.wait()
            self._due = trio.Event()
            await trio.sleep(LOOKS_S_MIN)
            self.look()

    def _tell_of_pins(self) -> None:
        if self.membership.pins is not None and self.membership.pins.fresh:
            self.on_pins()

    def _tell(self) -> None:
        """Notify the readers of a change."""
        exchange = self.membership.exchange
        if exchange.changed:
            self._due.set()  # the register may no longer agree with the roster
            self.memory.change()
            exchange.changed = False
            self.wake()
