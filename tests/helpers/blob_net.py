"""A few engines with blobs in a given tree: disks, lanes with bounded bytes, liars, ends of links, and bytes by node.

Every frame, disk and hash takes a millisecond. A lane of a link passes what its credit allows, as in the daemon.
"""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import count
from math import inf
from typing import Any

import msgspec
from order_stage import Stage, StageTree

from subord.core.carriage.blobs import bodies
from subord.core.carriage.blobs.blobs import Blobs
from subord.core.carriage.blobs.bodies import Piece
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.interface import Check, Checked, Evict, Fetch, Fetched, Held, Read, ReadEnded, Wrong
from subord.core.carriage.blobs.manifests import Manifest, name_of
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import encode, open_envelope
from subord.core.carriage.engine.interface import Arrived, CallDirect, Closed, HangUp, Opened, Role, Transmit, Wakeup
from subord.core.carriage.engine.lanes import WAITING_MAX, Lane, lane_of

STEP_S = 0.001


def blob_of(content: bytes) -> dict[bytes, bytes]:
    """The chunks of a blob by name; the manifest is the last."""
    parts = [content[at : at + CHUNK_BYTES_MAX] for at in range(0, len(content), CHUNK_BYTES_MAX)]
    manifest = Manifest(len(content), tuple(map(name_of, parts))).encode()
    return {name_of(each): each for each in parts} | {name_of(manifest): manifest}


