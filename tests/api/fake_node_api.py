"""A cluster in memory: every node has the interface `NodeApi` and asks the others without a network."""

from __future__ import annotations

import importlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import trio
from fake_operators import FakeVerifier

from subord.api.handlers import peer_answers
from subord.api.node_api import AskFailure, Question
from subord.config.schema import MetricsConfig, NodeConfig, TransferConfig
from subord.core.address.network import Network
from subord.core.carriage.documents import Documents
from subord.core.carriage.engine.causes import DOWN, MOVED, NO_COORDINATOR, OLDER, SILENT, UNKNOWN
from subord.core.carriage.engine.frames import Order, order_of
from subord.core.carriage.engine.interface import Answer, Overview
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.answer import encode_fold
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.shares.interface import Overview as Branches
from subord.core.identity import receipts
from subord.core.identity.pins import Pins
from subord.core.members.membership import Judged, Membership
from subord.core.members.register import Register, State
from subord.core.messages import Terms
from subord.core.settings import Settings
from subord.core.view import (
    Asked,
    Edge,
    Liveness,
    Near,
    Place,
    Ranking,
    Refusal,
    RosterRow,
    RosterView,
    Snapshot,
    Why,
)
from subord.runtime.counters import Counters
from subord.runtime.elastic.state import MANAGES, Poll
from subord.runtime.elastic.state import State as ElasticState
from subord.runtime.hosts.state import State as HostsState
from subord.runtime.jobs.meter import PerformanceMeter
from subord.runtime.log.logger import Log
from subord.runtime.machines.state import ServerState
from subord.runtime.machines.state import State as MachinesState
from subord.runtime.names import ResolvedNames
from subord.runtime.orders.waiting import Waiting
from subord.runtime.security.gate import Gate
from subord.runtime.security.identity import Identity
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.peer_identity import PeerIdentities
from subord.runtime.shares.state import State as Following
from subord.runtime.transfer.state import State as TransferState
from subord.sealing.identity import Ed25519Signer
from subord.sealing.keys import Keyring, text_of
from subord.sealing.rotation import fingerprint
from subord.services.contract import ReportService
from subord.services.metrics.classes.answering import ClassQuestion, class_in

PAPER = {1: None, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 4, 9: 4, 10: 5, 11: 5}
"""Figure 1 of the paper: 11 nodes, p = 2, position to leader."""

SETTINGS = Settings(network=Network.parse("10.0.0.0/16"), fanout=2, guest_slots=2)

MEASURED = Ranking(
    mapping="latency",
    performance=92.0,
    performance_class=141,
    standing_class=139,
    wanted_level=1,
    level=2,
    near=(
        Near(position=3, round_trip_s=0.0002, performance=None, ago_s=4.0),
        Near(position=2, round_trip_s=0.02, performance=90.5, ago_s=61.0),
    ),
    moves=3,
    moves_held=1,
)
"""Possible measurements of a node whose leader is 2."""


def key_ring_of(top: Path, ring: Keyring, directory: str = "") -> RunningKeyRing:
    """The running key ring of an operator's file below `top`; rings that come by rotation are kept in `directory`."""
    file = top / fingerprint(ring)
    file.touch(mode=0o600)
    file.write_text(text_of(ring))
    return RunningKeyRing(str(file), directory)


