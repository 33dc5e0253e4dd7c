"""What goes into the engine of orders and what comes out: events, actions, and the answer to an issuer.

A link is one open stream to another node: an edge of the tree, or a stream of its own. The driver names incoming
links by any hashable value; the engine names those that it opens (`CallDirect`). Frames of one lane of a link arrive
in order.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import msgspec

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import YOUNG_ROOT
from subord.core.carriage.engine.frames import Order, Tag
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.view import Incarnation, Position

Link = Hashable


class Role(enum.Enum):
    """The other end of a link."""

    LEADER = "leader"
    SUBORDINATE = "subordinate"
    CALLER = "caller"  # it opened a stream of its own to ask directly
    CALLED = "called"  # this node opened the stream (CallDirect)


class Lane(enum.IntEnum):
    """The kinds of frames on a link, the most urgent first."""

    CONTROL = 0
    ORDER = 1
    REPORT = 2
    LEDGER = 3
    BLOB = 4


class Outcome(NamedTuple):
    """What acting has given: a result, or the cause why there is none (`cause` is not empty)."""

    result: bytes = b""
    cause: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an order. At its end, told and missing nodes are the targets, and none is both.

    `targets`: of an order for all members, those that a coordinator has found. `is_resolved` False: there may be
    others; `lacks` says why (causes.py). YOUNG_ROOT: the coordinator has only just become root; else no coordinator
    answered, and the targets are those that the issuer itself knows.
    """

    targets: Ranges
    groups: tuple[tuple[bytes, Ranges], ...] = ()
    others: Ranges = NONE
    """Nodes that gave results which were left out, for their size or their number."""
    missing: tuple[tuple[str, Ranges], ...] = ()
    is_resolved: bool = True
    lacks: str = ""
    attempts: int = 1

    @property
    def told(self) -> int:
        """The number of nodes with a result."""
        return sum(len(ranges) for _, ranges in self.groups) + len(self.others)

    @property
    def is_coordinated(self) -> bool:
        """Whether a coordinator has found the targets."""
        return self.is_resolved or self.lacks == YOUNG_ROOT

    @property
    def is_whole(self) -> bool:
        return self.is_resolved and not self.missing


def unasked(cause: str, targets: Ranges | None, known: Ranges = NONE) -> Answer:
    """The answer to an order that is not given, to all targets with one cause. `known`: of all members, if it is for
    all (`targets` None)."""
    nodes = known if targets is None else targets
    lacks = cause if targets is None else ""
    return Answer(targets=nodes, missing=((cause, nodes),) if nodes else (), is_resolved=not lacks, lacks=lacks)


class Overview(NamedTuple):
    """What an operator may see of an order at a node; of a passing one the numbers are those of the node's own part.

    `is_own`: a command of this node gave it. `asked` 0: the targets are not known yet. `missing`: with a cause so
    far. `age_s`: since it came to this node.
    """

    service: str
    issuer: Position
    is_own: bool
    asked: int
    told: int
    missing: int
    age_s: float
    left_s: float


# -- events -------------------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """A link has opened. Of two edges with one role and peer the newer counts. For Role.CALLED the event is optional:
    it tells the incarnation and round trip. It may be repeated when the round trip is measured anew. `knows_orders`
    False: the peer runs an older release."""

    link: Link
    peer: Position
    role: Role
    incarnation: Incarnation = 0
    knows_orders: bool = True
    round_trip_s: float = 0.0
    """As the kernel or the handshake measured it; 0: unknown."""


class Closed(NamedTuple):
    """A link has ended, or could not be opened. `cause`: a word of causes.py, for links of CallDirect: DOWN when the
    host refused or the name is free, SILENT when nothing came, OLDER when the peer does not know orders."""

    link: Link
    cause: str = ""


class Arrived(NamedTuple):
    """A frame (frames.is_frame) has come. Give the credit back (lanes.py) when the event is handled."""

    link: Link
    data: bytes


class Issue(NamedTuple):
    """A command of this node gives an order, to be answered within `left_s`. Answered by Progress and Finished."""

    order: Order
    left_s: float


class Cancel(NamedTuple):
    """No command waits any more for an order of this node. It ends with what is known, the rest is `cancelled`, and
    what runs for it is to end."""

    tag: Tag


class Noted(NamedTuple):
    """The answer to Note. `ok` False: it could not be written, and the order is not acted on."""

    tag: Tag
    ok: bool = True


class Acted(NamedTuple):
    """The answer to Act. It may come during the same `handle` as late as the driver likes, also after the expiry.
    `begun` False: nothing was done, so the tag is free, and an order with it is acted on when it comes again."""

    tag: Tag
    outcome: Outcome
    begun: bool = True


class Wakeup(NamedTuple):
    """`Engine.deadline` has come."""


class PartEvent(msgspec.Struct, frozen=True):
    """An event of a part (parts.py): a type of its own for each."""


Event = Opened | Closed | Arrived | Issue | Cancel | Noted | Acted | Wakeup | PartEvent


# -- actions ------------------------------------------------------------------------------------------------


class Transmit(NamedTuple):
    """Send a frame on an open link, in its lane."""

    link: Link
    lane: Lane
    data: bytes


class CallDirect(NamedTuple):
    """Open a stream of its own to `peer` and send a frame. What comes back is Arrived and Closed with this link."""

    link: Link
    peer: Position
    data: bytes


class HangUp(NamedTuple):
    """Close a stream of CallDirect when what was sent on it has left; no further event of it is needed."""

    link: Link


class Note(NamedTuple):
    """Write to the disk, before acting, that this node acts on the tag; keep it for `keep_s`. At the next start give
    the tags that are not over to `Tags`."""

    tag: Tag
    keep_s: float


class Act(NamedTuple):
    """Run the service here and answer with Acted. After `left_s` the result counts no more for this order. `source`:
    the peer that asked over a stream of its own; 0: the order came along an edge, or of a command here. `lease_s`: a
    leased service acts no longer without Renew."""

    order: Order
    left_s: float
    source: Position = 0
    lease_s: float = bounds.LEASE_S


class Renew(NamedTuple):
    """A node still waits for the tag, on which a service with effects acts here: it may go on for `lease_s`."""

    tag: Tag
    lease_s: float


class Stop(NamedTuple):
    """The order is cancelled, and no other question waits for the tag here: a leased service ends what it does. The
    answer is Acted, as ever."""

    tag: Tag


class Progress(NamedTuple):
    """More is known of an order that this node issued."""

    tag: Tag
    answer: Answer


class Finished(NamedTuple):
    """The order is over. Nothing of it is held any more, but its tag."""

    tag: Tag
    answer: Answer


class PartAction(msgspec.Struct, frozen=True):
    """An action of a part (parts.py): a type of its own for each."""


Action = Transmit | CallDirect | HangUp | Note | Act | Renew | Stop | Progress | Finished | PartAction


class Offered(NamedTuple):
    """A service of this node. `has_effects`: its tags are written to the disk before it acts."""

    has_effects: bool = False


Services = Mapping[str, Offered]
