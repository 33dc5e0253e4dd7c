"""Feeds datagrams to one settled node, and checks all of its reachable state.

Node 3 of a small tree gets datagrams from its neighbours, from strangers, from its own address and from outside the
network, while the rest of the tree runs. Invariants: a datagram that the wire rejects leaves every reachable value of
the node unchanged; a well-formed one raises nothing; no table exceeds its bound.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from random import Random
from types import GeneratorType

from small_world import SmallWorld

from subord.core.address.network import Network
from subord.core.discovery.peer_cache import OTHERS_MAX, PEERS_MAX
from subord.core.discovery.probe_order import NEAR_MAX
from subord.core.discovery.prober import CALLS_MAX, ROW, TARGETS_MAX
from subord.core.edges.listing import HIDDEN_MAX
from subord.core.events import Action, Event, Received, Reply, Unreadable, Wakeup
from subord.core.messages import Message
from subord.core.node import Node
from subord.core.search.answers import ASKED_MAX
from subord.core.search.rounds import ADVISERS_MAX
from subord.core.settings import Settings
from subord.core.state.refusals import REFUSALS_MAX
from subord.core.vacancies.vacancies import RESERVATIONS_MAX
from subord.wire.codec import Fault, decode, encode
from tests.fuzz import corpus

TARGET = 3
LEADER = 1
FANOUT = 2
OTHERS = (LEADER, 2, 60, 61)  # its leader, a neighbour and two guests
NETWORK = "10.0.0.0/24"
POSITIONS = 254
OUTSIDE = None
SOURCES = (1, 1, 2, 3, 4, 6, 7, 12, 60, 60, 61, 200, POSITIONS, OUTSIDE)
CHUNK = 500  # datagrams between two checks
REST_S = 0.7  # of virtual time after each chunk
LEADER_CHUNKS = 30  # chunks for which the leader is away, and then there
SIZE_MAX = 20_000  # values in the node: 254 rows with all their claims
IN_FLIGHT_MAX = 2 * ROW + 4  # two rows, and proposals home, to an adviser, to the leader, to a better place
UNANSWERED_BEATS_MAX = 16
Decode = Callable[[bytes], Message | Fault]


class BreachError(AssertionError):
    """A datagram violated an invariant."""


class FuzzWorld(SmallWorld):
    """Replies to an address outside the network are encoded and dropped."""

    def _carry_out(self, position: int, event: Event, action: Action) -> None:
        if isinstance(action, Reply) and isinstance(event, Received) and event.source is OUTSIDE:
            encode(action.message)
        else:
            super()._carry_out(position, event, action)


class Fuzzer:
    """Call `take` any number of times. A BreachError names the first violating datagram and its bytes.

    `decode` may be another than the wire's, to test the fuzzer.
    """

    def __init__(self, seed: int = 1, decode: Decode = decode) -> None:
        self._chance = Random(f"{seed}/datagrams")
        self._decode = decode
        self._seed = seed
        self._chunks = 0
        self.ways: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()  # by fault, or by the name of the message
        self.fullest: Counter[str] = Counter()  # the largest size of each table
        self.begin_again()

    @property
    def node(self) -> Node:
        return self.world.nodes[TARGET]

    def begin_again(self) -> None:
        """A new tree, settled."""
        settings = Settings(network=Network.parse(NETWORK), fanout=FANOUT, guest_slots=FANOUT)
        self.world = FuzzWorld(settings, self._seed)
        for position in sorted((TARGET, *OTHERS)):
            self.world.start(position)
            self.world.run(5)
        self.world.run(20)
        assert self.world.whole()
        assert self.world.leaders() == {1: 0, 2: 1, 3: 1, 60: 3, 61: 3}

    def spoil(self, count: int) -> list[bytes]:
        """The next datagrams of this seed."""
        made = [corpus.spoiled(self._chance, self.numbers()) for _ in range(count)]
        self.ways.update(way for way, _ in made)
        return [data for _, data in made]

    def take(self, datagrams: list[bytes]) -> None:
        """Feed a chunk of them, then rest."""
        self.feed(datagrams)
        self.rest()

    def feed(self, datagrams: list[bytes]) -> None:
        """First all faults, which may change nothing; then the well-formed ones, which may raise nothing."""
        read = [(data, self._read(data)) for data in datagrams]
        self.outcomes.update(each.value if isinstance(each, Fault) else type(each).__name__ for _, each in read)
        self._feed_faults([(data, each) for data, each in read if isinstance(each, Fault)])
        for data, message in read:
            if not isinstance(message, Fault):
                self._feed_message(message, data)

    def numbers(self) -> tuple[int, ...]:
        """The node's last numbers of questions and beats: about half of them wait for an answer."""
        last = self.node.context._number
        return tuple(range(max(1, last - 5), last + 2))

    # -- one datagram ---------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> Message | Fault:
        try:
            return self._decode(data)
        except Exception as error:
            raise BreachError(f"decode raised {error!r} at {data.hex()}") from error

    def _feed_faults(self, faults: list[tuple[bytes, Fault]]) -> None:
        self.world.feed(TARGET, Wakeup())  # sets its time
        before = self.fingerprint()
        for data, fault in faults:
            self._feed_fault(data, fault)
        if self.fingerprint() == before:
            return
        for data, fault in faults:  # find the one, if it changes the node again
            before = self.fingerprint()
            self._feed_fault(data, fault)
            if self.fingerprint() != before:
                raise BreachError(f"{fault} changed the node: {data.hex()}")
        raise BreachError(f"one of {len(faults)} datagrams changed the node, but not again")

    def _feed_fault(self, data: bytes, fault: Fault) -> None:
        """As in runtime/driver.py: only an unknown version is more than counted."""
        if self._read(data) is not fault:
            raise BreachError(f"decode said {fault} first, then something else, of {data.hex()}")
        if fault is Fault.VERSION:
            self._feed(Unreadable(self._address(self._chance.choice(SOURCES)), data[1]), data)

    def _feed_message(self, message: Message, data: bytes) -> None:
        source = self._chance.choice(SOURCES)
        self._feed(Received(source, self._address(source), message), data)

    def _feed(self, event: Received | Unreadable, data: bytes) -> None:
        try:
            self.world.feed(TARGET, event)
        except Exception as error:
            raise BreachError(f"{event} raised {error!r}: {data.hex()}") from error
        self._check_tables(data.hex())

    def _address(self, source: int | None) -> str:
        if source is not None:
            return self.world.settings.network.address_text_of(source)
        return f"192.0.2.{self._chance.randrange(256)}"

    def rest(self) -> None:
        """Let the tree run for a moment; its root comes and goes."""
        self._chunks += 1
        if self._chunks % LEADER_CHUNKS == 0:
            if LEADER in self.world.nodes:
                self.world.vanish(LEADER)
            else:
                self.world.start(LEADER)
        self.world.run(REST_S)
        self.world.notices.clear()
        self._check_tables("the pause after a chunk")
        if self.size() > SIZE_MAX:
            raise BreachError(f"the node has grown to {self.size()} values, more than {SIZE_MAX}")

    def _check_tables(self, cause: str) -> None:
        for name, size in tables(self.node).items():
            self.fullest[name] = max(self.fullest[name], size)
            if size > BOUNDS[name]:
                raise BreachError(f"{name}: {size} are more than {BOUNDS[name]}, after {cause}")

    # -- checks ---------------------------------------------------------------------------------------------------

    def fingerprint(self) -> int:
        """A hash of everything in the node except for its refusals, which an unknown version may change."""
        return hash(tuple(contents(self.node, leave_out=self.node.refusals)))

    def size(self) -> int:
        """The number of values reachable from the node."""
        return sum(1 for _ in contents(self.node))