class World:
    """Nodes by position with their leaders. `hung` ones never answer, `gone` ones answer with a failure."""

    def __init__(self, leaders: Mapping[int, int | None] = PAPER, settings: Settings = SETTINGS) -> None:
        self.leaders = dict(leaders)
        self.settings = settings
        self.hung: set[int] = set()
        self.delays_s: dict[int, float] = {}
        self.gone: set[int] = set()
        self.older: set[int] = set()  # of a release without orders
        self.cut_off: set[int] = set()  # their leaders do not report them
        self.newly_placed: set[int] = set()  # since a second in their places
        self.lying: dict[int, bytes] = {}
        self.false_receipts: set[int] = set()
        self.without_receipts: set[int] = set()
        self.names: dict[str, str] = {}
        self.resolved: dict[str, str] = {}  # names by the resolver
        self.own_name: str | None = None
        self.liveness: dict[int, Liveness] = {}
        self.asked: list[int] = []
        self.refusals: tuple[Refusal, ...] = ()
        self.refused: str | None = None  # of the root
        self.ranking = Ranking(mapping="ip")  # of every node
        self.numbers: dict[int, tuple[float | None, float | None]] = {}  # round trip to the leader, performance
        self.given = NodeConfig()
        self.samples: dict[int, dict[str, float]] = {}  # what nodes publish as metrics
        self.key_rings: dict[int, RunningKeyRing] = {}  # other nodes do not seal
        self.since_s = 60.0  # the age of all places
        self.is_timed = False  # a place that changes is new, as with a real node
        self._placed: dict[int, tuple[tuple[int | None, Liveness], float]] = {}  # what was seen first, and since when
        self.known: dict[int, FakeNode] = {}  # nodes that keep their state; others are made anew each time

    def node(self, position: int) -> FakeNode:
        return self.known.get(position) or FakeNode(self, position)

    def path(self, position: int) -> tuple[int, ...]:
        """Root first, leader last."""
        path: list[int] = []
        leader = self.leaders.get(position)  # a test may take a node out while it answers
        while leader is not None:
            path.insert(0, leader)
            leader = self.leaders.get(leader)
        return tuple(path)

    def age_s(self, position: int) -> float:
        """For how long it has been in its place."""
        if position in self.newly_placed:
            return 1.0
        if not self.is_timed:
            return self.since_s
        now, where = time.monotonic(), (self.leaders[position], self.liveness.get(position, Liveness.LIVE))
        before = self._placed.setdefault(position, (where, now - self.since_s))
        if before[0] != where:
            self._placed[position] = before = where, now
        return now - before[1]

    def place(self, position: int) -> Place:
        leader = self.leaders.get(position)
        if leader is None:
            return Place.ROOT
        return Place.HOME if leader == self.settings.numbering.computed_leader(position) else Place.GUEST

    def below(self, position: int) -> list[int]:
        """The subtree, its owner first."""
        others = sorted(each for each in self.leaders if position in self.path(each))
        return [position, *others]


class FakeTracker:
    """Brings the history and the register up to date whenever it is asked."""

    def __init__(self, node: FakeNode) -> None:
        size = node.settings.network.size
        self.membership = Membership(Register(size), Documents(), pins=Pins(size))
        self.history = self.membership.history
        self.memory = self
        self._node = node

    @property
    def wall_ms(self) -> int:
        return int(1000 * time.time())

    def look(self) -> None:
        path = self._node.world.path(self._node.position)
        self.membership.look(self._node.roster(), path, trio.current_time(), time.time())

    def spread(self, name: str, items: list[Any]) -> None:
        self.membership.exchange.spread(name, items)

    def take(self, judged: list[Judged]) -> None:
        taken = self.membership.take_documents(judged)
        if self._node.key_ring is not None:
            self._node.key_ring.follow(taken)

    async def save(self) -> bool:
        return True


