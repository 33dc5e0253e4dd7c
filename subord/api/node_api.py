"""What the API may use of a running node.

The API reads snapshots and counters, and lets the node ask other nodes. The few changes that it makes go through the
objects below: the key ring, the log level and the count of jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from subord.config.schema import MetricsConfig, TransferConfig
from subord.core.carriage.blobs.manifests import Name
from subord.core.carriage.engine.interface import Answer, Overview
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.ledger.bodies import Record as LedgerRecord
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.shares.interface import Overview as Branches
from subord.core.settings import Settings
from subord.core.view import Position, RosterView, Snapshot, Why
from subord.runtime.blobs.holds import BlobHolds
from subord.runtime.counters import Counters
from subord.runtime.elastic.state import Poll
from subord.runtime.elastic.state import State as ElasticState
from subord.runtime.hosts.state import State as HostsState
from subord.runtime.jobs.meter import PerformanceMeter
from subord.runtime.log.logger import Log
from subord.runtime.machines.state import ServerState
from subord.runtime.machines.state import State as MachinesState
from subord.runtime.names import ResolvedNames
from subord.runtime.net.peer_query import AskFailure, Question
from subord.runtime.orders.waiting import Waiting
from subord.runtime.security.gate import Gate
from subord.runtime.security.identity import Identity
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.peer_identity import PeerIdentities
from subord.runtime.shares.state import State
from subord.runtime.state.tracker import Tracker
from subord.runtime.transfer.state import State as TransferState

__all__ = ["AskFailure", "NodeApi", "Question"]


class Orders(Protocol):
    """Gives orders, and waits for their answers."""

    @property
    def leader_round_trip_s(self) -> float:
        """Of the edge to the leader, as the kernel measures it; 0: unknown."""

    @property
    def is_settled(self) -> bool:
        """Whether this node is a root that knows all members that it can know."""

    async def order(
        self,
        service: str,
        payload: bytes,
        targets: Ranges | None,
        left_s: float,
        *,
        tag: bytes = b"",
        authority: bytes = b"",
        receipts: bool = False,
        progress: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """The answer, within `left_s` and the time of an answer to this process. `targets` None: all members. `tag`
        and `authority`: of a signed order. `receipts`: each result is signed by its node. `progress` gets what is
        known so far."""

    def waiting(self, tag: bytes) -> Waiting | None:
        """The command of this node that waits for an order, if its results count as they come."""

    def under_way(self) -> list[Overview]:
        """The orders at this node, also those that pass."""

    def ended(self) -> list[tuple[Overview, float]]:
        """The last orders that ended, newest first, and how many seconds ago."""

    def sizes(self) -> dict[str, int]:
        """Entries by table."""

    def publish(self, service: str, record: Record, interval_s: float) -> None:
        """The record of this node for a report, to be renewed every `interval_s`."""

    def folded(self, service: str) -> Fold:
        """What this node knows of its branch; at the root of all members."""

    def report_services(self) -> list[str]:
        """With a report at this node."""


class Ledger(Protocol):
    """Keeps records until a sink has them."""

    async def append(self, records: tuple[LedgerRecord, ...]) -> str:
        """Keep all of them; the answer: "", or a sentence that says why none is kept."""


class Blobs(Protocol):
    """Keeps blobs on the disk of this node, and fetches those of others. Each method raises BlobError, but
    `release`."""

    async def put(self, path: Path) -> Name:
        """Keep a file as a blob, until `release`."""

    async def fetch(self, blob: Name, source: Position) -> None:
        """Get a blob, and keep it until `release`, one for each call. What is cancelled goes on until then."""

    async def copy(self, blob: Name, path: Path) -> None:
        """Write a blob that is here as a file."""

    def release(self, blob: Name) -> None:
        """One user needs it no more."""


class Shares(Protocol):
    """The shares of this node and its branch."""

    @property
    def state(self) -> State:
        """How this node follows them."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Those that the configuration of this node has groups for, each once."""

    def overview(self) -> Branches:
        """What its branch reports, and what it has decided."""


