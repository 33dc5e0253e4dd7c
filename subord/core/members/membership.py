"""What one node knows of the members: its history, the register, what a root writes into it, and the journal of it.

Inputs are notices of the core, rosters, and frames of neighbours; outputs are changes of the tree (history.py), of
the register, and events of the journal, which `exchange` carries to all nodes. The daemon and the simulator hold one
Membership per process and play it alike. `now` is monotonic, in seconds; `wall` seconds since 1970. Invariant: a
document of a neighbour enters only with the verdict that accepts its signature, and leaves when that operator is
revoked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import Final

from subord.core import snapshots
from subord.core.carriage.documents import REVOKED, Document, Documents
from subord.core.carriage.exchange import Exchange, Received
from subord.core.carriage.orders import Verdict
from subord.core.events import FAILURES, LeaderLost, Notice, Pinned, PlaceChanged, RosterChanged, SubordinateLeft
from subord.core.identity.pins import Pins
from subord.core.identity.revocations import Revocations
from subord.core.members import statements
from subord.core.members.history import SETTLE_S, History
from subord.core.members.journal import Journal
from subord.core.members.recorder import Recorder
from subord.core.members.register import Record, Register, Run, State
from subord.core.members.writer import Departure, Writer
from subord.core.members.youth import youth_of
from subord.core.node import Node
from subord.core.state.states import Phase
from subord.core.view import Place, Position, RosterView

REGISTER: Final = "members"
DOCUMENTS: Final = "orders"
"""Release 0.2 has "documents", which are not signed and have other fields: each passes over those of the other."""
KEYS: Final = "keys"
EVENTS: Final = "events"
LOOKS_S_MIN: Final = 1.0
"""Between a change and the look at it; the cost of a look grows with the number of nodes below."""

UNCOMPARED_S_MAX: Final = 30.0
"""A new root whose neighbours do not compare, as those of an older release, knows what it can know after this."""
Judged = tuple[Document, Verdict]
Signer = tuple[str, str]
"""Principal and fingerprint, as in the verdict."""


class Membership:
    """The members as one process knows them."""

    def __init__(  # noqa: PLR0917 - what the disk has, and what the file of the node says
        self,
        register: Register,
        documents: Documents,
        expected: Sequence[Position] = (),
        signers: Mapping[str, Signer] | None = None,
        pins: Pins | None = None,
        journal: Journal | None = None,
        owner: Position = 0,
    ) -> None:
        """`expected`: nodes that should be members even if they never came. `signers`: of the documents, by name.
        `pins`: those of the node. `owner`: this node.
        """
        self.register = register
        self.documents = documents
        self.pins = pins
        self.revocations = Revocations(documents)
        self.signers: dict[str, Signer] = dict(signers or {})
        self.history = History()
        self.journal = Journal(register.size) if journal is None else journal
        keys = {} if pins is None else {KEYS: pins}
        self.exchange = Exchange({REGISTER: register, DOCUMENTS: documents, EVENTS: self.journal, **keys})
        self._recorder = Recorder(register, self.journal, owner)
        self._recorded: dict[str, int] | None = None
        """The changes at the last comparison with the journal; None: this node was not root."""
        self._writer = Writer(register, expected)
        self._is_first = all(run.first == run.last == owner for run in register.runs)
        """Whether this process has started without knowledge of other members."""
        self._looked_at = -inf
        self._seen: tuple[object, ...] = ()
        self._released = b""  # digest of the documents whose forgotten nodes have lost their pins

    def observe(self, notice: Notice, now: float, wall: float) -> bool:
        """Note a loss above, and goodbyes. Returns whether to `look` soon."""
        if isinstance(notice, SubordinateLeft):
            self.left(notice.position, wall)
        if isinstance(notice, Pinned) and self.pins is not None:
            pin = self.pins.stamped(notice.position, notice.key, int(wall * 1000))
            self.exchange.spread(KEYS, [pin])
        if isinstance(notice, LeaderLost) and notice.cause in FAILURES:
            self.history.lost_above(notice.leader, now)
        if isinstance(notice, PlaceChanged) and notice.place is Place.ROOT and notice.old is not None:
            self.history.parted_above(notice.old, now)
        return isinstance(notice, RosterChanged | PlaceChanged)

    def sizes(self) -> dict[str, int]:
        """Number of entries by table."""
        tables = {"register_runs": len(self.register), "documents": len(self.documents), "events": len(self.journal)}
        if self.pins is not None:
            tables["pins"] = len(self.pins)
        return {**self.history.sizes(), **tables}

    @property
    def changes(self) -> tuple[int, ...]:
        """Number of changes of the register, the documents, and the pins."""
        return tuple(self.exchange.changes.get(name, 0) for name in (REGISTER, DOCUMENTS, KEYS))

    @property
    def deadline(self) -> float:
        """When to `look` though the roster has not changed."""
        settle_at = self._looked_at + SETTLE_S if self.history.is_waiting else inf
        return min(settle_at, self._writer.deadline)

    def to_judge(self, received: Received) -> list[Document]:
        """The documents of a frame that would change something, the list of revocations first."""
        found = received.items if received.name == DOCUMENTS else []
        return sorted(filter(self.documents.matters, found), key=lambda each: each.name != REVOKED)

    def take(self, edge: Hashable, received: Received, judged: Iterable[Judged]) -> list[Document]:
        """Take a frame, of documents only those that were accepted; returns the documents that are new here."""
        if received.name != DOCUMENTS:
            self.exchange.take(edge, received)
            return []
        return self.take_documents(judged, edge)

    def take_documents(self, judged: Iterable[Judged], source: Hashable = None) -> list[Document]:
        """Take what was accepted, and spread what is new; returns it."""
        taken: list[Document] = []
        for document, verdict in judged:
            signer = verdict.principal, verdict.fingerprint
            if verdict.word or self.revocations.has_operator(*signer):  # the list may have come during the judgement
                continue
            is_given = source is None and self.documents.matters(document)
            events = self._recorder.ordered(document, verdict.principal, self.documents) if is_given else []
            if self.exchange.spread(DOCUMENTS, [document], source):
                self.exchange.spread(EVENTS, events)
                self.signers[document.name] = signer
                taken.append(document)
        if any(each.name == REVOKED for each in taken):
            self._drop_revoked()
        self.signers = {name: each for name, each in self.signers.items() if name in self.documents.by_name}
        return [each for each in taken if each.name in self.documents.by_name]

    def _drop_revoked(self) -> None:
        """What revoked operators have signed counts no more. The list itself stays, or they would be free again."""
        has = self.revocations.has_operator
        revoked = [name for name, signer in self.signers.items() if name != REVOKED and has(*signer)]
        if self.documents.drop(revoked):
            self.exchange.change(DOCUMENTS)

    def look_at(self, node: Node, now: float, wall: float) -> bool:
        """Look at a node, unless all that decides is as at the last look; returns whether it did.

        A node may become root without a change of its roster, and must then write what it did not write before.
        """
        events = self.exchange.changes[EVENTS] if node.phase is Phase.ROOT else 0
        seen = node.roster.revision, node.phase, node.uplink.path, self.changes, events
        if seen == self._seen and now < self.deadline:
            return False
        self._seen = seen
        self.look(snapshots.roster(node, now), node.uplink.path, now, wall)
        return True

    def look(self, view: RosterView, path: Iterable[Position], now: float, wall: float) -> None:
        """Compare a roster with the last one; a root also writes what the register lacks."""
        self._looked_at = now
        before = self.history.number
        self.history.look(view, path, now, wall)
        self.documents.drop_expired(int(wall * 1000))
        self.release(int(wall * 1000))
        if not view.is_root:
            self._writer.stop()
            self._recorded = None
            return
        wall_ms = int(wall * 1000)
        written = self._writer.write(view, self._departures(before, now, wall), self.history.pending(), now, wall_ms)
        changes = self.history.since(before)
        if written or changes or self._recorded != self.exchange.changes:
            self.exchange.spread(EVENTS, self._recorder.looked(written, view, changes, wall_ms))
        self.exchange.spread(REGISTER, written)
        self._recorded = dict(self.exchange.changes)
        self.exchange.spread(REGISTER, statements.forgotten(self.documents, self.register, wall_ms))
        for position in self._writer.take_unseen():
            self.history.stays_away(position, now, wall)

    def release(self, wall_ms: int) -> None:
        """The keys of nodes that an operator forgot or revoked count no longer: their addresses may have other hosts.

        Every node follows the documents itself, whose signatures it has judged; any member can write the register.
        Call it as soon as documents are taken: the key of the next host may come with the next frame.
        """
        if self.pins is not None and self.documents.digest != self._released:
            self._released = self.documents.digest
            for position, at_ms in statements.forgotten_at(self.documents, wall_ms):
                self.pins.release(position, at_ms)
            for each in self.revocations.entries:
                if each.kind == "node":
                    self.pins.release(each.position, each.at_ms)

    def _departures(self, before: int, now: float, wall: float) -> dict[Position, Departure]:
        """Nodes that the history missed, the former root that said goodbye, and what this look has judged.

        What the history remembers counts only if it is later than the record: the node may have been back elsewhere.
        Of nodes that seem to have left without a goodbye to their leader, only a former root surely has.
        """
        found: dict[Position, Departure] = {}
        for each in self.history.missed(now):
            found[each.position] = Departure(False, int((wall - (now - each.at)) * 1000), each.leader or 0)
        for position, at in self.history.former_roots.items():
            found[position] = Departure(True, int((wall - (now - at)) * 1000), 0)
        found = {position: each for position, each in found.items() if self._is_news(position, each)}
        for change in self.history.since(before):
            if change.kind == "missing":
                leader = change.leader or change.old or 0
                found[change.position] = Departure(False, int(change.wall * 1000), leader)
        return found

    def _is_news(self, position: Position, departure: Departure) -> bool:
        old = self.register.at(position)
        return old is None or departure.since_ms > old.stamp_ms

    def left(self, position: Position, wall: float) -> None:
        """This node, or a subordinate, says goodbye. Only a node that hears it can tell it from a death.

        The root may write the node up later than this, for the time at which it came (writer.py).
        """
        old, wall_ms = self.register.at(position), int(wall * 1000)
        stamp_ms = wall_ms if old is None else max(wall_ms, old.stamp_ms + 1)
        if old is None or old.state is not State.LEFT:
            self.exchange.spread(EVENTS, self._recorder.left(position, wall_ms))
        self.exchange.spread(REGISTER, [Run(position, position, Record(stamp_ms, State.LEFT, wall_ms))])

    def is_compared(self, since_s: float) -> bool:
        """Whether a root that is one for `since_s` knows what its neighbours know of the members."""
        return REGISTER in self.exchange.compared or since_s >= UNCOMPARED_S_MAX

    def is_settled(self, node: Node, now: float) -> bool:
        """Whether a root knows the members that it can know, so that what it calls all nodes are all.

        It is young at first (youth.py). Then it knows when it has compared its register with a neighbour, no new node
        has come for a while, and all nodes of its roster are in its register. In the end it waits no longer, nor when
        its roster has a node at every address.
        """
        youth = youth_of(node, is_first=self._is_first)
        if now >= youth.ends_at or node.roster.live >= self.register.size:
            return True
        is_compared = self.is_compared(now - node.placed_at) or not node.downlink.slots.taken
        if now < youth.lasts_until or not is_compared:
            return False
        rows = node.roster.rows.items()
        return self._writer.is_quiet((each for each, (_, claim) in rows if not claim.change.missing), now)
