"""The events that enter the core, and the actions that leave it.

Messages of peers (`Received`) are apart from what the local host reports, so no datagram can pass for a local event.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from subord.core.messages import Message
from subord.core.settings import TimingName
from subord.core.view import Incarnation, Place, Position

LostCause = Literal["silence", "refused", "closed", "displaced", "unwelcome"]
FAILURES: tuple[LostCause, ...] = (
    "silence",
    "refused",
    "closed",
)  # the node detected these; a goodbye or a displacement was told
LOST_BY: dict[LostCause, str] = {
    "closed": "its process ended",
    "refused": "no process listens",
    "silence": "it was silent",
}


class Received(msgspec.Struct, frozen=True):
    """A message of a peer, of a valid form."""

    source: Position | None  # None: the address lies outside the network
    address: str
    message: Message


class Unreadable(msgspec.Struct, frozen=True):
    """A datagram of an unknown wire version, already answered with `Versions`."""

    address: str
    version: int


class Unreachable(msgspec.Struct, frozen=True):
    """The host at `position` reports that no daemon listens (ICMP port unreachable)."""

    position: Position


class EdgeClosed(msgspec.Struct, frozen=True):
    """The peer closed the stream of a tree edge, or it broke."""

    position: Position


class Known(msgspec.Struct, frozen=True):
    """What an earlier process kept on disk: live nodes, the last leader, and subordinates of a root."""

    positions: tuple[Position, ...]
    leader: Position | None = None
    led: tuple[Position, ...] = ()
    standing: int = 0  # the class by which the node stood (mapping/rank_classes.py)


class Seeds(msgspec.Struct, frozen=True):
    """The positions of the seeds, in place of earlier ones: asked for advice while the node has no leader."""

    positions: tuple[Position, ...]


class Performance(msgspec.Struct, frozen=True):
    """Jobs that this machine completes in a unit of time that all nodes share, smoothed; above 0."""

    jobs: float


class Measured(msgspec.Struct, frozen=True):
    """An answer to `Measure`: the round trip on the wire, and the class of the peer's performance."""

    position: Position
    number: int
    seconds: float
    performance: int


class Start(msgspec.Struct, frozen=True):
    """Look for the first place. `full_scan`: ask all positions first (discovery/scan.py)."""

    full_scan: bool = False


class Wakeup(msgspec.Struct, frozen=True):
    """The deadline has passed."""


class Admission(msgspec.Struct, frozen=True):
    """What operators decided about identities. `strict`: nodes without one are refused. `revoked`: keys that count
    nowhere, also those that the site's authority has not certified."""

    strict: bool
    revoked: frozenset[bytes] = frozenset()


class Leave(msgspec.Struct, frozen=True):
    """Say goodbye to all neighbours and stop within `grace_s`."""

    grace_s: float


Event: TypeAlias = (
    Received
    | Unreadable
    | Unreachable
    | EdgeClosed
    | Known
    | Seeds
    | Performance
    | Measured
    | Start
    | Wakeup
    | Leave
    | Admission
)


class Send(msgspec.Struct, frozen=True):
    target: Position
    message: Message


class Reply(msgspec.Struct, frozen=True):
    """To the sender of the event being handled, which may be no position of the network."""

    message: Message


class Publish(msgspec.Struct, frozen=True):
    """To all nodes on the wire at once (multicast), where the operator allows it."""

    message: Message


class Measure(msgspec.Struct, frozen=True):
    """Measure the round trip to `target`. An answer may not come."""

    target: Position
    number: int


class PlaceChanged(msgspec.Struct, frozen=True):
    place: Place
    leader: Position | None
    old: Position | None
    changes: int  # leader changes so far; 0 at the first place
    reason: str


class LeaderLost(msgspec.Struct, frozen=True):
    leader: Position
    cause: LostCause
    silence_s: float  # since its last message


class Healed(msgspec.Struct, frozen=True):
    """The node has a place again after the loss of its leader."""

    after_s: float


class SubordinateLost(msgspec.Struct, frozen=True):
    position: Position
    cause: LostCause
    silence_s: float


class SubordinateLeft(msgspec.Struct, frozen=True):
    """A subordinate stops: it said goodbye to this node, its leader."""

    position: Position


class Refused(msgspec.Struct, frozen=True):
    """Settings or wire versions differ. Noted once per address and reason."""

    address: str
    by: Literal["them", "us"]
    reason: str


class RosterChanged(msgspec.Struct, frozen=True):
    """The number of live nodes in the subtree changed."""

    nodes: int
    not_home: int


class RoundTrip(msgspec.Struct, frozen=True):
    seconds: float


class FirstContact(msgspec.Struct, frozen=True):
    """The first message of a node of the network in this incarnation."""

    position: Position


class SlowAnswers(msgspec.Struct, frozen=True):
    """Several answers in a row came later than the timing preset allows."""

    seconds: float  # of the last answer
    answer_s: float  # of the preset in use
    preset: TimingName  # the preset that fits


class Dropped(msgspec.Struct, frozen=True):
    """A well-formed message without effect, by reason."""

    reason: str


class Pinned(msgspec.Struct, frozen=True):
    """The first key of an address was proved to this node."""

    position: Position
    key: bytes


class Gone(msgspec.Struct, frozen=True):
    """All goodbyes are said; the daemon may stop."""


class Neighbourhood(msgspec.Struct, frozen=True):
    """What the next start needs from disk; `led` are the latest subordinates of a root."""

    incarnation: Incarnation
    leader: Position | None
    peers: tuple[Position, ...]
    led: tuple[Position, ...] = ()
    standing: int = 0


Notice: TypeAlias = (
    PlaceChanged
    | LeaderLost
    | Healed
    | SubordinateLost
    | SubordinateLeft
    | Refused
    | RosterChanged
    | RoundTrip
    | FirstContact
    | SlowAnswers
    | Dropped
    | Pinned
    | Gone
)
Action: TypeAlias = Send | Reply | Publish | Measure | Notice