class Elastic(Protocol):
    """Elastic growth, as the agent of this node tells it."""

    @property
    def state(self) -> ElasticState:
        """How this node takes part in it."""

    @property
    def batch(self) -> str:
        """The batch system whose queue this node has, by its configuration; "": none."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of nodes that its configuration has."""

    @property
    def polls(self) -> Sequence[Poll]:
        """The last ones that this node has seen as the queue's node, the oldest first."""

    async def poll_soon(self) -> bool:
        """Look at the queue now; False: this node does not manage."""


class Machines(Protocol):
    """Virtual machines, as the agent of this node tells them."""

    @property
    def state(self) -> MachinesState:
        """How this node takes part, and what it decides."""

    @property
    def server(self) -> ServerState | None:
        """What is on this node; None: its agent has not told it."""

    @property
    def uri(self) -> str:
        """The libvirt of this node, by its configuration; "": it is no server."""

    @property
    def batch(self) -> str:
        """The batch system whose queues this node has, by its configuration; "": none."""


class Transfer(Protocol):
    """Transfer queues, as the agent of this node tells them."""

    @property
    def state(self) -> TransferState:
        """How this node takes part, and which jobs cross."""

    @property
    def config(self) -> TransferConfig:
        """Of this node."""


class Hosts(Protocol):
    """The table of hosts, as the agent of this node follows it."""

    @property
    def state(self) -> HostsState:
        """Whether its names are in the file of this node."""


class NodeApi(Protocol):
    """A running node as the API sees it. All of it is cheap, except `ask`."""

    @property
    def settings(self) -> Settings: ...
    @property
    def names(self) -> Mapping[str, str]:
        """Names by address, for display; there may be none."""

    @property
    def resolved_names(self) -> ResolvedNames:
        """Names of members by the resolver of this host."""

    @property
    def address(self) -> str:
        """The address of this node, as `Network.address_text_of` spells it."""

    @property
    def port(self) -> int:
        """The UDP port."""

    @property
    def web_port(self) -> int | None:
        """The TCP port of the web address; None: it is off."""

    @property
    def started_mono(self) -> float:
        """`time.monotonic()` at the start, in seconds."""

    @property
    def counters(self) -> Counters: ...
    @property
    def metrics(self) -> MetricsConfig:
        """Whether and from where this node publishes its metrics."""

    def snapshot(self) -> Snapshot: ...
    def roster(self) -> RosterView: ...
    def why(self) -> Why: ...

    @property
    def key_ring(self) -> RunningKeyRing | None:
        """The key ring; None: nothing is sealed."""

    @property
    def gate(self) -> Gate:
        """Judges the orders of operators."""

    @property
    def operators_path(self) -> str:
        """The operators file."""

    @property
    def identity(self) -> Identity:
        """The identity of this node."""

    @property
    def peers(self) -> PeerIdentities:
        """The identities of other nodes, as streams have shown them."""

    @property
    def log(self) -> Log: ...

    @property
    def performance(self) -> PerformanceMeter: ...

    @property
    def orders(self) -> Orders:
        """Gives orders to other nodes."""

    @property
    def ledger(self) -> Ledger:
        """Takes records of writers."""

    @property
    def blobs(self) -> Blobs:
        """Files for services, named by their hash."""

    @property
    def held_blobs(self) -> BlobHolds:
        """Bytes that processes of this host give and take."""

    @property
    def shares(self) -> Shares:
        """How nodes are divided among classes of work."""

    @property
    def elastic(self) -> Elastic:
        """Whether nodes come and go with the queue of a batch system."""

    @property
    def machines(self) -> Machines:
        """Which virtual machines are on, and why."""

    @property
    def transfer(self) -> Transfer:
        """Which jobs cross between this cluster and another one."""

    @property
    def hosts(self) -> Hosts:
        """Names and addresses of added nodes."""

    @property
    def tracker(self) -> Tracker:
        """The tracker of the nodes below this one."""

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        """The JSON document with which `peer_answers.answer` of the node at `address` answers this question.

        Takes at most `timeout_s` and a bounded number of bytes; never raises for anything that the other node does.
        """
