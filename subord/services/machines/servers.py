"""What the queue's node hears of servers, and tells them: the interface between deciding and asking.

asking.py implements it by signed orders through the daemon, tests by simulated servers. Nothing is raised for what
a server or the daemon does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from subord.services.machines.model import Server
from subord.services.machines.orders import Fence, Order


class Answer(NamedTuple):
    """Of a server to a question. `server`: with all its machines, ours or not; what the batch system knows of them is
    not in it; `asked_at` is 0. `fence`: which it obeys, after this question. `now`: by its clock. `fault`: why it
    cannot tell its machines, as its libvirt does not answer; then `server` has none, and counts as not reachable.
    `faults`: why the last change of a machine came to nothing, in words, by machine; gone with the next that does
    not. `pools`: names of storage pools with their free MiB."""

    server: Server
    fence: Fence
    now: float
    fault: str = ""
    faults: Mapping[str, str] = {}
    pools: Mapping[str, int] = {}


class Result(NamedTuple):
    """Of an order. `fault`: why it was not obeyed, "": it is done or under way. `is_refused`: nothing was done, and
    nothing of it is under way; otherwise a fault leaves that open. `id`, `xml`: of a machine that leaves, of a
    Start that names its source: what the other server needs of its definition; "": the server does not have the
    machine any more."""

    fault: str = ""
    id: str = ""
    xml: str = ""
    is_refused: bool = False


class Figures(NamedTuple):
    """Since it was made. `messages`: questions and orders to servers, and their answers."""

    messages: int = 0
    bytes: int = 0


class Servers(Protocol):
    """Servers by their names, which are the addresses of their nodes."""

    async def ask(self, fence: Fence) -> tuple[Mapping[str, Answer], Mapping[str, str]]:
        """All servers: what those say that answer, and why others do not. A node that was never a server is in
        neither of them."""

    async def do(self, server: str, orders: tuple[Order, ...]) -> tuple[Result, ...] | str:
        """Orders for one server, in their sequence; a result for each, or why there is none. After that it is not
        known whether they are obeyed."""

    @property
    def figures(self) -> Figures: ...
