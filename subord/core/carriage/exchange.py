"""How neighbours keep replicas equal: what a node sends along the edges of the tree.

Inputs are edges that open and close, frames, and local changes; outputs are frames, one edge at a time, when its
sender asks. At the opening, and every DIGEST_S, both ends send the digests of their replicas. An end with another
digest sends its whole replica, or the parts that differ, at most once in WHOLE_S; while the same two digests differ,
because an end refuses what the other holds, after twice the time each time. What changed goes to all other edges, at
once after a quiet time, and else with what follows it: in a start of hundreds of nodes each change would cost a frame
at every node. A replica takes items in any order and any number of times, so nothing is confirmed. Invariant: what
waits for a slow edge is a replica of its own, never longer than the whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from hashlib import blake2b
from math import inf
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from subord.core.decoding import UNREADABLE

DIGEST_S: Final = 60.0
WHOLE_S: Final = 10.0
WHOLE_S_MAX: Final = 3600.0  # between two ends whose digests stay different
ITEMS_MAX: Final = 1000  # in one frame
FRAME_BYTES_MAX: Final = 65_536
FIRST_BYTE_MIN: Final = 0x80  # a frame is an array in MessagePack; the other frames of an edge are text

DIGEST_BYTES: Final = 8
Digests = dict[str, bytes]
Frame = tuple[str, bytes]
DIGESTS = "digests"


class Replica(Protocol):
    """A set of items that all nodes come to hold alike. Items may be merged in any order, any number of times."""

    @property
    def pause_s(self) -> float:
        """Between two frames with changes on one edge."""

    def merge(self, items: Iterable[Any]) -> list[Any]:
        """Take new items; returns those that changed it."""

    def items(self) -> Iterable[Any]: ...
    def differing(self, digest: bytes) -> Iterable[Any]:
        """The items that an end with this digest may lack; all where the digest does not tell."""

    def take(self, count: int) -> list[Any]:
        """Remove and return some items, fewer than that only of the last ones."""

    def empty(self) -> Self:
        """Another replica of the same kind, without items."""

    def drop_expired(self, now_ms: int) -> None:
        """Forget what no node keeps any more, or neighbours would differ for ever."""

    @property
    def digest(self) -> bytes: ...
    def __len__(self) -> int: ...
    def encode(self, items: Iterable[Any]) -> bytes: ...
    def decode(self, data: bytes, now_ms: int) -> Iterable[Any]:
        """The acceptable items. Raises msgspec.DecodeError, ValueError."""


def digest_of(content: bytes) -> bytes:
    """The digest of an encoded replica."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


_frame_decoder = msgspec.msgpack.Decoder(Frame)
_digests_decoder = msgspec.msgpack.Decoder(Digests)
_encode = msgspec.msgpack.Encoder().encode


class Received(NamedTuple):
    """What a frame says: items for the replica `name`; "": none."""

    name: str
    items: list[Any]


class _Whole:
    """When to send a whole replica on one edge."""

    def __init__(self) -> None:
        self.due_at = inf
        self.theirs = b""
        self._sent_at = -inf
        self._pause_s = WHOLE_S
        self._differ: tuple[bytes, bytes] | None = None

    def differ(self, ours: bytes, theirs: bytes, now: float) -> None:
        """The digests of both ends are different."""
        if self._differ != (ours, theirs):
            self._differ, self._pause_s = (ours, theirs), WHOLE_S
        self.theirs = theirs
        self.due_at = max(now, self._sent_at + self._pause_s)

    def sent(self, now: float) -> None:
        self._sent_at, self.due_at = now, inf
        self._pause_s = min(2 * self._pause_s, WHOLE_S_MAX)


class _Edge:
    """One open edge: what waits for it."""

    def __init__(self, waiting: dict[str, Replica]) -> None:
        self.waiting = waiting
        self.theirs: frozenset[str] | None = None  # names of the replicas of the other end
        self.digests_due_at = -inf
        self.whole = {name: _Whole() for name in waiting}
        self._changes_due_at = dict.fromkeys(waiting, -inf)

    def take(self, name: str, now: float) -> list[Any]:
        """Some of the items that wait, if they are due. The pause follows the last of them."""
        waiting = self.waiting[name]
        if not len(waiting) or now < self._changes_due_at[name]:
            return []
        taken = waiting.take(ITEMS_MAX)
        if not len(waiting):
            self._changes_due_at[name] = now + waiting.pause_s
        return taken

    @property
    def due_at(self) -> float:
        """When the next frame is due."""
        changes = (self._changes_due_at[name] for name, each in self.waiting.items() if len(each))
        return min(self.digests_due_at, *(each.due_at for each in self.whole.values()), *changes)