class FakeOrders:
    """Orders to the nodes of a world: `hung` ones are silent, `gone` ones and missing ones down, `older` ones of an
    older release; `lying` ones give the answer that stands there. Without the root there is no coordinator."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self.given: list[tuple[str, Ranges | None, float]] = []
        self.signed: list[dict[str, Any]] = []
        self.payloads: list[bytes] = []
        self.held: list[Overview] = []
        self.past: list[tuple[Overview, float]] = []
        self.folds: dict[str, Fold] = {}
        self.published: list[tuple[str, Record, float]] = []
        self.awaited: dict[bytes, Answer] = {}

    def waiting(self, tag: bytes) -> Waiting | None:
        """A command of `exec` that has just got its answer."""
        if tag not in self.awaited:
            return None
        found = Waiting("exec", lambda _: None)
        found.take(self.awaited[tag])
        found.is_over.set()
        return found

    @property
    def is_settled(self) -> bool:
        """A node that has just got its place has compared nothing."""
        return self._node.tracker.membership.is_compared(self._node.snapshot().since_s)

    def publish(self, service: str, record: Record, interval_s: float) -> None:
        self.published.append((service, record, interval_s))

    def folded(self, service: str) -> Fold:
        return self.folds.get(service, Fold({}, Coverage(1, 0), 0.0))

    def report_services(self) -> list[str]:
        return list(self.folds)

    async def order(
        self, service: str, payload: bytes, targets: Ranges | None, left_s: float, **given: Any
    ) -> Answer:
        given.pop("progress", None)
        self.given.append((service, targets, left_s))
        self.signed.append(given)
        self.payloads.append(payload)
        world = self._node.world
        register = self._node.tracker.membership.register
        known = register.positions(State.UP, State.DOWN)
        wanted = Ranges.of((*world.leaders, *known)) if targets is None else targets
        branch = self._branch()
        above = OLDER if world.older.intersection(world.path(self._node.position)[:1]) else NO_COORDINATOR
        if branch is not None and above is not OLDER:
            await trio.sleep(left_s)
        causes = (
            dict.fromkeys(world.hung, SILENT) | dict.fromkeys(world.gone, DOWN) | dict.fromkeys(world.older, OLDER)
        )
        causes |= {each: DOWN for each, liveness in world.liveness.items() if liveness is Liveness.MISSING}
        causes |= dict.fromkeys(world.cut_off, MOVED)
        causes |= {each: DOWN if each in known else UNKNOWN for each in wanted if each not in world.leaders}
        causes |= {each: above for each in wanted if branch is not None and each not in branch}
        issuer, authority = self._node.position, given.get("authority", b"")
        order = order_of(given["tag"], service, payload, targets, issuer, authority=authority, receipts=True)
        told = defaultdict[bytes, list[int]](list)
        missing = defaultdict[str, list[int]](list)
        for each in wanted:
            if each in causes:
                missing[causes[each]].append(each)
            elif world.samples and payload and service == "metrics" and each not in world.lying:
                question = msgspec.msgpack.decode(payload, type=ClassQuestion)
                told[class_in(world.samples.get(each, {}), question)].append(each)
            else:
                lie = world.lying.get(each)
                result = await self._result(each, service, payload) if lie is None else lie
                told[self._receipted(each, result, order) if given.get("receipts") else result].append(each)
        return Answer(
            targets=wanted,
            groups=tuple((result, Ranges.of(nodes)) for result, nodes in told.items()),
            missing=tuple((cause, Ranges.of(nodes)) for cause, nodes in sorted(missing.items())),
            is_resolved=branch is None or targets is not None,
        )

    def under_way(self) -> list[Overview]:
        return self.held

    def ended(self) -> list[tuple[Overview, float]]:
        return self.past

    def sizes(self) -> dict[str, int]:
        return {"order_orders": len(self.held), "order_held_bytes": 0}

    @property
    def leader_round_trip_s(self) -> float:
        return 0.0004 if self._node.world.path(self._node.position) else 0.0

    async def _result(self, position: int, service: str, payload: bytes) -> bytes:
        wanted = importlib.import_module(f"subord.services.{service}.core").SERVICE
        if isinstance(wanted, ReportService) and not payload:
            return encode_fold(self.folded(service))
        answer: Callable[[FakeNode, bytes], Awaitable[bytes]] | None = wanted.answer
        if answer is None:  # it has effects
            return b"done"
        return await answer(
            self._node if position == self._node.position else self._node.world.node(position), payload
        )

    def _branch(self) -> list[int] | None:
        """The branch that answers while the root does not; None: it does."""
        world, path = self._node.world, (*self._node.world.path(self._node.position), self._node.position)
        away = world.hung | world.gone | world.older
        if path[0] not in away:
            return None
        highest = self._node.position
        for each in reversed(path):
            if each in away:
                break
            highest = each
        return world.below(highest)

    def _receipted(self, position: int, result: bytes, order: Order) -> bytes:
        """With the receipt of a node; `false_receipts` are of the node's leader."""
        world = self._node.world
        by = world.path(position)[-1] if position in world.false_receipts else position
        order = msgspec.structs.replace(order, receipts=position not in world.without_receipts)
        return receipts.signed(signer_of(by), self._node.gate.cluster, position, order, result)


class FakeShares:
    """Without a document, unless a test gives it an overview."""

    def __init__(self) -> None:
        self.state = Following("none")
        self.classes: tuple[str, ...] = ()
        self.found = Branches(None, 0, (), "", 0, None, (), 1, 0, (), (), (), None, None, "", {})

    def overview(self) -> Branches:
        return self.found


class FakeElastic:
    """Without a plan, unless a test gives it a state."""

    def __init__(self) -> None:
        self.state = ElasticState(word="none")
        self.batch = ""
        self.kinds: tuple[str, ...] = ()
        self.polls: list[Poll] = []
        self.asked = 0

    async def poll_soon(self) -> bool:
        await trio.lowlevel.checkpoint()
        self.asked += self.state.word == MANAGES
        return self.state.word == MANAGES


class FakeMachines:
    """Without a plan, and no server, unless a test gives it a state."""

    def __init__(self) -> None:
        self.state = MachinesState(word="none")
        self.server: ServerState | None = None
        self.uri = ""
        self.batch = ""


class FakeTransfer:
    """Without a plan, unless a test gives it a state."""

    def __init__(self) -> None:
        self.state = TransferState(word="none")
        self.config = TransferConfig()


class FakeHosts:
    """Without a table, unless a test gives it a state."""

    def __init__(self) -> None:
        self.state = HostsState("none")