class BlobNet:
    """`leaders`: by subordinate; 0: none. `bytes_max`: of the cache, by node; others have much. `are_open`: the
    edges, from the beginning."""

    def __init__(
        self, leaders: dict[int, int], bytes_max: dict[int, int] | None = None, *, are_open: bool = True
    ) -> None:
        self.stage = Stage(dict(leaders))
        self.now = 0.0
        self._bytes_max = bytes_max or {}
        self.engines: dict[int, Engine] = {}
        self.blobs: dict[int, Blobs] = {}
        self.disks: dict[int, dict[bytes, bytes]] = {each: {} for each in leaders}
        self.fetched: dict[tuple[int, bytes], str] = {}
        self.wrong: Counter[int] = Counter()
        self.sent: Counter[int] = Counter()
        """Bytes of pieces by node."""
        self.got: Counter[tuple[int, bytes]] = Counter()
        """Checks by node and chunk."""
        self.liars: set[int] = set()
        self.silent: set[int] = set()
        self.delay_s: dict[int, float] = {}
        """Of the frames that a node sends."""
        self.lost = 0
        """Pieces that a full lane drops, from now on."""
        self._ends: dict[tuple[int, Any], tuple[int, Any]] = {}
        self._lanes: Counter[tuple[int, Any]] = Counter()
        self._heap: list[tuple[float, int, int, int, Any]] = []
        self._tie = count()
        for each in leaders:
            self.start(each)
        for each in leaders if are_open else ():
            self.open(each)

    # -- processes and links ------------------------------------------------------------------------------

    def start(self, position: int) -> None:
        """A process, with what its disk has."""
        self.blobs[position] = Blobs(StageTree(self.stage, position), self._bytes_max.get(position, 1 << 30))
        self.engines[position] = Engine(StageTree(self.stage, position), {}, parts=[self.blobs[position]])
        if self.disks[position]:
            self.give(position, Held(tuple((name, len(each)) for name, each in self.disks[position].items())))

    def open(self, position: int) -> None:
        """The edge to the leader."""
        leader = self.stage.leaders.get(position)
        if leader and leader in self.engines and position in self.engines:
            name = ("edge", next(self._tie))
            self._join((position, name), (leader, name))
            self.give(position, Opened(name, leader, Role.LEADER, self.stage.lives[leader]))
            self.give(leader, Opened(name, position, Role.SUBORDINATE, self.stage.lives[position]))

    def _join(self, one: tuple[int, Any], other: tuple[int, Any]) -> None:
        self._ends[one], self._ends[other] = other, one

    def close(self, position: int) -> None:
        """All links of a node end."""
        for end in [each for each in self._ends if each[0] == position]:
            self._end(end)

    def _end(self, end: tuple[int, Any]) -> None:
        other = self._ends.pop(end, None)
        if other is not None:
            del self._ends[other]
            for position, link in (end, other):
                self._plan(position, Closed(link))

    def kill(self, position: int) -> None:
        """The process ends, its disk stays, and its subordinates go to its leader."""
        self.close(position)
        del self.engines[position], self.blobs[position]
        self.stage.lives[position] += 1
        leader = self.stage.leaders.pop(position)
        below = [each for each, above in self.stage.leaders.items() if above == position]
        for each in below:
            self.stage.leaders[each] = leader or below[0] * (each != below[0])
        for each in below:
            self.open(each)

    # -- events -------------------------------------------------------------------------------------------

    def _plan(self, position: int, event: Any, delay_s: float = STEP_S) -> None:
        life = self.stage.lives[position]
        heapq.heappush(self._heap, (self.now + delay_s, next(self._tie), position, life, event))

    def give(self, position: int, event: Any) -> None:
        engine = self.engines.get(position)
        if engine is None or position in self.silent:
            return
        for action in engine.handle(event, self.now):
            self._carry_out(position, action)
        cache = self.blobs[position].cache
        assert cache.used_bytes <= cache.bytes_max

    def _carry_out(self, position: int, action: Any) -> None:
        disk = self.disks[position]
        match action:
            case Transmit():
                self._transmit(position, action.link, action.data)
            case CallDirect():
                theirs = (action.peer, ("in", next(self._tie)))
                self._join((position, action.link), theirs)
                if action.peer in self.engines:
                    self._plan(action.peer, Opened(theirs[1], position, Role.CALLER, self.stage.lives[position]))
                    self._plan(action.peer, Arrived(theirs[1], action.data))
                else:
                    self._end((position, action.link))
            case HangUp():
                self._end((position, action.link))
            case Check():
                self.got[position, action.name] += 1
                ok = name_of(action.chunk) == action.name
                if ok:
                    disk[action.name] = action.chunk
                self._plan(position, Checked(action.name, ok))
            case Read():
                self._plan(position, ReadEnded(action.name, disk.get(action.name)))
            case Evict():
                disk.pop(action.name, None)
            case Fetched():
                self.fetched[position, action.blob] = action.reason
            case Wrong():
                self.wrong[action.peer] += 1

    def _transmit(self, position: int, link: Any, data: bytes) -> None:
        other = self._ends.get((position, link))
        if other is None:
            return
        if lane_of(data) is Lane.BLOB:
            waiting = self._lanes[position, link] + len(data)
            assert waiting <= WAITING_MAX[Lane.BLOB], f"the lane of {position} is full"
            self._lanes[position, link] = waiting
        frame = open_envelope(data)
        body = bodies.decode(frame.body)
        if isinstance(body, Piece):
            if self.lost:
                self.lost -= 1
                self._lanes[position, link] -= len(data)
                return
            self.sent[position] += len(body.data)
            if position in self.liars and body.data:
                lie = msgspec.structs.replace(body, data=bytes([body.data[0] ^ 1]) + body.data[1:])
                data = encode(frame.sender, frame.receiver, lie)
        self._plan(other[0], (Arrived(other[1], data), (position, link)), self.delay_s.get(position, STEP_S))

    def run(self, until_s: float = inf) -> None:
        """Until nothing happens any more, or for some time."""
        end = self.now + until_s
        while True:
            due, position = min((each.deadline, at) for at, each in self.engines.items())
            at = min(due, self._heap[0][0] if self._heap else inf)
            if at > end or at == inf:
                self.now = min(end, max(self.now, at)) if end < inf else self.now
                return
            self.now = max(self.now, at)
            if due <= at:
                self._wake(position)
                continue
            _, _, position, life, event = heapq.heappop(self._heap)
            if isinstance(event, tuple) and not hasattr(event, "_fields"):
                event, source = event
                self._lanes[source] -= len(event.data)
            if self.stage.lives[position] == life:
                self.give(position, event)

    def _wake(self, position: int) -> None:
        if position in self.silent:  # its deadline stays: it is passed over
            self.engines[position].handle(Wakeup(), self.now)
        else:
            self.give(position, Wakeup())

    # -- blobs --------------------------------------------------------------------------------------------

    def put(self, position: int, content: bytes) -> bytes:
        """A node has a blob; returns its name."""
        chunks = blob_of(content)
        name = list(chunks)[-1]
        self.disks[position].update(chunks)
        self.give(position, Held(tuple((each, len(chunk)) for each, chunk in chunks.items()), name))
        return name

    def fetch(self, name: bytes, source: int, *positions: int) -> None:
        for each in positions:
            self.give(each, Fetch(name, source))

    def has(self, position: int, name: bytes, content: bytes) -> bool:
        """Whether a node was told that it has the blob, and its disk has it."""
        chunks = blob_of(content)
        assert list(chunks)[-1] == name
        disk = self.disks[position]
        return self.fetched.get((position, name)) == "" and all(disk.get(each) == it for each, it in chunks.items())
