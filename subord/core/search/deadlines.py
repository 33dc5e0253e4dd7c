"""The deadlines of a search: when a guest slot will do, and when the node becomes root (docs/protocol.md, section 3).

Inputs are the start of the search and what the node remembers; outputs are both deadlines. Until the first only the
home will do. When the host of the home is up without a daemon, both move to `host_patience_s`, because the daemon may
be starting.
"""

from __future__ import annotations

from math import inf

from subord.core.discovery.peer_cache import PeerCache
from subord.core.state.context import Context
from subord.core.view import Position

HOME_RETRY_S_MAX = 0.5
HOME_TRIES = 10  # repetitions to a home that is alive: two seconds with `lan`, longer than ARP needs


class Deadlines:
    """Both deadlines of one search, in seconds of the node's clock."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._guest_from = self._alone_from = self._host_until = -inf
        self.was_root = False  # before the restart; its former subordinates probably wait for it
        self.leader: Position | None = None  # before the restart, unless it was the home
        self._asked_leader = False  # the former leader was asked

    def begin(self, peers: PeerCache, home: Position) -> None:
        """Start the first search. A node that remembers its place waits less, and least if that was not its home."""
        now, timing, leader = self._context.now, self._context.timing, peers.remembered.leader
        # A former root that knows lower nodes may have to follow one of them now.
        self.was_root = bool(peers.remembered.led) and not peers
        self.leader = leader if leader != home else None
        elsewhere = self.was_root or (bool(peers) and peers[0] != home)
        remembers = self.was_root or bool(peers)
        self._guest_from = now + timing.answer_s * (0.5 if elsewhere else 2)
        waits = not remembers or self.leader is not None  # the former leader may be starting, too
        self._alone_from = now + timing.patience_s if waits else self._guest_from
        self._host_until = -inf if remembers else now + timing.host_patience_s

    def end(self) -> None:
        """A later search: both deadlines have passed."""
        self._guest_from = self._alone_from = -inf
        self.was_root, self.leader, self._asked_leader = False, None, False

    def take_leader(self) -> Position | None:
        """The former leader, once, after the first deadline; it is asked until the second, as the home is."""
        if not self.takes_guest_place:
            return None
        leader, self.leader = self.leader, None
        self._asked_leader = self._asked_leader or leader is not None
        return leader

    @property
    def may_displace(self) -> bool:
        """False while the former leader may still answer: a displaced guest would move in vain."""
        return not self._asked_leader or self.is_over

    def host_is_up(self) -> None:
        """The host of the home answers that no daemon listens."""
        self._guest_from = max(self._guest_from, self._host_until)
        self._alone_from = max(self._alone_from, self._host_until)

    def put_off(self, until: float) -> None:
        """A busy node asks to be asked again: the node is not alone."""
        self._alone_from = max(self._alone_from, until)

    @property
    def takes_guest_place(self) -> bool:
        return self._context.now >= self._guest_from

    @property
    def is_over(self) -> bool:
        return self._context.now >= self._alone_from

    @property
    def next_at(self) -> float:
        """The next of both deadlines; infinity when both have passed."""
        return min((at for at in (self._guest_from, self._alone_from) if at > self._context.now), default=inf)
