"""The open links of one node: which edge leads to a peer, and what is sent on it.

Inputs are links that open and close; outputs are Transmit actions in `actions`, which the engine returns. Invariant:
of two edges to one peer in one role only the newer is used, and frames name the lives of both ends.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any, Final

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.frames import Unreadable, encode, open_envelope
from subord.core.carriage.engine.interface import Action, CallDirect, HangUp, Link, Opened, Role, Transmit
from subord.core.carriage.engine.lanes import lane_of

if TYPE_CHECKING:
    import msgspec

    from subord.core.view import Incarnation, Position

EDGES: Final = (Role.SUBORDINATE, Role.LEADER)
ROUND_TRIP_WEIGHT: Final = 0.5


class LinkState:
    """One open link."""

    def __init__(self, opened: Opened) -> None:
        self.link = opened.link
        self.peer = opened.peer
        self.role = opened.role
        self.incarnation = opened.incarnation
        self.knows_orders = opened.knows_orders
        self.round_trip_s = min(opened.round_trip_s or bounds.ROUND_TRIP_S, bounds.ROUND_TRIP_S_MAX)
        self.usual_round_trip_s = self.round_trip_s
        """When the link opened."""
        self.idle_round_trip_s = self.round_trip_s
        """The shortest one: without what the two nodes take when they are busy."""
        self._measured_at = inf
        self.asked: dict[int, Any] = {}
        """Questions of this node to the peer (tasks.Pending), by number."""
        self.held: dict[int, Any] = {}
        """Questions of the peer to this node (tasks.Task), by number."""
        self.is_doubted = False
        """Whether an acknowledgement is overdue, and nothing has come since."""

    def measure(self, round_trip_s: float, now: float) -> None:
        """An acknowledgement took so long. A longer time counts at once, a shorter one by half."""
        round_trip_s = min(round_trip_s, bounds.ROUND_TRIP_S_MAX)
        self.idle_round_trip_s = min(self.idle_round_trip_s, round_trip_s)
        self.round_trip_s = self._round_trip_s(now)
        self._measured_at = now
        weight = 1.0 if round_trip_s > self.round_trip_s else ROUND_TRIP_WEIGHT
        self.round_trip_s += weight * (round_trip_s - self.round_trip_s)

    def margin_s(self, now: float) -> float:
        """What a hop keeps of the time left."""
        return bounds.MARGIN_S + min(2 * self._round_trip_s(now), bounds.MARGIN_ROUND_TRIPS_S_MAX)

    def _round_trip_s(self, now: float) -> float:
        """What the nodes took when they were busy counts less and less."""
        busy_s = self.round_trip_s - self.idle_round_trip_s
        age_s = max(0.0, now - self._measured_at)
        return self.idle_round_trip_s + busy_s * float(0.5 ** (age_s / bounds.SLOW_HALF_S))

    @property
    def ack_s(self) -> float:
        """How long an acknowledgement may take."""
        return self._ack_s(self.round_trip_s)

    @property
    def quick_ack_s(self) -> float:
        """How long an acknowledgement may take on quick machines."""
        return self._ack_s(self.usual_round_trip_s)

    def _ack_s(self, round_trip_s: float) -> float:
        if self.role is Role.CALLED:
            return max(bounds.DIRECT_ACK_S_MIN, bounds.DIRECT_ACK_ROUND_TRIPS * round_trip_s)
        return max(bounds.ACK_S_MIN, bounds.ACK_ROUND_TRIPS * round_trip_s)


class Links:
    """All links of one node, and the actions of the present event."""

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation
        self.of: dict[Link, LinkState] = {}
        self.actions: list[Action] = []
        self.dropped: Counter[str] = Counter()
        """Input that was not taken, by a word."""
        self._edges: dict[tuple[Role, Position], LinkState] = {}

    def open(self, opened: Opened) -> LinkState | None:
        """A link; None: there are too many. Of an edge that it replaces `replaced` has told before."""
        known = self.of.get(opened.link)
        if known is not None:  # a stream of CallDirect
            known.incarnation = opened.incarnation or known.incarnation
            known.knows_orders = opened.knows_orders
            known.round_trip_s = min(opened.round_trip_s or known.round_trip_s, bounds.ROUND_TRIP_S_MAX)
            known.usual_round_trip_s = known.idle_round_trip_s = known.round_trip_s
            return known
        if len(self.of) >= bounds.LINKS_MAX:
            self.dropped["links full"] += 1
            return None
        state = self.of[opened.link] = LinkState(opened)
        if opened.role in EDGES:
            self._edges[opened.role, opened.peer] = state
        return state

    def replaced(self, opened: Opened) -> LinkState | None:
        """The edge that this one takes the place of."""
        old = self._edges.get((opened.role, opened.peer)) if opened.role in EDGES else None
        return None if old is None or old.link == opened.link else old

    def close(self, link: Link) -> LinkState | None:
        """A link is no more."""
        state = self.of.pop(link, None)
        if state is not None and self._edges.get((state.role, state.peer)) is state:
            del self._edges[state.role, state.peer]
        return state

    def edge_to(self, peer: Position, *, climbs: bool) -> LinkState | None:
        """The edge to a leader or a subordinate."""
        return self._edges.get((Role.LEADER if climbs else Role.SUBORDINATE, peer))

    # -- frames -------------------------------------------------------------------------------------------

    def send(self, state: LinkState, body: msgspec.Struct) -> None:
        """Send a body in its lane."""
        data = self._encoded(state, body)
        self.actions.append(Transmit(state.link, lane_of(data), data))

    def call(self, state: LinkState, body: msgspec.Struct) -> None:
        """Open the link with this frame."""
        self.actions.append(CallDirect(state.link, state.peer, self._encoded(state, body)))

    def hang_up(self, state: LinkState) -> None:
        """Close a stream of its own."""
        if self.close(state.link) is not None:
            self.actions.append(HangUp(state.link))

    def _encoded(self, state: LinkState, body: msgspec.Struct) -> bytes:
        return encode(self.incarnation, state.incarnation, body)

    def read(self, link: Link, data: bytes) -> tuple[LinkState, msgspec.Raw] | None:
        """The body of a frame of an open link between the present lives of both ends; None: it is dropped and
        counted."""
        state = self.of.get(link)
        if state is None:
            self.dropped["no link"] += 1
            return None
        try:
            frame = open_envelope(data)
        except Unreadable:
            self.dropped["unreadable"] += 1
            return None
        if frame.receiver not in (0, self.incarnation):
            self.dropped["earlier life"] += 1
            return None
        state.incarnation = state.incarnation or frame.sender
        if frame.sender != state.incarnation:
            self.dropped["earlier life"] += 1
            return None
        return state, frame.body
