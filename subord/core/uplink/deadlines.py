"""How long do we wait before we take less than our home, or nothing? (protocol section 3)

Intuition: two egg timers. While the first runs the reserved room may still be made ready, and no other will do; while
the second runs somebody may still open a door. When the host of our home says that it is up, but no daemon runs there
yet, both are set anew: then one is probably just starting.
"""

from __future__ import annotations

from math import inf

from subord.core.discovery.peer_cache import PeerCache
from subord.core.state.context import Context
from subord.core.state.view import Position

HOME_RETRY_S_MAX = 0.5
HOME_TRIES = 10  # repetitions to a home that is said to be alive: two seconds in a lan, longer than ARP needs


class Deadlines:
    """Both times of one search, of our clock."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._guest_from = self._alone_from = self._host_until = -inf
        self.was_root = False  # in our last life; then those whom we led are probably waiting for us
        self.leader: Position | None = None  # in our last life, if it was not our home
        self._hopes = False  # have we asked it?

    def begin(self, peers: PeerCache, home: Position) -> None:
        """At first start. Who remembers where it stood needs less, and little when that was not at home."""
        now, timing, leader = self._context.now, self._context.timing, peers.remembered.leader
        # Who was root, but knows of lower ones, may have to follow them now.
        self.was_root = bool(peers.remembered.led) and not peers
        self.leader = leader if leader != home else None
        elsewhere = self.was_root or (bool(peers) and peers[0] != home)
        remembers = self.was_root or bool(peers)
        self._guest_from = now + timing.answer_s * (0.5 if elsewhere else 2)
        waits = not remembers or self.leader is not None  # it may be just starting, as we are
        self._alone_from = now + timing.patience_s if waits else self._guest_from
        self._host_until = -inf if remembers else now + timing.host_patience_s

    def end(self) -> None:
        """There is no time to lose."""
        self._guest_from = self._alone_from = -inf
        self.was_root, self.leader, self._hopes = False, None, False

    def take_leader(self) -> Position | None:
        """Our old leader, once, when others than our home will do: to be asked as patiently as home."""
        if not self.takes_guest_place:
            return None
        leader, self.leader = self.leader, None
        self._hopes = self._hopes or leader is not None
        return leader

    @property
    def may_displace(self) -> bool:
        """Not while our old leader may still come: somebody would have to move in vain."""
        return not self._hopes or self.gives_up

    def host_is_up(self) -> None:
        """The host of our home answers that no daemon listens."""
        self._guest_from = max(self._guest_from, self._host_until)
        self._alone_from = max(self._alone_from, self._host_until)

    def put_off(self, until: float) -> None:
        """Somebody asks us to come again: we are not alone."""
        self._alone_from = max(self._alone_from, until)

    @property
    def near(self) -> bool:
        """Do we look at our neighbours' doors before we stand alone?"""
        return not self.was_root

    @property
    def takes_guest_place(self) -> bool:
        return self._context.now >= self._guest_from

    @property
    def gives_up(self) -> bool:
        return self._context.now >= self._alone_from

    @property
    def next_at(self) -> float:
        """When one of them ends."""
        return min((at for at in (self._guest_from, self._alone_from) if at > self._context.now), default=inf)
