"""In which version of the wire do I speak to whom?

Intuition: travellers. A stranger is greeted in the plainest language that I know. Who answers in a better one is
answered in that; who goes on in the plain one is told, now and then, what else I speak; and whoever says that it does
not understand me is believed, and spoken to in the best that both of us know.

Nobody is ever silenced by this: who claims to speak nothing of ours is spoken to as before, and a false claim about
somebody is over with the next thing that this one says, or with the next thing that it does not understand.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from subord.core.tables import BoundedMap

PEERS_MAX = 4096  # who is forgotten is a stranger again, no more
TELL_S = 10.0


class _Peer:
    __slots__ = ("tell_at", "version")

    def __init__(self, version: int, tell_at: float) -> None:
        self.version = version
        self.tell_at = tell_at


class PeerVersions:
    """The versions of one node's peers. `spoken`: what we speak, ascending. A table of one version stays empty."""

    def __init__(self, spoken: tuple[int, ...]) -> None:
        self._spoken = spoken
        self._lowest, self._best = spoken[0], spoken[-1]
        self._peers: BoundedMap[Hashable, _Peer] = BoundedMap(PEERS_MAX)

    def __len__(self) -> int:
        return len(self._peers)

    def version_for(self, peer: Hashable) -> int:
        """In which version to speak to it."""
        known = self._peers.get(peer)
        return self._lowest if known is None else known.version

    def heard(self, peer: Hashable, version: int, now: float) -> bool:
        """It spoke to us in `version`, one of ours. True: now is the time to tell it which versions we speak."""
        if version == self._best == self._lowest:
            return False
        known = self._known(peer, now)
        known.version = max(known.version, version)
        if known.version == self._best or now < known.tell_at:
            return False
        known.tell_at = now + TELL_S
        return True

    def told(self, peer: Hashable, theirs: Collection[int], now: float) -> bool:
        """It says which versions it speaks. False: none of ours, and nothing is changed."""
        common = [version for version in self._spoken if version in theirs]
        if common and self._best != self._lowest:
            self._known(peer, now).version = common[-1]
        return bool(common)

    def _known(self, peer: Hashable, now: float) -> _Peer:
        known = self._peers.get(peer)
        if known is None:
            known = self._peers[peer] = _Peer(self._lowest, now)
        return known
