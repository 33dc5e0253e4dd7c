"""The simulator plays the rules of the daemon: the same input gives the same streams and the same events in both."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
import trio

from subord.core.address.network import Network
from subord.core.events import Event, Healed, LeaderLost, Notice, PlaceChanged, Received, Unreadable
from subord.core.messages import Announce, Ask, Message, Terms, Versions
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import Place, Position
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.net.edge import Edge
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import Datagram
from subord.sim.world.later_release import BOTH, LATER, ONLY_LATER
from subord.sim.world.world import World
from subord.wire.codec import MAGIC, WIRE, Wire

SETTINGS = Settings(network=Network.parse("127.0.0.0/24"), fanout=2, timing_name="lab")
TERMS = Terms.of(SETTINGS)
OWN, PEER = 2, 1
STEPS = 40

Step = tuple[float, str]  # seconds after the last one, and what happens


def script(seed: int) -> list[Step]:
    chance = Random(seed)
    kinds = ("place", "lose", "heal", "break", "die", "live")
    return [(1.0, "place"), *((chance.uniform(0.1, 50.0), chance.choice(kinds)) for _ in range(STEPS))]


class Stage(World):
    """A node whose leader is set by the test, so that only its stream is played."""

    leader = 0

    def leader_of(self, _position: Position) -> Position:
        return self.leader

    def feed(self, position: Position, event: Event) -> None:
        pass


NOTICES: dict[str, Notice] = {
    "place": PlaceChanged(Place.HOME, PEER, None, 1, "test"),
    "lose": LeaderLost(PEER, "closed", 0.0),
    "heal": Healed(1.0),
}


def simulated(seed: int) -> Iterator[float]:
    """The times at which the stream opens in the simulator."""
    stage = Stage(SETTINGS, seed)
    stage.chance = Random(seed)
    alive, node = object(), object()
    stage.nodes = {OWN: node, PEER: alive}  # type: ignore[dict-item]
    stage.edges.begin(OWN)
    opened: list[float] = []
    for wait_s, what in script(seed):
        until = stage.now + wait_s
        while stage._heap and stage._heap[0][0] <= until:
            was_open = stage.edges.ends_of(OWN)
            stage.run(stage._heap[0][0] - stage.now)
            if stage.edges.ends_of(OWN) and not was_open:
                opened.append(stage.now)
        stage.run(until - stage.now)
        if what in NOTICES:
            stage.leader = 0 if what == "lose" else PEER
            stage.edges.observe(OWN, NOTICES[what])
        elif what == "live":
            stage.nodes[PEER] = alive  # type: ignore[assignment]
        else:
            if what == "die":
                stage.nodes.pop(PEER, None)
            stage.edges.close(PEER)
    yield from opened


class FakeStreams:
    """The streams of a daemon to a leader that lives or not."""

    def __init__(self) -> None:
        self.is_alive, self.opened = True, list[float]()
        self.broken = trio.Event()

    async def hold_edge(self, _leader: str) -> bool:
        if not self.is_alive:
            return False
        self.opened.append(trio.current_time())
        self.broken = trio.Event()
        await self.broken.wait()
        return True


async def test_streams_open_at_the_same_times(autojump_clock: trio.testing.MockClock) -> None:
    for seed in range(12):
        streams, leader = FakeStreams(), [""]
        edge = Edge(streams, Random(seed), lambda leader=leader: leader[0] or None, lambda _address: None)  # type: ignore[arg-type, misc]
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(edge.hold_forever)
            for wait_s, what in script(seed):
                await trio.sleep(wait_s)
                if what in NOTICES:
                    leader[0] = "" if what == "lose" else "127.0.0.1"
                    edge.observe(NOTICES[what])
                elif what == "live":
                    streams.is_alive = True
                else:
                    streams.is_alive = streams.is_alive and what != "die"
                    streams.broken.set()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        times = [at - began for at in streams.opened]
        assert times, f"seed {seed} opens no stream"
        assert times == pytest.approx(list(simulated(seed)), abs=1e-3), f"seed {seed}"


DATAGRAMS: list[tuple[str, Wire, bytes, bool]] = [
    (name, wire, data, by_multicast)
    for wire in (WIRE, BOTH, ONLY_LATER)
    for name, data, by_multicast in (
        ("a question", WIRE.encode(Ask(5, 1, TERMS)), False),
        ("a question in the later version", BOTH.encode(Ask(5, 1, TERMS), LATER), False),
        ("a question by multicast", WIRE.encode(Ask(5, 1, TERMS)), True),
        ("an announcement", WIRE.encode(Announce(5, TERMS)), True),
        ("an announcement by unicast", WIRE.encode(Announce(5, TERMS)), False),
        ("common versions", WIRE.encode(Versions((1, 3))), False),
        ("no common version", WIRE.encode(Versions((9,))), False),
        ("an unknown version", bytes((MAGIC, 77)) + b"\x90", False),
        ("an unknown version by multicast", bytes((MAGIC, 77)) + b"\x90", True),
        ("no message", bytes((MAGIC, 1)) + b"\x90", False),
        ("another protocol", b"GET / HTTP/1.1", False),
    )
]


class Recorder(World):
    """Notes the events of a node and the answers about versions."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.noted: list[object] = []

    def feed(self, _position: Position, event: Event) -> None:
        self.noted.append(plain(event))

    def post(self, source: Position, target: Position, message: Message, owner: int = 0) -> None:
        pass

    def _tell_versions(self, _source: Position, _target: Position) -> None:
        self.noted.append("versions")


def plain(event: Event) -> object:
    match event:
        case Received(message=message):
            return type(message).__name__
        case Unreadable(version=version):
            return f"unreadable {version}"
    raise AssertionError(event)


async def test_datagrams_become_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    differing = []
    for name, wire, data, by_multicast in DATAGRAMS:
        world = Recorder()
        world.nodes[OWN] = Node(SETTINGS, OWN, 1, Random(1), 0.0)
        world.speak(OWN, wire)
        world.deliver(PEER, OWN, data, by_multicast)
        noted: list[object] = []
        transport = Transport(None, 1, Counters(), wire=wire)  # type: ignore[arg-type]
        monkeypatch.setattr(transport, "send_versions", lambda *_end, noted=noted: noted.append("versions"))
        driver = Driver(Node(SETTINGS, OWN, 1, Random(1), trio.current_time()), transport, Counters(), lambda _: None)
        monkeypatch.setattr(driver, "feed", lambda event, _=None, noted=noted: noted.append(plain(event)))
        driver._receive(Datagram(data, "127.0.0.1", 1), by_multicast=by_multicast)
        if noted != world.noted:
            differing.append((name, wire.spoken, noted, world.noted))
    assert differing == []
