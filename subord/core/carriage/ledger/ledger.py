"""The ledger at one node: sends the records of its spool to a sink, passes on those of others, stores them as a sink.

Inputs are events (interface.py) and bodies of neighbours; outputs are bodies and actions. The two ends retry, the
middle keeps nothing: a batch goes from link to link towards its sink, and the acknowledgement comes back by the
rosters. A spool is emptied in order, one batch at a time. Invariants: a record leaves the spool only after a sink has
said that it is on its disk, which the next node on the way, the leader or a subordinate passes on; nothing is sent
without a sink that can be reached.
"""

from __future__ import annotations

from collections import Counter
from math import inf

import msgspec

from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.tree import Tree
from subord.core.carriage.ledger import bodies, bounds
from subord.core.carriage.ledger.bodies import Batch, Body, Key, Sinks, Stored
from subord.core.carriage.ledger.interface import SinkIs, Spooled, Store, StoreEnded, Take, Taken
from subord.core.carriage.ledger.sinks import SinkTable
from subord.core.view import Position

LedgerEvent = Spooled | Taken | SinkIs | StoreEnded


class Ledger:
    """A part (core/carriage/engine/parts.py) of the engine of one node."""

    numbers = bodies.NUMBERS
    events: tuple[type[PartEvent], ...] = (Spooled, Taken, SinkIs, StoreEnded)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._links: Links
        self._sinks = SinkTable(tree)
        self.dropped: Counter[str] = Counter()
        self._storing: dict[Key, int] = {}  # bytes
        # the spool of this node
        self._has_more = False
        self._is_taking = False
        self._stored: Key | None = None  # to be deleted from the spool
        self._batch: Batch | None = None
        self._sent: tuple[Position, LinkState | None] | None = None  # where the batch went last
        self._sent_at = 0.0
        self._retry_at = inf
        self._look_at = inf  # whether a node with an edge has become a neighbour
        self._pause_s = self._ack_s = 0.0

    def join(self, links: Links) -> None:
        self._links = links

    @property
    def deadline(self) -> float:
        return min(self._retry_at, self._look_at)

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "ledger sinks": len(self._sinks),
            "ledger storing": len(self._storing),
            "ledger storing bytes": sum(self._storing.values()),
            "ledger batch": 0 if self._batch is None else len(self._batch.records),
        }

    @staticmethod
    def decode(body: msgspec.Raw) -> Body:
        return bodies.decode(body)

    # -- events -------------------------------------------------------------------------------------------

    def opened(self, link: LinkState, now: float) -> None:
        self._sinks.open(link)
        self._tell(now)

    def closed(self, link: LinkState, now: float) -> None:
        self._sinks.close(link)
        self._tell(now)

    def heard(self, link: LinkState, body: Body, now: float) -> None:
        match body:
            case Sinks():
                if self._sinks.hear(link, body.positions):
                    self._tell(now)
                else:
                    self.dropped["ledger not a neighbour"] += 1
            case Batch():
                self._pass_batch(body, link)
            case Stored():
                self._pass_stored(body, link, now)

    def take(self, event: LedgerEvent, now: float) -> None:
        match event:
            case Spooled():
                self._has_more = True
                self._take_next(now)
            case Taken():
                self._taken(event, now)
            case SinkIs():
                self._sinks.is_sink = event.able
                self._tell(now)
            case StoreEnded():
                self._store_ended(event, now)

    def wake(self, now: float) -> None:
        if now >= self._look_at:
            self._tell(now)
        if now < self._retry_at:
            return
        self._retry_at = inf
        if self._batch is None:
            self._take_next(now)
        else:
            self._send(now)

    def _tell(self, now: float) -> None:
        """The sinks may have changed: neighbours learn of it, and a batch that went elsewhere is sent again."""
        self._sinks.tell(self._links)
        self._look_at = now + bounds.LOOK_S if self._sinks.has_others else inf
        if self._batch is None:
            self._take_next(now)
        elif self._way() != self._sent:
            self._pause_s = 0.0
            self._send(now)

    # -- the spool of this node ---------------------------------------------------------------------------

    def _take_next(self, now: float) -> None:
        is_due = self._has_more and self._sinks.choose() is not None
        if self._is_taking or self._batch is not None or now < self._failed_until or not (is_due or self._stored):
            return
        self._has_more, self._is_taking = False, True
        self._links.actions.append(Take(self._stored))

    @property
    def _failed_until(self) -> float:
        """After the disk failed, until the next trial."""
        return self._retry_at if self._batch is None and self._retry_at < inf else 0.0

    def _taken(self, event: Taken, now: float) -> None:
        self._is_taking = False
        if not event.ok:
            self._has_more = True
            self._retry_at = now + bounds.DISK_RETRY_S
            self.dropped["ledger spool failed"] += 1
            return
        self._stored = None
        if not event.records:
            self._take_next(now)  # for a record that came meanwhile
            return
        self._has_more = True
        self._batch = Batch(0, self._tree.position, event.life, event.first, event.records)
        self._pause_s, self._sent = 0.0, None
        self._sent_at = now
        self._send(now)

    def _way(self) -> tuple[Position, LinkState | None] | None:
        """The sink for the own records, and the link to it; None: no sink can be reached."""
        sink = self._sinks.choose()
        return None if sink is None else (sink, self._sinks.way_to(sink))

    def _send(self, now: float) -> None:
        """Send the own batch, and plan to send it again."""
        assert self._batch is not None
        self._sent, self._retry_at = self._way(), inf
        if self._sent is None:
            return
        self._pause_s = min(
            max(bounds.RETRY_S, bounds.RETRY_ACKS * self._ack_s, 2 * self._pause_s), bounds.RETRY_S_MAX
        )
        self._retry_at = now + self._pause_s
        sink, link = self._sent
        self._batch = msgspec.structs.replace(self._batch, sink=sink)
        if link is None:
            self._store(self._batch)
        else:
            self._links.send(link, self._batch)

    def _acknowledged(self, key: Key, now: float) -> None:
        """A sink has stored these records of this node."""
        if self._batch is None or key != self._batch.key:
            self.dropped["ledger late"] += 1
            return
        self._ack_s = now - self._sent_at
        self._stored, self._batch, self._sent, self._retry_at = key, None, None, inf
        self._take_next(now)

    # -- records of others --------------------------------------------------------------------------------

    def _pass_batch(self, batch: Batch, source: LinkState) -> None:
        """Towards its sink, or to the disk of this one."""
        if batch.sink == self._tree.position:
            self._store(batch)
            return
        link = self._sinks.way_to(batch.sink, source)
        if link is None or batch.hops == bounds.HOPS_MAX:
            self.dropped["ledger no sink"] += 1  # its node sends it again
            return
        self._links.send(link, msgspec.structs.replace(batch, hops=batch.hops + 1))

    def _pass_stored(self, stored: Stored, source: LinkState | None, now: float) -> None:
        """Towards the node whose records they are."""
        origin = stored.key.origin
        if not self._is_on_the_way(stored.key, source):
            self.dropped["ledger not a neighbour"] += 1
            return
        if origin == self._tree.position:
            self._acknowledged(stored.key, now)
            return
        link = self._way_home(origin)
        if link is None or link is source or stored.hops == bounds.HOPS_MAX:
            self.dropped["ledger no way home"] += 1  # the batch comes again
            return
        self._links.send(link, msgspec.structs.replace(stored, hops=stored.hops + 1))

    def _is_on_the_way(self, key: Key, source: LinkState | None) -> bool:
        """Whether an acknowledgement may come from there: from this node, from where the batch went, or from a
        neighbour."""
        if source is None or source in self._sinks.neighbours():
            return True
        is_own = self._batch is not None and key == self._batch.key
        return is_own and self._sent is not None and source is self._sent[1]

    def _way_home(self, origin: Position) -> LinkState | None:
        """The edge to a node: to the branch that has it, or up."""
        for below in self._tree.split(Ranges.of((origin,))).below:
            return self._links.edge_to(below, climbs=False)
        leader = self._tree.leader
        return None if leader is None else self._links.edge_to(leader, climbs=True)

    # -- the sink -----------------------------------------------------------------------------------------

    def _store(self, batch: Batch) -> None:
        size = sum(each.cost_bytes for each in batch.records)
        if not self._sinks.is_sink:
            self.dropped["ledger no sink"] += 1
        elif batch.key in self._storing:
            self.dropped["ledger asked twice"] += 1
        elif (
            len(self._storing) >= bounds.STORING_MAX or sum(self._storing.values()) + size > bounds.STORING_BYTES_MAX
        ):
            self.dropped["ledger sink busy"] += 1
        else:
            self._storing[batch.key] = size
            self._links.actions.append(Store(batch.key, batch.records))

    def _store_ended(self, event: StoreEnded, now: float) -> None:
        if self._storing.pop(event.key, None) is None:
            return
        if event.ok:
            self._pass_stored(Stored(event.key), None, now)
        else:
            self.dropped["ledger not stored"] += 1
