"""The version of the wire for each peer (docs/protocol/wire.md).

Inputs are the versions of received messages and `Versions`; output is the version to write, and when to send
`Versions`. An unknown peer gets the lowest version, a known one the best that both speak. A false `Versions` about a
peer costs a message and is corrected by the peer's next one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from subord.core.tables import BoundedMap

PEERS_MAX = 4096  # a dropped peer is unknown again
TELL_S = 10.0


class _Peer:
    __slots__ = ("tell_at", "version")

    def __init__(self, version: int, tell_at: float) -> None:
        self.version = version
        self.tell_at = tell_at


class PeerVersions:
    """The versions of the peers of one node. `spoken`: its own, ascending. With one the table stays empty."""

    def __init__(self, spoken: tuple[int, ...]) -> None:
        self._spoken = spoken
        self._lowest, self._best = spoken[0], spoken[-1]
        self._peers: BoundedMap[Hashable, _Peer] = BoundedMap(PEERS_MAX)

    def __len__(self) -> int:
        return len(self._peers)

    def version_for(self, peer: Hashable) -> int:
        """The version in which to write to `peer`."""
        known = self._peers.get(peer)
        return self._lowest if known is None else known.version

    def heard(self, peer: Hashable, version: int, now: float) -> bool:
        """A message of `peer` came in `version`, a known one. True: tell it now which versions this node speaks."""
        if version == self._best == self._lowest:
            return False
        known = self._known(peer, now)
        known.version = max(known.version, version)
        if known.version == self._best or now < known.tell_at:
            return False
        known.tell_at = now + TELL_S
        return True

    def told(self, peer: Hashable, theirs: Collection[int], now: float) -> bool:
        """`peer` stated its versions. False: none in common, and no effect."""
        common = [version for version in self._spoken if version in theirs]
        if common and self._best != self._lowest:
            self._known(peer, now).version = common[-1]
        return bool(common)

    def _known(self, peer: Hashable, now: float) -> _Peer:
        known = self._peers.get(peer)
        if known is None:
            known = self._peers[peer] = _Peer(self._lowest, now)
        return known