class Exchange:
    """The replicas of one node, by name, and its open edges."""

    def __init__(self, replicas: Mapping[str, Replica]) -> None:
        self.replicas = replicas
        self._edges: dict[Hashable, _Edge] = {}
        self.changed = False
        """Whether a replica has changed; the reader resets it."""
        self.changes = dict.fromkeys(replicas, 0)
        """Number of changes of each replica."""
        self.compared: set[str] = set()
        """Replicas of which a neighbour has shown that its own is equal or empty, or sent what it has."""
        self._digests_of_none = {name: each.empty().digest for name, each in replicas.items()}

    def change(self, name: str) -> None:
        """A replica has changed."""
        self.changed = True
        self.changes[name] += 1

    # -- edges --------------------------------------------------------------------------------------------

    def opened(self, edge: Hashable) -> None:
        """Both ends of `edge` take part."""
        self._edges[edge] = _Edge({name: each.empty() for name, each in self.replicas.items()})

    def closed(self, edge: Hashable) -> None:
        self._edges.pop(edge, None)

    def has(self, edge: Hashable, name: str) -> bool | None:
        """Whether the other end has a replica of this name; None: its digests have not come yet."""
        state = self._edges.get(edge)
        return None if state is None or state.theirs is None else name in state.theirs

    # -- sending ------------------------------------------------------------------------------------------

    def spread(self, name: str, items: Iterable[Any], source: Hashable = None) -> list[Any]:
        """Merge items, and send what changed to all edges but `source`; returns it."""
        changed = self.replicas[name].merge(items)
        if changed:
            self.change(name)
            for edge, state in self._edges.items():
                if edge != source:
                    state.waiting[name].merge(changed)
        return changed

    def next_frame(self, edge: Hashable, now: float) -> bytes | None:
        """The next frame for `edge`; None: there is none before `deadline`."""
        state = self._edges.get(edge)
        if state is None:
            return None
        if now >= state.digests_due_at:
            state.digests_due_at = now + DIGEST_S
            return _encode((DIGESTS, _encode({name: each.digest for name, each in self.replicas.items()})))
        for name, replica in self.replicas.items():
            if now >= state.whole[name].due_at:
                state.whole[name].sent(now)
                state.waiting[name].merge(replica.differing(state.whole[name].theirs))
            if items := state.take(name, now):
                return _encode((name, replica.encode(items)))
        return None

    def deadline(self, edge: Hashable) -> float:
        """When to call `next_frame` again, unless something changes before; it may be over."""
        state = self._edges.get(edge)
        return inf if state is None else state.due_at

    # -- receiving ----------------------------------------------------------------------------------------

    def read(self, edge: Hashable, data: bytes, now: float, now_ms: int) -> Received | None:
        """Read a frame; None: it is malformed. `take` the items then, or those that are accepted.

        Call `next_frame` for `edge` afterwards, and for all edges if `changed`.
        """
        try:
            name, content = _frame_decoder.decode(data)
            if name == DIGESTS:
                for replica in self.replicas.values():
                    replica.drop_expired(now_ms)
                self._compare(edge, _digests_decoder.decode(content), now)
            elif name in self.replicas:  # else of a later release
                return Received(name, list(self.replicas[name].decode(content, now_ms)))
        except UNREADABLE:
            return None
        return Received("", [])

    def take(self, edge: Hashable, received: Received) -> None:
        """Merge the items of a frame, and send what changed to all other edges."""
        if received.name:
            self.compared.add(received.name)
            self.spread(received.name, received.items, edge)

    def _compare(self, edge: Hashable, digests: Digests, now: float) -> None:
        state = self._edges.get(edge)
        if state is not None:
            state.theirs = frozenset(digests)
        for name, replica in self.replicas.items():
            ours, theirs = replica.digest, digests.get(name)
            if theirs in {ours, self._digests_of_none[name]}:
                self.compared.add(name)
            if state is not None and theirs is not None and theirs != ours:
                state.whole[name].differ(ours, theirs, now)
