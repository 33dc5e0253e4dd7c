"""Stories and examples for the documents, run by the real protocol core on a simulated network.

The messages come from `subord.core`, the outputs from `subord.api` and `subord.cli`. Virtual time and fixed seeds
make every run the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec
from small_world import SmallWorld

from subord.api.models import nodes, trees
from subord.cli import status as status_command
from subord.cli import why as why_command
from subord.client import drawing
from subord.config.schema import TransferConfig
from subord.core import snapshots
from subord.core.address.network import Network
from subord.core.carriage.documents import Documents
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.shares.interface import DOCUMENT, Branch, OfBranch, Overview
from subord.core.carriage.shares.plan import order_of, read
from subord.core.members.membership import Membership
from subord.core.members.register import Register
from subord.core.messages import Beat, Message, Versions
from subord.core.settings import Settings
from subord.core.view import Position, Ranking, RosterView, Snapshot, Why
from subord.runtime.counters import Counters
from subord.runtime.elastic.state import MANAGES, NONE
from subord.runtime.elastic.state import State as ElasticState
from subord.runtime.machines.state import KindCount, ServerState
from subord.runtime.machines.state import State as MachinesState
from subord.runtime.security.identity import Identity
from subord.runtime.security.peer_identity import PeerIdentities
from subord.runtime.shares.state import OBEYS, State
from subord.runtime.transfer.state import TRANSFERS
from subord.runtime.transfer.state import State as TransferState
from subord.sealing.identity import Ed25519Signer
from subord.sealing.keys import key_of, keyring_of
from subord.sim import words
from subord.sim.world.later_release import BOTH

SETTINGS = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
BEGAN = 1_767_603_600.0  # 2026-01-05 09:00 UTC, when the story begins
DAY_S = 86400.0


class Tracked:
    """Keeps the memory of a node, as runtime/state/tracker.py does, with the time of the story."""

    def __init__(self, world: World, position: Position) -> None:
        self._world, self._node = world, world.nodes[position]
        self.membership = Membership(Register(SETTINGS.network.size), Documents())
        self.history = self.membership.history

    @property
    def wall_ms(self) -> int:
        return int(1000 * (BEGAN + self._world.now))

    def look(self) -> None:
        now = self._world.now
        self.membership.look(snapshots.roster(self._node, now), self._node.uplink.path, now, BEGAN + now)


class NodeApi:
    """One node of a story with the interface `subord.api.node_api.NodeApi`, without `ask`."""

    def __init__(self, world: World, position: Position, tracker: Tracked | None = None) -> None:
        self._world, self._node = world, world.nodes[position]
        self.tracker = tracker or Tracked(world, position)
        self.settings = SETTINGS
        self.address = SETTINGS.network.address_text_of(position)
        self.port = 7117
        self.counters = Counters()
        self.key_ring = SimpleNamespace(ring=keyring_of(key_of(bytes(32))), is_saved=True)
        self.identity = Identity(Ed25519Signer(bytes([position]) * 32), "", self.address, BEGAN - DAY_S)
        self.identity.is_saved = True
        self.peers = PeerIdentities()
        self.performance = SimpleNamespace(jobs_per_hour=12.0)
        self.log = SimpleNamespace(counts={"written": 1})
        load = Fold({}, Coverage(1, 1), 0.5)
        self.shares: Any = SimpleNamespace(overview=lambda: SimpleNamespace(plan=None))
        self.elastic: Any = SimpleNamespace(state=ElasticState(word=NONE), batch="", kinds=(), polls=())
        self.transfer: Any = SimpleNamespace(state=TransferState(word=NONE), config=TransferConfig())
        self.machines: Any = SimpleNamespace(state=MachinesState(word=NONE), server=None, uri="", batch="")
        self.orders: Any = SimpleNamespace(
            under_way=list, report_services=lambda: ["load"], folded=lambda _: load, is_settled=True
        )

    @property
    def started_mono(self) -> float:
        return time.monotonic() - self._world.now

    def snapshot(self) -> Snapshot:
        return snapshots.snapshot(self._node, self._world.now)

    def roster(self) -> RosterView:
        return snapshots.roster(self._node, self._world.now)

    def why(self) -> Why:
        return snapshots.why(self._node, self._world.now)


class World(SmallWorld):
    """A small world that can record what is sent."""

    def __init__(self, *positions: Position) -> None:
        super().__init__(SETTINGS)
        self.lines: list[tuple[float, str]] = []
        self.failed = set[tuple[Position, Position]]()
        self.cut: Callable[[Position, Position], bool] = lambda _source, _target: False
        self.lossy = self._record
        for position in positions:
            self.start(position)

    def _record(self, source: Position, target: Position, message: Message) -> bool:
        """Called for every message that is sent; True: it is lost."""
        text = words.of_message(message)
        if isinstance(message, Beat) and target not in self.nodes:
            text = "beat" if (source, target) not in self.failed else ""  # the first failed one is part of the story
            self.failed.add((source, target))
        if text:
            self.lines.append((self.now, f"{source} -> {target}  {text}"))
        return self.cut(source, target)

    def tree(self) -> dict[str, Any]:
        """The answer of the root to `/v1/tree?form=rows`."""
        (root,) = self.roots()
        shown = NodeApi(self, root)
        document = trees.tree(nodes.roster(SETTINGS, shown.roster()))
        answer: dict[str, Any] = json.loads(msgspec.json.encode(document))
        return answer


def messages_within(world: World, act: Callable[[World], object], seconds: float) -> str:
    """The messages within `seconds` of virtual time after `act`."""
    world.lines.clear()
    world.failed.clear()
    began = world.now
    act(world)
    world.run(seconds)
    return as_lines(world.lines, began)


def as_lines(lines: list[tuple[float, str]], began: float) -> str:
    """Lines with the milliseconds since `began`."""
    return "```text\n" + "".join(f"{(at - began) * 1000:6.0f} ms  {text}\n" for at, text in lines) + "```\n"


def settled(*positions: Position) -> World:
    world = World(*positions)
    world.run(60)
    return world


def join() -> str:
    return messages_within(settled(1, 2, 3, 4), lambda world: world.start(5), 0.1)


def process_dies() -> str:
    return messages_within(settled(*range(1, 8)), lambda world: world.crash(2), 0.6)


def home_returns() -> str:
    world = settled(*range(1, 8))
    world.crash(2)
    world.run(60)
    return messages_within(world, lambda world: world.start(2), 0.1)


def goodbye() -> str:
    return messages_within(settled(*range(1, 8)), lambda world: world.leave(2), 0.1)


def restart() -> str:
    def quickly(world: World) -> None:
        world.crash(2)
        world.run(0.15)
        world.start(2, known=(1,))

    return messages_within(settled(*range(1, 8)), quickly, 0.2)


def root_dies() -> str:
    return messages_within(settled(*range(1, 8)), lambda world: world.crash(1), 0.6)


def two_roots() -> str:
    world = World()
    world.cut = lambda source, target: (source < 4) != (target < 4)
    world.start_all((1, 2, 3, 4, 5, 8, 9))
    world.run(60)
    world.cut = lambda _source, _target: False
    world.run_until(lambda: len(world.roots()) == 1, 30)
    world.run(0.08)
    lines = [(at, text) for at, text in world.lines if at > world.now - 0.1]
    return as_lines(lines, lines[0][0])


class Mixed(World):
    """Records the wire version of every message."""

    def _record(self, source: Position, target: Position, message: Message) -> bool:
        before = len(self.lines)
        is_lost = super()._record(source, target, message)
        if len(self.lines) > before and not isinstance(message, Versions):
            at, text = self.lines.pop()
            self.lines.append((at, f"{text} (version {self.peer_versions[source].version_for(target)})"))
        return is_lost


def versions() -> str:
    """Nodes 1 and 5 run an earlier release than 2 and 4."""
    world = Mixed()
    world.wires |= {2: BOTH, 4: BOTH}
    world.start_all((1, 2))
    world.run(60)
    return messages_within(world, lambda world: world.start_all((4, 5)), 0.1)


STORIES: dict[str, Callable[[], str]] = {
    "join": join,
    "process-dies": process_dies,
    "home-returns": home_returns,
    "goodbye": goodbye,
    "restart": restart,
    "root-dies": root_dies,
    "two-roots": two_roots,
    "versions": versions,
}


@cache
def paper() -> World:
    """Figure 1 of the paper: 11 nodes, p = 2, some minutes after their start."""
    world = World(*range(1, 12))
    world.run(400)
    return world


@cache
def paper_without_2() -> World:
    world = World(*range(1, 12))
    world.run(400)
    world.crash(2)
    world.run(12)
    return world


class Measuring(NodeApi):
    """Also has measurements, for mappings other than `ip`."""

    def snapshot(self) -> Snapshot:
        return msgspec.structs.replace(super().snapshot(), ranking=Ranking(mapping="latency"))


def scraped() -> NodeApi:
    """A node that has a value for every metric."""
    shown = Measuring(paper(), 4)
    counters = shown.counters
    for counted in (counters.messages_sent, counters.bytes_sent):
        counted["beat"] += 1
    counters.dropped["malformed"] += 1
    counters.send_errors["EHOSTUNREACH"] += 1
    counters.readings_failed["missing"] += 1
    shown.shares = SimpleNamespace(state=State(OBEYS), overview=_shares)
    shown.elastic.state = ElasticState(word=MANAGES, at=1.0, max_nodes=4)
    shown.machines.state = MachinesState(word=MANAGES, at=1.0, kinds=(KindCount(type="alma"),))
    shown.transfer.state = TransferState(
        word=TRANSFERS, cluster="north", at=1.0, heard_at=1.0, pending=0, peer_pending=0
    )
    shown.machines.server = ServerState(name="10.0.0.4", at=1.0)
    return shown


def _shares() -> Overview:
    """Of a root that is alone."""
    plan = read(order_of(1, 0, 2000, (("web", 60_000), ("batch", 40_000))))
    assert plan is not None
    own = OfBranch(1, Branch((60.0, 40.0), (50.0, 40.0), (False, True), 1), said_nodes=1, round=3, age_s=0.5)
    return Overview(
        plan,
        round=3,
        wanted=plan.wanted,
        wanted_from=DOCUMENT,
        row_round=0,
        row_age_s=None,
        obeyed=plan.wanted,
        asked=1,
        told=1,
        branches=(own,),
        left_out=(),
        order=(),
        decided=None,
        decided_age_s=None,
        undecided="",
        dropped={},
    )


def _screen(command: str, lines: list[str]) -> str:
    return "```text\n" + "\n".join([f"$ {command}", *lines]) + "\n```\n"


def _drawn(document: dict[str, Any]) -> list[str]:
    return drawing.colourless(drawing.picture(document, document["rows"], None, drawing.STROKES)).splitlines()


def tree() -> str:
    return _screen("subord tree", _drawn(paper().tree()))


def tree_healed() -> str:
    return _screen("subord tree", _drawn(paper_without_2().tree()))


def status() -> str:
    document = msgspec.to_builtins(nodes.status(NodeApi(paper(), 4)))
    return _screen("subord status", status_command.text(document))


def why() -> str:
    return _why(paper())


def why_healed() -> str:
    return _why(paper_without_2())


def _why(world: World) -> str:
    document = msgspec.to_builtins(nodes.why(SETTINGS, snapshots.why(world.nodes[4], world.now)))
    return _screen("subord why 10.0.0.4", why_command.text(document))
