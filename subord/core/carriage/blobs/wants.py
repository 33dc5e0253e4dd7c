"""One chunk that a node wants: for whom, what has come of it, and which nodes are asked in which order.

Inputs are pieces and answers; outputs are the next node to ask and the whole chunk. The leader is asked first, so
that each leader gets a chunk once for all below; then the leader's leader, then the source, directly. Invariant: no
more bytes are held than a chunk may have, and they come from one node each time that the hash is checked.
"""

from __future__ import annotations

from math import inf

from subord.core.carriage.blobs.bodies import Piece
from subord.core.carriage.blobs.bounds import ROUNDS_MAX
from subord.core.carriage.blobs.manifests import Name
from subord.core.carriage.engine.links import LinkState
from subord.core.carriage.engine.tree import Tree
from subord.core.view import Position


class Wanted:
    """A chunk on its way to this node."""

    def __init__(self, name: Name, source: Position) -> None:
        self.name = name
        self.source = source
        self.askers: dict[LinkState, int] = {}
        """Links to send it to, and from which offset."""
        self.is_own = False
        """Whether this node needs it itself."""
        self.asked: LinkState | None = None
        self.tried: set[Position] = set()
        self.got = bytearray()
        self.is_checking = False
        self.is_doubted = False
        """Whether the node that is asked was asked again, because it was silent."""
        self.look_at = inf
        self.pause_s = 0.0
        self.has_failed = False
        """Whether a node that was asked in this round lacks the chunk, or is silent; others could not be called."""
        self._rounds = 0
        """In which all nodes were asked in vain."""

    def begin_anew(self) -> None:
        """Ask all nodes again."""
        self.tried.clear()
        self.has_failed = False

    def given_up(self) -> list[LinkState]:
        """All nodes were asked in vain; the askers that should look elsewhere. They wait as long as nodes only could
        not be called: on a busy machine all of them would call the source otherwise, and make it slower."""
        self._rounds += 1
        told = list(self.askers) if self._has_no_hope else []
        if told:
            self.askers.clear()
        return told

    @property
    def _has_no_hope(self) -> bool:
        return self.has_failed or self._rounds > ROUNDS_MAX

    @property
    def is_hopeless(self) -> bool:
        """Whether all nodes were asked in vain, and it is not time to ask again."""
        is_paused = self.asked is None and not self.is_checking and self.look_at < inf
        return is_paused and self._has_no_hope

    def next_peer(self, tree: Tree) -> Position | None:
        """The next node to ask; None: all were."""
        path = tree.path
        above = [*path[:-3:-1]] if tree.leader is not None else []
        for each in (*above, self.source):
            if each != tree.position and each not in self.tried:
                return each
        return None

    def take(self, piece: Piece) -> bool:
        """Add a piece; False: it is not the next."""
        if piece.offset != len(self.got) or len(self.got) + len(piece.data) > piece.size:
            return False
        self.got += piece.data
        return True
