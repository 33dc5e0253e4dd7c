"""The orders of one edge of the tree, at one end of it.

Inputs are what the first frame of the edge says, and the frames of orders on it; outputs are calls of the driver.
The subordinate says at the opening whether it knows orders, the leader shows it by its greeting. Invariant: what has
begun is ended once, when the edge ends.
"""

from __future__ import annotations

from typing import Final

import trio

from subord.core.carriage.engine.interface import Role
from subord.runtime.frames import Sender
from subord.runtime.orders.driver import OrderDriver
from subord.runtime.orders.link import OrderLink

GREETING_S_MAX: Final = 5.0
"""Until a leader that sends no greeting counts as one of an older release."""


class EdgeOrders:
    """`role`: of the other end."""

    def __init__(self, driver: OrderDriver, sender: Sender, role: Role, nursery: trio.Nursery) -> None:
        self._driver = driver
        self._sender = sender
        self._role = role
        self._nursery = nursery
        self._link: OrderLink | None = None
        self._is_older = False

    def begin(self, *, knows_orders: bool | None) -> None:
        """The edge is open. `knows_orders` None: the leader is going to show it."""
        if knows_orders is None:
            self._nursery.start_soon(self._wait_for_greeting)
        elif knows_orders:
            self._open()
        else:
            self._be_older()

    async def _wait_for_greeting(self) -> None:
        await trio.sleep(GREETING_S_MAX)
        if self._link is None:
            self._be_older()

    def _open(self) -> OrderLink:
        if self._is_older:
            self._driver.end(self)
            self._is_older = False
        self._link = self._driver.begin(self._sender, self._role, self._nursery)
        return self._link

    def _be_older(self) -> None:
        self._is_older = True
        self._driver.begin_older(self, self._sender.peer, self._role)

    def receive(self, data: bytes) -> bool:
        """Take a frame of orders; False: it is malformed."""
        return self._driver.receive(self._link or self._open(), data)

    def end(self) -> None:
        """The edge has ended."""
        if self._link is not None:
            self._driver.end(self._link.name)
        elif self._is_older:
            self._driver.end(self)
