"""What happens to a node, and what it wants done.

Events come in, actions go out; neither does anything by itself. What peers say (`Received`) is kept
apart from what the local machine reports, so that no datagram can pretend to be a local event.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from subord.core.messages import Message
from subord.core.state.settings import TimingName
from subord.core.state.view import Incarnation, Place, Position

LostCause = Literal["silence", "refused", "closed", "displaced", "unwelcome"]
FAILURES: tuple[LostCause, ...] = (
    "silence",
    "refused",
    "closed",
)  # a goodbye or a displacement was not detected by us


class Received(msgspec.Struct, frozen=True):
    """A peer said something. The wire checked its form, not its truth."""

    source: Position | None  # None: the address lies outside our network
    address: str
    message: Message


class Unreadable(msgspec.Struct, frozen=True):
    """A datagram of a wire version that we do not speak. The wire has answered it already."""

    address: str
    version: int


class Unreachable(msgspec.Struct, frozen=True):
    """The host at `position` says that no daemon listens there (ICMP port unreachable)."""

    position: Position


class EdgeClosed(msgspec.Struct, frozen=True):
    """The stream held along a tree edge was closed by the other side, or broke."""

    position: Position


class Known(msgspec.Struct, frozen=True):
    """Who is remembered from an earlier life: worth proposing to; our last leader, and whom we led as a root."""

    positions: tuple[Position, ...]
    leader: Position | None = None
    led: tuple[Position, ...] = ()
    standing: int = 0  # the class by which we stood (standings.py)


class Seeds(msgspec.Struct, frozen=True):
    """Positions that the operator names, in the place of earlier ones: asked for advice while we have no leader."""

    positions: tuple[Position, ...]


class Performance(msgspec.Struct, frozen=True):
    """How many jobs this machine completes in a unit of time that all nodes share, smoothed; above 0."""

    jobs: float


class Measured(msgspec.Struct, frozen=True):
    """An answer to `Measure`: a round trip as seen on the wire, and the class of that node's performance."""

    position: Position
    number: int
    seconds: float
    performance: int


class Start(msgspec.Struct, frozen=True):
    """Begin: look for the first place; `full_scan`: ask everybody first (scan.py)."""

    full_scan: bool = False


class Wakeup(msgspec.Struct, frozen=True):
    """The deadline has passed."""


class Leave(msgspec.Struct, frozen=True):
    """Say goodbye and stop within `grace_s`."""

    grace_s: float


Event: TypeAlias = (
    Received | Unreadable | Unreachable | EdgeClosed | Known | Seeds | Performance | Measured | Start | Wakeup | Leave
)


class Send(msgspec.Struct, frozen=True):
    target: Position
    message: Message


class Reply(msgspec.Struct, frozen=True):
    """To wherever the event now handled came from: perhaps no position of ours."""

    message: Message


class Publish(msgspec.Struct, frozen=True):
    """To everybody on the wire at once, where that is possible and wanted (multicast)."""

    message: Message


class Measure(msgspec.Struct, frozen=True):
    """Find out how long a round trip to `target` takes. It may stay without answer."""

    target: Position
    number: int


class PlaceChanged(msgspec.Struct, frozen=True):
    place: Place
    leader: Position | None
    old: Position | None
    changes: int  # leader changes so far; the first place is number 0
    reason: str


class LeaderLost(msgspec.Struct, frozen=True):
    leader: Position
    cause: LostCause
    silence_s: float  # since its last sign of life


class Healed(msgspec.Struct, frozen=True):
    """A place was found again after the leader was lost."""

    after_s: float


class SubordinateLost(msgspec.Struct, frozen=True):
    position: Position
    cause: LostCause
    silence_s: float


class Refused(msgspec.Struct, frozen=True):
    """Settings or wire versions differ. Told once per address and reason."""

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
    """Somebody of our network spoke to us, for the first time in this life."""

    position: Position


class SlowAnswers(msgspec.Struct, frozen=True):
    """Several answers in a row took longer than the timing preset waits for one."""

    seconds: float  # of the last one
    answer_s: float  # of the preset in use
    preset: TimingName  # that would fit


class Dropped(msgspec.Struct, frozen=True):
    """Well-formed input that was not acted upon, by reason."""

    reason: str


class Gone(msgspec.Struct, frozen=True):
    """All goodbyes are said: the daemon may stop."""


class Neighbourhood(msgspec.Struct, frozen=True):
    """What is worth remembering for the next start; `led` are some of those whom a root led lately."""

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
    | Refused
    | RosterChanged
    | RoundTrip
    | FirstContact
    | SlowAnswers
    | Dropped
    | Gone
)
Action: TypeAlias = Send | Reply | Publish | Measure | Notice