# -- tables ---------------------------------------------------------------------------------------------------------

BOUNDS = {
    "rows of the roster": POSITIONS,
    "claims": POSITIONS * (2 * FANOUT + 1),
    "changes to report": POSITIONS,
    "leaders of guests": POSITIONS,
    "subordinates": 2 * FANOUT,
    "unanswered beats": UNANSWERED_BEATS_MAX,
    "questions": IN_FLIGHT_MAX,
    "candidates": TARGETS_MAX + NEAR_MAX + CALLS_MAX + 2 * POSITIONS,
    "advisers": ADVISERS_MAX,
    "promises": 2 * RESERVATIONS_MAX,
    "peers": PEERS_MAX + OTHERS_MAX,
    "answers of candidates": ASKED_MAX,
    "refusals": REFUSALS_MAX,
    "timers": 9,
    "hidden nodes": HIDDEN_MAX,
    "actions not taken": 0,
    "unsent news": 0,
}


def tables(node: Node) -> dict[str, int]:
    """The size of every table in a node."""
    search, roster, leader = node.search, node.roster, node.uplink.leader
    return {
        "rows of the roster": len(roster.rows),
        "claims": sum(map(len, roster.claims.values())),
        "changes to report": len(roster._dirty),
        "leaders of guests": len(roster.guests),
        "subordinates": len(node.downlink.slots.taken),
        "unanswered beats": len(leader.pending) if leader else 0,
        "questions": len(search.requests),
        "candidates": len(search._round) + len(search.prober),
        "advisers": len(search._round.advisers),
        "promises": len(node.downlink.vacancies._reservations) + len(node.downlink.vacancies._reserved),
        "peers": len(search.peers),
        "answers of candidates": len(search.answers),
        "refusals": len(node.refusals._lines),
        "timers": len(node.context.timers._at),
        "hidden nodes": len(node.listing),
        "actions not taken": len(node.context.actions),
        "unsent news": len(roster.news),
    }


# -- reachable values -----------------------------------------------------------------------------------------------

PLAIN = (int, str, bytes, float, bool, type(None), enum.Enum)


def contents(root: object, leave_out: object = None) -> Iterator[object]:
    """Every value below `root`, in a fixed order, with the names of attributes; settings are never changed."""
    seen = {id(leave_out)}
    waiting: deque[object] = deque((root,))
    while waiting:
        value = waiting.pop()
        if isinstance(value, PLAIN):
            yield value
            continue
        yield type(value).__name__
        if id(value) not in seen and not isinstance(value, Settings) and not callable(value):
            seen.add(id(value))
            waiting.extend(_inside(value))


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, Random):
        return iter((hash(value.getstate()),))
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        return iter((frame.f_lasti, dict(frame.f_locals)) if frame is not None else ("ended",))
    if isinstance(value, dict):
        return itertools.chain.from_iterable(value.items())
    if isinstance(value, (set, frozenset)):
        return iter(sorted(value))
    if isinstance(value, (list, tuple, deque)):
        return iter(value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [*dict.fromkeys((*slots, *getattr(value, "__dict__", ())))]
    return itertools.chain.from_iterable((name, getattr(value, name)) for name in names if hasattr(value, name))