def signer_of(position: int) -> Ed25519Signer:
    """The identity of a node."""
    return Ed25519Signer(bytes([position % 256]) * 32)


class FakeNode:
    """One node of a world; has the interface `subord.api.node_api.NodeApi`."""

    def __init__(self, world: World, position: int) -> None:
        self.world = world
        self.position = position
        self.names = world.names
        self.resolved_names = ResolvedNames(world.resolved.get, lambda: world.own_name)
        self.counters = Counters()
        self.key_ring = world.key_rings.get(position)
        self.identity = Identity(signer_of(position), "", self.address, 0.0)
        self.peers = PeerIdentities()
        self.reported: list[float] = []  # the performance as it is reported to the core
        self.performance = PerformanceMeter(world.given, self.counters, self.reported.append, time.monotonic)
        self.started_mono = time.monotonic()
        self.port = 7700
        self.log = Log()
        self.web_port: int | None = 9717
        self.metrics = MetricsConfig()
        self.tracker = FakeTracker(self)
        cluster = "", Terms.of(world.settings).network
        self.gate = Gate(FakeVerifier(), cluster, self.tracker.membership.revocations, self.counters)
        self.orders = FakeOrders(self)
        self.shares = FakeShares()
        self.elastic = FakeElastic()
        self.hosts = FakeHosts()
        self.machines = FakeMachines()
        self.transfer = FakeTransfer()
        self.quiet_s = 5.0
        self.placed = True

    @property
    def settings(self) -> Settings:
        return self.world.settings

    @property
    def operators_path(self) -> str:
        return self.world.given.operators

    @property
    def address(self) -> str:
        return self.settings.network.address_text_of(self.position)

    def snapshot(self) -> Snapshot:
        world = self.world
        level, offset = self.settings.numbering.level_and_offset(self.position)
        path, below = world.path(self.position), world.below(self.position)
        return Snapshot(
            position=self.position,
            level=level,
            offset=offset,
            incarnation=1,
            phase="attached" if self.placed else "seeking",
            place=world.place(self.position) if self.placed else None,
            leader=world.leaders.get(self.position),
            since_s=1.0 if self.position in world.newly_placed else 75.0,
            home=self.settings.numbering.computed_leader(self.position),
            root=path[0] if path else self.position,
            path=path,
            alternates=(),
            adrift=False,
            subordinates=tuple(
                self._edge(each) for each in sorted(below) if world.leaders.get(each) == self.position
            ),
            subtree_nodes=len(below),
            subtree_not_home=sum(world.place(each) is Place.GUEST for each in below),
            leader_changes=1,
            exchanges=2,
            refusals=world.refusals,
            refused=None if path else world.refused,
            tables={"rows": len(below)},
            ranking=world.ranking,
        )

    def roster(self) -> RosterView:
        world, path = self.world, self.world.path(self.position)
        return RosterView(
            owner=self.position,
            is_root=not path,
            root=path[0] if path else self.position,
            leader=world.leaders.get(self.position),
            quiet_s=self.quiet_s,
            rows=tuple(self._row(each) for each in world.below(self.position)),
            refused=None if path else world.refused,
        )

    def why(self) -> Why:
        leader = self.world.leaders[self.position]
        return Why(
            position=self.position,
            place=self.world.place(self.position),
            leader=leader,
            reason="the computed leader accepted",
            ranked=tuple(range(1, self.position)),
            asked=() if leader is None else (Asked(position=leader, answer="accepted", ago_s=3.0),),
            ranking=self.world.ranking,
        )

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:  # noqa: ARG002
        world = self.world
        position = world.settings.network.position_of(address)
        assert position is not None
        world.asked.append(position)
        if position in world.hung:
            await trio.sleep_forever()
        await trio.sleep(world.delays_s.get(position, 0.0))
        if position in world.gone or position not in world.leaders:
            return AskFailure("does not answer")
        return world.lying.get(position) or await peer_answers.answer(world.node(position), question)

    def _edge(self, position: int) -> Edge:
        return Edge(
            position=position,
            place=self.world.place(position),
            incarnation=1,
            since_s=60.0,
            heard_s=0.25,
            below=len(self.world.below(position)),
            silent=False,
        )

    def _row(self, position: int) -> RosterRow:
        round_trip_s, performance = self.world.numbers.get(position, (None, None))
        return RosterRow(
            position=position,
            leader=self.world.leaders[position],
            place=self.world.place(position),
            incarnation=1,
            since_s=self.world.age_s(position),
            liveness=self.world.liveness.get(position, Liveness.LIVE),
            performance=performance,
            round_trip_s=round_trip_s,
        )
