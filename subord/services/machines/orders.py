"""What is done with machines, and the order that tells it to the agent of a server.

`Open` and `Close` are done by the batch system, all others by the agent of the server that is named. An order is
given by one fence: the version of the plan and the life of the deciding process. A server obeys the highest fence
that it has heard of, so a process that was replaced, or comes back with an old picture, is not obeyed any more.
Invariants: an order is obeyed before it expires or never; of one machine, orders are obeyed in their sequence.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Open(NamedTuple):
    """Jobs may start there. `window_ends`: 0: without an end."""

    machine: str
    window_ends: float = 0.0


class Close(NamedTuple):
    """No more jobs start there; those that run go on."""

    machine: str


class Start(NamedTuple):
    """`source`: the server that gives the machine to `server` before; "": it is there."""

    machine: str
    server: str
    source: str = ""


class Clone(NamedTuple):
    """A new machine, which is started when its image is copied."""

    machine: str
    type: str
    server: str


class Stop(NamedTuple):
    machine: str
    server: str


class Delete(NamedTuple):
    """With its image."""

    machine: str
    server: str


class Forget(NamedTuple):
    """The server drops its record of a machine that it has given away, and that has arrived."""

    machine: str
    server: str


class Arrive(NamedTuple):
    """A step of a move: `server` takes the definition that `source` has given. It is not started there yet."""

    machine: str
    server: str
    source: str
    id: str
    xml: str


class Settle(NamedTuple):
    """The last step of a move: `source` has forgotten the machine, so it is of `server`, which starts it."""

    machine: str
    server: str
    source: str


class Stay(NamedTuple):
    """Takes back a move: `target` has refused the machine, and has none of this name."""

    machine: str
    server: str
    target: str


Action: TypeAlias = Open | Close | Start | Clone | Stop | Delete | Forget | Stay
"""What is decided."""
Step: TypeAlias = Arrive | Settle
"""What a Start with a source takes beside Start and Forget: the queue's node carries the definition."""


class Fence(NamedTuple):
    """`version`: of the plan. `life`: of the deciding process: above that of every earlier one, as the time of its
    start in milliseconds is. The higher fence is obeyed."""

    version: int
    life: int


class Order(NamedTuple):
    """`number`: grows with each order of a life. `expires`: by the clock of the server, whose difference from that
    of the deciding node is known from its answers."""

    fence: Fence
    number: int
    expires: float
    action: Action | Step


class Pending(NamedTuple):
    """An action whose effect is not seen yet. `until`: it is not waited for any longer. `type`: of a machine that
    starts."""

    action: Action
    given_at: float
    until: float
    type: str = ""


def server_of(action: Action | Step) -> str:
    """Whose agent gets the order; "": the batch system."""
    if isinstance(action, Open | Close):
        return ""
    return (action.source or action.server) if isinstance(action, Start) else action.server
