"""The reports of one node: which records it holds, their fold, and when the fold goes up to the leader.

Inputs are own records (Publish), reports of subordinates, links, and wakeups; outputs are reports to the leader, and
folds for local reading. Invariants: a record of a subordinate counts only while its edge is open and the roster lists
it as subordinate; of each there is one. The fold goes up once per interval, in rounds: a round is over when every
record has been renewed, so the fold of a deep tree is hardly older than an interval. It goes up earlier when the
coverage changes, never twice within EARLY_S. A record that is not renewed for STALE_INTERVALS is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

import msgspec

from subord.core.carriage.engine.causes import OLDER
from subord.core.carriage.engine.interface import Lane, Link, PartEvent, Role
from subord.core.carriage.engine.lanes import PART_BODIES
from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports import bounds
from subord.core.carriage.reports.coverage import NO_REPORT, STALE, Coverage, Missing, Told, cover
from subord.core.carriage.reports.frames import Report, decode_report, packed
from subord.core.carriage.reports.records import Fields, Folded, Record, read, size_of
from subord.core.view import Position


class Branches(Protocol):
    """What reports read of the tree."""

    @property
    def position(self) -> Position: ...
    @property
    def leader(self) -> Position | None: ...
    def branches(self) -> Mapping[Position, int]:
        """The living nodes of each subordinate's branch, itself included."""

    def listed(self, via: Position, nodes: Ranges) -> Ranges:
        """Those of the nodes that the roster lists in the branch of the subordinate `via`."""


class Publish(PartEvent, frozen=True):
    """A record of this node, to be renewed every `interval_s`. None: the node publishes no more."""

    service: str
    record: Record | None
    interval_s: float


class Fold(NamedTuple):
    """What a node knows of its branch. `oldest_s`: no part is older. `left_out`: at least so many fields of
    nodes are not in it, for want of room or because of their kind. `is_root`: the branch is a whole tree. `first`:
    the fields of the own record, which go up before others. `is_young`: the root may not know all members yet."""

    record: Record
    coverage: Coverage
    oldest_s: float
    left_out: int = 0
    is_root: bool = False
    first: frozenset[str] = frozenset()
    is_young: bool = False


class Held(NamedTuple):
    """The last record of a subordinate, or the own one. `age_s`: of its oldest part, when it came. `fields`: as the
    record came."""

    record: Record
    told: Told
    at: float
    age_s: float
    interval_s: float
    left_out: int = 0
    link: Link = None
    size: int = 0
    fields: Fields | None = None

    @property
    def stale_at(self) -> float:
        return self.at + bounds.STALE_INTERVALS * self.interval_s


class _Service:
    """The records of one service."""

    def __init__(self) -> None:
        self.own: Held | None = None
        self.held: dict[Position, Held] = {}
        self.stale: set[Position] = set()
        """Subordinates, or the node itself, whose record was dropped as stale."""
        self.unrenewed: set[Position] = set()
        """Whose record is that of the last round."""
        self.is_changed = False
        """Whether the coverage has changed since the fold went up."""
        self.uplink: LinkState | None = None
        """To which the fold has gone."""
        self.sent_at = self.round_at = -inf
        self.due_at = inf
        self.stale_at = inf
        self._folded = Folded(None, ())
        self._covered: tuple[Any, Coverage] | None = None

    def folded(self, records: Sequence[Record]) -> Folded:
        """The fold of these records, the own one first if there is one; folded anew only when one has changed."""
        own = None if self.own is None else self.own.record
        if not self._folded.is_of(own, records):
            self._folded = Folded(own, records)
        return self._folded

    @property
    def last_fold(self) -> Folded:
        """Of `folded`."""
        return self._folded

    def covered(
        self,
        own: Position,
        cause: str,
        branches: Mapping[Position, int],
        told: Mapping[Position, Told],
        absent: Mapping[Position, str],
    ) -> Coverage:
        """As coverage.cover, anew only when something has changed. No mapping changes afterwards."""
        said = own, cause, tuple(branches.items()), told, absent
        if self._covered is None or self._covered[0] != said:
            self._covered = said, cover(own, cause, branches, told, absent)
        return self._covered[1]

    @property
    def interval_s(self) -> float:
        if self.own is not None:
            return self.own.interval_s
        return min((each.interval_s for each in self.held.values()), default=bounds.INTERVAL_S_MIN)

    def is_next_round(self, now: float) -> bool:
        """Whether a record that comes now counts for the next round."""
        return now >= self.round_at + bounds.SAME_ROUND_INTERVALS * self.interval_s


