"""A whole cluster on one event heap: the unchanged core, the real wire, and virtual time.

Every message is encoded and decoded (subord.wire.codec), so a message that does not fit a datagram is found. Time
jumps to the next event on the heap. The seed decides everything: the same seed gives the same run on any machine.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from subord.core.events import (
    EdgeClosed,
    Event,
    Gone,
    Known,
    Leave,
    Measure,
    Notice,
    Performance,
    PlaceChanged,
    Publish,
    Received,
    Reply,
    Seeds,
    Send,
    Start,
    Unreachable,
    Unreadable,
    Wakeup,
)
from subord.core.messages import Message, Versions
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.snapshots import is_memorable
from subord.core.view import Incarnation, Position
from subord.sim import limits
from subord.sim.world.edges import KERNEL_S, Edges
from subord.sim.world.identities import Identities
from subord.sim.world.links import Weather
from subord.sim.world.observers import Carried, Watcher
from subord.sim.world.probes import send_probe
from subord.sim.world.storage import Storage
from subord.sim.world.transit import Transit
from subord.wire.codec import WIRE, Wire
from subord.wire.receiving import Receiver
from subord.wire.versions import PeerVersions

if TYPE_CHECKING:
    from subord.sim.world.members import Members
    from subord.sim.world.sealed import Seals

WAITING_MAX = 256  # datagrams in the socket of a stopped process: about a kernel's default
BOOT_INCARNATION = 1_000_000
WAKEUP = Wakeup()
TICK_S = 1e-6
AT_ONCE_MAX = 10_000_000  # calls in one instant


class Unread(NamedTuple):
    """A sealed datagram in the socket of a stopped process, opened when the process reads it."""

    source: Position
    data: bytes
    by_multicast: bool


class World:
    """Live nodes by position. Times are seconds of virtual time; a node's own clock may be ahead of it."""

    def __init__(self, settings: Settings, seed: int = 1, *, disk: bool = False) -> None:
        self.settings = settings
        self.now = 0.0
        self.nodes: dict[Position, Node] = {}
        self.hosts: set[Position] = set()  # addresses whose host answers, even without daemon
        self.paused: dict[Position, list[Event | Unread]] = {}  # stopped by SIGSTOP -> what waits in its socket
        self.slow: set[Position] = set()  # of the stopped: those that continue by themselves
        self.jobs: dict[Position, float] = {}  # per unit of time, as reported to the node
        self.refitted_at: dict[Position, float] = {}  # when its performance changed
        self.multicast = False  # whether announcements of roots arrive
        self.set_back_s: dict[Position, float] = {}  # how far the wall clock of a host was set back
        self.seeds: tuple[Position, ...] = ()  # in the configuration of every node
        self.start_with = Start()
        self.own_settings: dict[Position, Settings] = {}  # of nodes that do not share `settings`
        self.unjudged: set[Position] = set()  # members that lie or have lied, and addresses of two hosts
        self.wires: defaultdict[Position, Wire] = defaultdict(lambda: WIRE)  # tests set others
        self.numbers: dict[Position, int] = {}  # of addresses as the oracle counts; missing: the position
        self.weather = Weather(Random(f"{seed}/network"))
        self.transit = Transit(Random(f"{seed}/transit"))
        self.fate: Callable[[Position, Position, Message], Sequence[float]] = self._network_fate
        self.chance = Random(f"{seed}/world")
        self.events = 0  # handled so far
        self.sent: Counter[str] = Counter()
        self.sent_bytes = 0
        self.dropped: Counter[str] = Counter()  # datagrams, by reason
        self.overflowed = 0  # datagrams lost because the socket of a stopped process was full
        self.moved_at = 0.0  # time of the last change of place
        self.watcher: Watcher | None = None
        self.on_notice: Callable[[Position, Notice], None] = lambda _position, _notice: None
        self.on_message: Callable[[Position, Position, Message, int], None] | None = None  # int: copies that arrive
        self._seed = seed
        self.peer_versions: dict[Position, PeerVersions] = {}
        self.receivers: dict[Position, Receiver] = {}
        self.disks = Storage(self, are_there=disk)
        self.edges = Edges(self)
        self.identities = Identities(self, seed, are_on=False)
        self.seals: Seals | None = None  # None: nothing is sealed
        self.members: Members | None = None  # None: no node remembers the members
        self.carried = Carried()  # nothing
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._tie = count()
        self.boots: Counter[Position] = Counter()
        self._lives: dict[tuple[Position, Incarnation], int] = {}
        self._ahead_s: dict[Position, float] = {}
        self._addresses: dict[Position, str] = {}  # a cache; the cache of the network is bounded
        self._wake_at: dict[Position, float] = {}

    # -- lives --------------------------------------------------------------------------------------------

    def start(self, position: Position, known: tuple[Position, ...] = (), *, incarnation: int | None = None) -> None:
        """Start a daemon, also again: its incarnation is then higher, unless one is given."""
        self.boots[position] += 1
        boot = self.boots[position]
        self.hosts.add(position)
        self.paused.pop(position, None)
        if incarnation is None:
            incarnation = max(boot, self.incarnation_of(boot) - int(1000 * self.set_back_s.get(position, 0.0)))
        remembered, memory = self.disks.of(position), Known(known)
        if remembered is not None:  # as daemon.py does
            incarnation = max(incarnation, remembered.incarnation + 1)
            self.disks.begin(position, incarnation)
            memory = Known((*known, *remembered.peers), remembered.leader, remembered.led, remembered.standing)
        settings, chance = self.own_settings.get(position, self.settings), Random(f"{self._seed}/{position}/{boot}")
        self.speak(position, self.wires[position])
        given = self.identities.given(position)
        self.nodes[position] = Node(settings, position, incarnation, chance, self.clock(position), **given)
        self._lives[position, incarnation] = boot
        self.edges.begin(position)
        if self.seals is not None:
            self.seals.begin(position, incarnation)
        if self.members is not None:
            self.members.begin(position)
        self.carried.begin(position)
        self._wake_at[position] = inf
        if memory != Known(()):
            self.feed(position, memory)
        if self.seeds:
            self.feed(position, Seeds(self.seeds))
        self.feed(position, self.start_with)
        if position in self.jobs:
            self.feed(position, Performance(self.jobs[position]))

    def speak(self, position: Position, wire: Wire) -> None:
        """Set the wire of a process from now on; it forgets the versions that it has agreed on."""
        self.wires[position] = wire
        self.peer_versions[position] = versions = PeerVersions(wire.spoken)
        self.receivers[position] = Receiver(wire, versions, self.now)

    def incarnation_of(self, boot: int) -> Incarnation:
        """The incarnation from a host's own clock at its `boot`-th start, as in daemon.py."""
        return BOOT_INCARNATION + int(self.now * 1000) + boot

    def crash(self, position: Position) -> None:
        """The process dies (kill -9), and the kernel closes its streams."""
        self.kill(position)
        self.edges.close(position)

    def kill(self, position: Position) -> None:
        """The process dies without closing its streams; its host answers messages as unreachable."""
        del self.nodes[position]
        if self.members is not None:
            self.members.end(position)
        self.carried.end(position)
        self.paused.pop(position, None)

    def vanish(self, position: Position) -> None:
        """The host dies with its daemon, silently."""
        self.kill(position)
        self.hosts.discard(position)
        self.edges.forget(position)

    def reuse(self, position: Position) -> None:
        """Another host, with an empty disk and another clock, takes the address at once."""
        self.vanish(position)
        self.disks.lose(position)
        if self.members is not None:
            self.members.lose(position)
        self.carried.lose(position)
        self.identities.replace(position)
        self.start(position, incarnation=self.chance.randrange(1, 2 * BOOT_INCARNATION))

    def leave(self, position: Position, grace_s: float = 2.0) -> None:
        """SIGTERM."""
        self.disks.save(position, self.boots[position])
        if self.members is not None and position not in self.paused:
            self.members.leave(position)
        self.feed(position, Leave(grace_s))

    def pause(self, position: Position) -> None:
        """SIGSTOP: its clock continues, and arriving datagrams wait."""
        assert position in self.nodes
        self.paused.setdefault(position, [])

    def resume(self, position: Position) -> None:
        """SIGCONT: waiting datagrams are read, before or after the timer at random."""
        waiting = self.paused.pop(position)
        timer_first = self.chance.random() < 0.5
        if timer_first:
            self._wake(position)
        for event in waiting:
            if isinstance(event, Unread):
                self.deliver(event.source, position, event.data, event.by_multicast)
            else:
                self.feed(position, event)
        if not timer_first:
            self._wake(position)
        self.carried.resumed(position)

    def jump(self, position: Position, seconds: float) -> None:
        """Its clock jumps forward."""
        self._ahead_s[position] = self._ahead_s.get(position, 0.0) + seconds
        self._wake(position)
        self.carried.resumed(position)

    # -- time ---------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Handle everything that happens within `seconds`."""
        until = self.now + seconds
        heap, at_once = self._heap, 0
        while heap and heap[0][0] <= until:
            at, _, act, words = heapq.heappop(heap)
            if at > self.now:
                self.now, at_once = at, 0
            else:
                at_once += 1
                assert at_once < AT_ONCE_MAX, f"{AT_ONCE_MAX} calls at {self.now} s: {act} {words}"
            act(*words)
        self.now = until

    def after(self, seconds: float, act: Callable[..., None], *words: Any) -> None:
        """Schedule a call."""
        heapq.heappush(self._heap, (self.now + seconds, next(self._tie), act, words))

    def clock(self, position: Position) -> float:
        """The time on the node's own clock."""
        return self.now + self._ahead_s.get(position, 0.0) if self._ahead_s else self.now

    def _fire(self, position: Position, at: float) -> None:
        """A timer fires, unless it was replaced."""
        if at == self._wake_at[position]:
            self._wake(position)

    def _wake(self, position: Position) -> None:
        """Wake the node if its deadline has come; else set its timer."""
        node = self.nodes.get(position)
        if node is None or position in self.paused:
            return
        self._wake_at[position] = inf
        deadline = node.deadline
        if deadline <= self.clock(position):
            self.feed(position, WAKEUP)
        else:
            self._set_timer(position, deadline)

    def _set_timer(self, position: Position, deadline: float) -> None:
        at = deadline - self._ahead_s.get(position, 0.0) if self._ahead_s else deadline
        if at <= self.now < deadline:  # rounded down: else it would fire too early for ever
            at = self.now + TICK_S
        if at < self._wake_at[position]:
            self._wake_at[position] = at
            heapq.heappush(self._heap, (at, next(self._tie), self._fire, (position, at)))

    # -- events ---------------------------------------------------------------------------------------------

    def feed(self, position: Position, event: Event) -> None:
        """Give an event to a node; drop it if the node is gone, and queue it if the node is stopped."""
        node = self.nodes.get(position)
        if node is None:
            return
        if position in self.paused:
            self._wait(position, event)
            return
        watcher = self.watcher
        token = watcher.before(self, position, event) if watcher is not None else None
        actions = node.handle(event, self.clock(position))
        self.events += 1
        for action in actions:
            if isinstance(action, Send):  # most are
                self.post(position, action.target, action.message)
            else:
                self._carry_out(position, event, action)
        deadline = node.deadline
        if deadline < inf and position in self.nodes:
            self._set_timer(position, deadline)
        if watcher is not None:
            watcher.after_event(self, position, event, actions, token)

    def _wait(self, position: Position, event: Event | Unread) -> None:
        waiting = self.paused[position]
        if len(waiting) < WAITING_MAX or isinstance(event, EdgeClosed | Leave | Performance):  # no datagrams
            waiting.append(event)
        else:
            self.overflowed += 1

    def _carry_out(self, position: Position, event: Event, action: Reply | Publish | Measure | Notice) -> None:
        if isinstance(action, Measure):
            send_probe(self, position, action)
            return
        if isinstance(action, Publish):
            self._publish(position, action.message)
            return
        if not isinstance(action, Reply):
            self._note(position, action)
            return
        assert isinstance(event, Received)
        if event.source is not None:
            self.post(position, event.source, action.message)

    def _note(self, position: Position, notice: Notice) -> None:
        node = self.nodes.get(position)  # None: it has just left
        if node is not None and is_memorable(node, notice):
            self.disks.remember(position, self.boots[position])
        if isinstance(notice, PlaceChanged):
            self.moved_at = self.now
        if isinstance(notice, Gone):
            self.nodes.pop(position, None)
            self.carried.end(position)
            self.edges.close(position)
            if self.members is not None:
                self.members.gone(position)
        elif node is not None:
            self.edges.observe(position, notice)
            if self.members is not None:
                self.members.observe(position, notice)
            self.identities.observe(notice)  # the operator forgets a late key once the node has stamped it
        self.on_notice(position, notice)

    # -- datagrams ------------------------------------------------------------------------------------------

    def _network_fate(self, source: Position, target: Position, _message: Message) -> Sequence[float]:
        return self.weather.fate(source, target)

    def post(self, source: Position, target: Position, message: Message, owner: int = 0) -> None:
        """`owner`: whose seal, if not that of `source`."""
        self.sent[type(message).__name__] += 1
        data = self.wires[source].encode(message, self.peer_versions[source].version_for(target))
        if self.seals is not None:
            data = self.seals.seal(source, target, message, data, owner)
        self.sent_bytes += len(data)
        delays = self.fate(source, target, message)
        if self.on_message is not None:
            self.on_message(source, target, message, len(delays))
        self.carry(source, target, data, delays)

    def carry(self, source: Position, target: Position, data: bytes, delays: Sequence[float]) -> None:
        """Send a datagram; `delays` are those of the copies that the network lets through."""
        for delay_s, sent in self.transit.carry(source, target, data, delays, self.now):
            heapq.heappush(self._heap, (self.now + delay_s, next(self._tie), self.deliver, (source, target, sent)))

    def _publish(self, source: Position, message: Message) -> None:
        """To every node, each with a fate of its own; a host without daemon answers nothing."""
        if not self.multicast:
            return
        for version in self.wires[source].spoken:
            self.sent[type(message).__name__] += 1
            data = self.wires[source].encode(message, version)
            for each in (data,) if self.seals is None else self.seals.seal_for_all(source, data):
                self.sent_bytes += len(each)
                for target in self.nodes:
                    for delay_s in self.weather.fate(source, target) if target != source else ():
                        self.after(delay_s, self.deliver, source, target, each, True)

    def deliver(self, source: Position, target: Position, data: bytes, by_multicast: bool = False) -> None:
        """A datagram arrives."""
        if target not in self.nodes:
            heard = target in self.hosts and source in self.nodes and not by_multicast
            if heard and self.weather.fate(target, source):
                self.after(KERNEL_S, self.feed, source, Unreachable(target))
            return
        if self.seals is not None:
            if target in self.paused:
                self._wait(target, Unread(source, data, by_multicast))
                return
            data = self.seals.open(source, target, data, by_multicast=by_multicast)
            if not data:
                return
        arrival = self.receivers[target].receive(source, data, self.now, by_multicast=by_multicast)
        if arrival.answer_versions:
            self._tell_versions(target, source)
        if arrival.message is None:
            self.dropped[arrival.dropped] += 1
            if arrival.is_unreadable:
                self.feed(target, Unreadable(self.address_of(source), data[1]))
        elif arrival.is_for_core:
            self.feed(target, Received(source, self.address_of(source), arrival.message))

    def _tell_versions(self, source: Position, target: Position) -> None:
        wire = self.wires[source]
        message, data = Versions(wire.spoken), wire.versions_datagram
        if self.seals is not None:
            data = self.seals.seal(source, target, message, data)
        for delay_s in self.fate(source, target, message):
            self.after(delay_s, self.deliver, source, target, data)

    def address_of(self, position: Position) -> str:
        """The address of a host, as its neighbours see it."""
        address = self._addresses.get(position)
        if address is None:
            address = self._addresses[position] = self.settings.network.address_text_of(position)
        return address

    # -- reading --------------------------------------------------------------------------------------------

    def living(self) -> list[Position]:
        """Running nodes, without those stopped for good, ascending."""
        return sorted(self.nodes.keys() - (self.paused.keys() - self.slow))

    @property
    def nodes_ever(self) -> int:
        """The number of addresses that have had a daemon."""
        return len(self.boots)

    def life(self, position: Position, incarnation: Incarnation) -> int:
        """Which life of `position` had this incarnation, counted from 1; 0: none."""
        return self._lives.get((position, incarnation), 0)

    def refit(self, position: Position, jobs: float) -> None:
        """Set the performance of its machine: completed jobs per unit of time."""
        before = self.jobs.get(position)
        if before is None or not limits.is_class_of(limits.exact_class(before), jobs):
            self.refitted_at[position] = self.now
        self.jobs[position] = jobs

    def is_due(self, position: Position) -> bool:
        """Whether its deadline has come: then the next event of any kind is answered together with the timer."""
        return self.nodes[position].deadline <= self.clock(position)

    def leader_of(self, position: Position) -> Position:
        """0: none."""
        leader = self.nodes[position].uplink.leader
        return leader.position if leader else 0