class Reports:
    """The part of the engine (parts.py) that folds reports."""

    numbers = PART_BODIES[Lane.REPORT]
    events: tuple[type[PartEvent], ...] = (Publish,)

    def __init__(self, tree: Branches) -> None:
        self.dropped: Counter[str] = Counter()
        self.sent = self.received = 0
        """Reports, for metrics."""
        self.revision = 0
        """Goes up with every change of a record."""
        self._tree = tree
        self._links: Links
        self._services: dict[str, _Service] = {}
        self._uplinks: dict[Position, LinkState] = {}
        self._older: dict[Position, Link] = {}
        self._bytes = 0

    # -- the part -----------------------------------------------------------------------------------------

    def join(self, links: Links) -> None:
        self._links = links

    def decode(self, body: msgspec.Raw) -> Report:
        return decode_report(body)

    @property
    def deadline(self) -> float:
        deadline = inf
        for each in self._services.values():
            deadline = min(deadline, each.due_at, each.stale_at)
        return deadline

    @property
    def sizes(self) -> dict[str, int]:
        records = sum(len(each.held) + (each.own is not None) for each in self._services.values())
        return {"report services": len(self._services), "report records": records, "report bytes": self._bytes}

    def opened(self, link: LinkState, now: float) -> None:
        """A new leader gets everything; an older subordinate is named."""
        if link.role is Role.SUBORDINATE:
            if link.knows_orders:
                self._older.pop(link.peer, None)
            else:
                self._older[link.peer] = link.link
        elif link.role is Role.LEADER and link.knows_orders and self._uplinks.get(link.peer) is not link:
            self._uplinks[link.peer] = link
            for service in self._services.values():
                self._plan(service, now)

    def closed(self, link: LinkState, now: float) -> None:
        """What the other end has told counts no more."""
        if link.role is Role.LEADER and self._uplinks.get(link.peer) is link:
            del self._uplinks[link.peer]
        if link.role is not Role.SUBORDINATE:
            return
        if self._older.get(link.peer) == link.link:
            del self._older[link.peer]
        for service in self._services.values():
            service.stale.discard(link.peer)
            held = service.held.get(link.peer)
            if held is not None and held.link == link.link:
                self._drop(service, link.peer)
                service.is_changed = True
                self._plan(service, now)

    def take(self, event: Publish, now: float) -> None:
        """The own record."""
        service = self._service(event.service)
        if service is None:
            return
        was, own = service.own is not None, self._tree.position
        self.revision += 1
        if event.record is None or service.is_next_round(now):
            service.unrenewed.discard(own)
        service.stale.discard(own)
        service.own = None
        if event.record is not None:
            interval_s = max(bounds.INTERVAL_S_MIN, min(event.interval_s, bounds.INTERVAL_S_MAX))
            service.own = Held(event.record, Told(1), now, 0.0, interval_s)
            service.stale_at = min(service.stale_at, service.own.stale_at)
        service.is_changed |= was is not (service.own is not None)
        self._plan(service, now)

    def heard(self, link: LinkState, body: Report, now: float) -> None:
        """A report of a subordinate takes the place of its last one."""
        if link.role is not Role.SUBORDINATE:
            self.dropped["report of no subordinate"] += 1
            return
        service = self._service(body.service)
        if service is None:
            return
        self.received += 1
        self.revision += 1
        before = service.held.get(link.peer)
        is_waited_for = link.peer in service.unrenewed and not service.is_next_round(now)
        self._drop(service, link.peer)
        service.stale.discard(link.peer)
        told = Told(body.told, body.missing)
        size = size_of(body.fields)
        if self._bytes + size > bounds.HELD_BYTES_MAX:
            self.dropped["report bytes full"] += 1
        elif body.told or body.missing:
            record = self._read(body.fields, before)
            interval_s = body.interval_ms / 1000
            left_out = body.left_out + len(body.fields) - len(record)
            held = Held(record, told, now, body.age_ms / 1000, interval_s, left_out, link.link, size, body.fields)
            service.held[link.peer] = held
            service.stale_at = min(service.stale_at, held.stale_at)
            self._bytes += size
            if is_waited_for:
                service.unrenewed.add(link.peer)
        service.is_changed = service.is_changed or before is None or before.told != told
        self._plan(service, now)

    def _read(self, fields: Fields, before: Held | None) -> Record:
        """The record of a frame: the last one, if no field has changed and all can be read."""
        if before is not None and before.fields == fields and len(before.record) == len(fields):
            return before.record
        return read(fields, self.dropped)

    def wake(self, now: float) -> None:
        """Drop what is stale, and send what is due."""
        for name, service in list(self._services.items()):
            if service.stale_at <= now:
                self._expire(service, now)
            if service.due_at <= now:
                self._send(name, service, now)
            if service.own is None and not service.held and service.due_at == inf:
                del self._services[name]

    # -- records ------------------------------------------------------------------------------------------

    def _service(self, name: str) -> _Service | None:
        found = self._services.get(name)
        if found is None:
            if len(self._services) >= bounds.SERVICES_MAX:
                self.dropped["report services full"] += 1
                return None
            found = self._services[name] = _Service()
        return found

    def _drop(self, service: _Service, peer: Position) -> None:
        held = service.held.pop(peer, None)
        service.unrenewed.discard(peer)
        if held is not None:
            self.revision += 1
            self._bytes -= held.size

    def _expire(self, service: _Service, now: float) -> None:
        for peer, held in list(service.held.items()):
            if held.stale_at <= now:
                self._drop(service, peer)
                service.is_changed = True
                service.stale.add(peer)
                self.dropped["report stale"] += 1
        if service.own is not None and service.own.stale_at <= now:
            service.own, service.is_changed = None, True
            self.revision += 1
            service.stale.add(self._tree.position)
            service.unrenewed.discard(self._tree.position)
            self.dropped["report stale"] += 1
        service.stale_at = min((each.stale_at for each in self._of(service)), default=inf)
        self._plan(service, now)

    @staticmethod
    def _of(service: _Service) -> list[Held]:
        own = [] if service.own is None else [service.own]
        return [*own, *service.held.values()]

    # -- the fold -----------------------------------------------------------------------------------------

    def services(self) -> list[str]:
        """With a record at this node."""
        return sorted(self._services)

    def folded(self, name: str, now: float) -> Fold:
        """What this node knows of its branch."""
        return self._fold(self._services.get(name) or _Service(), now)

    def coverage(self, name: str) -> Coverage:
        """Of `folded`, without the work of folding."""
        service = self._services.get(name) or _Service()
        branches = self._tree.branches()
        return self._cover(service, branches, self._counted(service, branches))

    @staticmethod
    def _counted(service: _Service, branches: Mapping[Position, int]) -> dict[Position, Held]:
        """The records of the present subordinates."""
        return {via: service.held[via] for via in branches if via in service.held}

    def _fold(self, service: _Service, now: float) -> Fold:
        branches = self._tree.branches()
        counted = self._counted(service, branches)
        coverage = self._cover(service, branches, counted)
        parts = [*counted.values()] if service.own is None else [service.own, *counted.values()]
        oldest_s = max((each.age_s + now - each.at for each in parts), default=0.0)
        found = service.folded([each.record for each in parts])
        left_out = max((each.left_out + lost for each, lost in zip(parts, found.strange, strict=True)), default=0)
        return Fold(found.record, coverage, oldest_s, min(left_out, bounds.COUNT_MAX), first=frozenset(found.first))

    def _cover(
        self, service: _Service, branches: Mapping[Position, int], counted: Mapping[Position, Held]
    ) -> Coverage:
        own = self._tree.position
        cause = "" if service.own is not None else (STALE if own in service.stale else NO_REPORT)
        told = {via: self._listed(via, each.told) for via, each in counted.items()}
        absent = dict.fromkeys(service.stale, STALE) | dict.fromkeys(self._older, OLDER)
        return service.covered(own, cause, branches, told, absent)

    def _listed(self, via: Position, told: Told) -> Told:
        """What a subordinate says, with names of nodes below it alone."""
        if not told.missing:
            return told
        return told._replace(
            missing=tuple(
                Missing(each.cause, each.count, self._tree.listed(via, each.nodes).flat()) for each in told.missing
            )
        )

    # -- sending ------------------------------------------------------------------------------------------

    def _uplink(self) -> LinkState | None:
        leader = self._tree.leader
        return None if leader is None else self._uplinks.get(leader)

    def _plan(self, service: _Service, now: float) -> None:
        """When the fold goes up next."""
        uplink = self._uplink()
        is_new = uplink is not service.uplink
        if uplink is None or (not self._of(service) and (is_new or not service.is_changed)):
            service.due_at = inf
        elif is_new:
            service.due_at = now
        elif service.is_changed:
            service.due_at = max(now, service.sent_at + bounds.EARLY_S)
        else:
            intervals = bounds.LATE_INTERVALS if service.unrenewed else bounds.EARLIEST_INTERVALS
            round_at = service.round_at + intervals * service.interval_s
            service.due_at = max(now, service.sent_at + bounds.EARLY_S, round_at)

    def _send(self, name: str, service: _Service, now: float) -> None:
        uplink = self._uplink()
        if uplink is None:
            service.due_at = inf
            return
        found = self._fold(service, now)
        fields, left_out = service.last_fold.fitted
        if left_out:
            self.dropped["report fields left out"] += left_out
        coverage = found.coverage
        has_parts = bool(self._of(service) or service.stale)
        body = Report(
            name,
            round(service.interval_s * 1000),
            min(coverage.told + coverage.unlisted, bounds.COUNT_MAX) if has_parts else 0,
            coverage.missing if has_parts else (),
            bounds.to_ms(found.oldest_s),
            max(left_out, found.left_out),
            fields,
        )
        self._links.send(uplink, packed(body, service.last_fold.deflated))
        self.sent += 1
        is_late = now >= service.round_at + bounds.LATE_INTERVALS * service.interval_s
        if is_late or not service.unrenewed:
            service.round_at = now
            service.unrenewed = {*service.held} | ({self._tree.position} if service.own is not None else set())
        service.uplink, service.sent_at, service.is_changed = uplink, now, False
        self._plan(service, now)
