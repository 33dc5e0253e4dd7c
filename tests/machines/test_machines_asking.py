"""What the queue's node learns of servers through its daemon: answers, causes, and what has no room."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.orders import key_orders
from subord.config.schema import MachinesConfig
from subord.core.address.network import Network
from subord.core.carriage.engine.bounds import ANSWER_BYTES_MAX
from subord.core.carriage.engine.ranges import Ranges
from subord.services.acting import Context
from subord.services.machines import asking
from subord.services.machines.asking import DaemonServers
from subord.services.machines.model import Capacity, Machine, Need, State
from subord.services.machines.orders import Action, Arrive, Clone, Fence, Order, Settle, Start, Stay, Step, Stop
from subord.services.machines.servers import Result
from subord.services.machines.task import (
    USER,
    Answer,
    Ask,
    Deed,
    Do,
    Done,
    NoServer,
    Results,
    Said,
    There,
    decode_task,
    encode,
    order_of,
    told_of,
)

NETWORK = Network.parse("10.0.0.0/16")
MASTER = "10.0.0.1"
FENCE = Fence(3, 1000)
Reply = Callable[[str, Ask | Do], Said | str | None]
"""Of a node at an address; the text: the cause why it is missing; None: what cannot be read."""


class FakeDaemon:
    """`servers`, `silent`: positions. `reply`: of a node. `fault`: of the next request. `left_out`: nodes whose
    results had no room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.servers, self.silent = "7-8", ""
        self.reply: Reply = lambda address, _: server(address)
        self.fault: CommandError | None = None
        self.asked = list[str]()
        self.left_out = 0
        self.signed = list[tuple[Ask | Do, str]]()
        monkeypatch.setattr(key_orders, "change", self._change)
        monkeypatch.setattr(key_orders, "signed_order", self._signed_order)
        monkeypatch.setattr(key_orders, "PAUSE_S", 0.01)
        monkeypatch.setattr(asking, "ask", self._ask)

    def _ask(self, path: str, target: str, _: float) -> dict[str, Any]:
        assert path == "the socket"
        self.asked.append(target)
        if self.fault is not None:
            raise self.fault
        return {"servers": self.servers, "silent": self.silent}

    def _signed_order(self, arguments: Any, service: str, payload: bytes, targets: str, *_: Any, **__: Any) -> bytes:
        assert (service, arguments.user) == ("machines", USER)
        task = decode_task(payload)
        assert isinstance(task, Ask | Do)
        self.signed.append((task, targets))
        return json.dumps(len(self.signed) - 1).encode()

    def _change(self, _path: str, target: str, _: float, *, body: bytes) -> dict[str, Any]:
        assert target.startswith("/v1/machines?budget=")
        if self.fault is not None:
            raise self.fault
        task, positions = self.signed[json.loads(body)]
        pairs = [list(map(int, each.split("-"))) for each in positions.split(",")]
        ranges = Ranges.of_pairs((each[0], each[-1]) for each in pairs)
        results, missing = [], []
        room = ANSWER_BYTES_MAX
        for address in map(NETWORK.address_text_of, ranges):
            said = self.reply(address, task)
            if isinstance(said, str):
                missing.append({"cause": said, "text": f"the sentence of {said}", "addresses": [address]})
            else:
                data = b"\xff" if said is None else encode(said)
                if len(data) > room:
                    self.left_out += 1
                    continue
                room -= len(data)
                results.append({"said": b64encode(data).decode(), "addresses": [address]})
        return {"results": results, "missing": missing}


def server(address: str, *machines: There, **changes: Any) -> Answer:
    found = Answer(address, 16, 32000, 0, 64, 2400, *FENCE, 12.5, machines=machines)
    return msgspec.structs.replace(found, **changes)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    return FakeDaemon(monkeypatch)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    config = MachinesConfig(key=str(key))
    return Context("root", "", b"", inf, MASTER, str(tmp_path), "the socket", machines=config, network=NETWORK)


def orders(*actions: Action | Step) -> tuple[Order, ...]:
    return tuple(Order(FENCE, number, 99.0, each) for number, each in enumerate(actions, 1))


# -- questions ------------------------------------------------------------------------------------------------------


async def test_a_node_that_answers_for_another_server_is_not_heard(daemon: FakeDaemon, context: Context) -> None:
    daemon.reply = lambda _address, _task: server("10.0.0.7")
    answers, missing = await DaemonServers(context).ask(FENCE)
    assert set(answers) == {"10.0.0.7"}
    assert missing == {
        "10.0.0.8": "it answers as the server 10.0.0.7, and its machines are not used: restart its agent"
    }


async def test_all_servers_are_asked_by_one_order(daemon: FakeDaemon, context: Context) -> None:
    there = There("alma-1", State.ON, 2, 2048, type="alma", since=5.0, given_to="10.0.0.8")
    daemon.reply = lambda address, _: server(address, there, is_drained=True, pools=(("images", 7),))
    servers = DaemonServers(context)
    answers, missing = await servers.ask(FENCE)
    assert missing == {}
    assert set(answers) == {"10.0.0.7", "10.0.0.8"}
    found = answers["10.0.0.7"]
    assert (found.fence, found.now, found.fault, found.pools) == (FENCE, 12.5, "", {"images": 7})
    assert found.server.capacity == Capacity(16, 32000, 0, 64)
    assert (found.server.is_drained, found.server.is_reachable) == (True, True)
    assert found.server.machines == (
        Machine("alma-1", Need(2, 2048, 0), State.ON, "alma", since=5.0, given_to="10.0.0.8"),
    )
    assert daemon.signed == [(Ask(*FENCE, MASTER), "7-8")]
    await servers.ask(FENCE)
    assert (len(daemon.asked), len(daemon.signed)) == (1, 2), "which nodes are servers is asked now and then"
    assert servers.figures.messages == 8
    assert servers.figures.bytes > 0


async def test_many_servers_take_several_orders(daemon: FakeDaemon, context: Context) -> None:
    daemon.servers = "2-251"
    answers, missing = await DaemonServers(context).ask(FENCE)
    assert (len(answers), missing) == (250, {})
    assert sorted(targets for _, targets in daemon.signed) == ["102-201", "2-101", "202-251"]


async def test_servers_with_many_machines_are_asked_in_smaller_portions(daemon: FakeDaemon, context: Context) -> None:
    """Otherwise some of them would never be heard: one answer has room for 1 MiB."""
    machines = tuple(
        There(f"{'a' * 36}-{number:03}", State.ON, 2, 2048, type="alma", since=1e9) for number in range(256)
    )
    daemon.servers = "2-101"
    daemon.reply = lambda address, _: server(address, *machines)
    servers = DaemonServers(context)
    _, missing = await servers.ask(FENCE)
    assert 0 < len(missing) == daemon.left_out
    assert set(missing.values()) == {asking.NO_ROOM}
    answers, missing = await servers.ask(FENCE)
    assert (len(answers), missing) == (100, {})
    daemon.reply = lambda address, _: server(address)
    await servers.ask(FENCE)
    daemon.signed.clear()
    await servers.ask(FENCE)
    assert [targets for _, targets in daemon.signed] == ["2-101"]


async def test_each_server_without_an_answer_says_why(daemon: FakeDaemon, context: Context) -> None:
    daemon.servers = "7-12"
    said: dict[str, Said | str | None] = {
        "10.0.0.7": "no agent",
        "10.0.0.8": "denied",
        "10.0.0.9": Results("the plan is older"),
        "10.0.0.10": None,
        "10.0.0.11": NoServer(),
        "10.0.0.12": server("10.0.0.12", fault="libvirt does not answer"),
    }
    daemon.reply = lambda address, _: said[address]
    answers, missing = await DaemonServers(context).ask(FENCE)
    assert missing == {
        "10.0.0.7": "no agent: the sentence of no agent",
        "10.0.0.8": "denied: the sentence of denied; allow the operator of machines.key services = "
        '["machines"], users = ["steps"] there',
        "10.0.0.9": "the plan is older",
        "10.0.0.10": asking.UNREADABLE,
    }
    assert set(answers) == {"10.0.0.12"}
    assert answers["10.0.0.12"].fault == "libvirt does not answer"
    assert not answers["10.0.0.12"].server.is_reachable


async def test_a_server_that_is_silent_stays_known(
    daemon: FakeDaemon, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIND_S", 0.0)
    servers = DaemonServers(context)
    await servers.ask(FENCE)
    daemon.servers, daemon.silent = "9", "2-7"
    daemon.reply = lambda address, _: "down" if address == "10.0.0.7" else server(address)
    answers, missing = await servers.ask(FENCE)
    assert set(answers) == {"10.0.0.9"}
    assert set(missing) == {"10.0.0.7"}
    daemon.servers, daemon.silent = "", ""
    assert await servers.ask(FENCE) == ({}, {}), "none is a server any more"


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_daemon_that_is_away(daemon: FakeDaemon, context: Context, is_known: bool) -> None:
    servers = DaemonServers(context)
    if is_known:
        await servers.ask(FENCE)
    daemon.fault = CommandError("no subord daemon answers at the socket", exit_codes.DAEMON_UNREACHABLE)
    answers, missing = await servers.ask(FENCE)
    assert answers == {}
    names = {"10.0.0.7", "10.0.0.8"} if is_known else {MASTER}
    assert missing == dict.fromkeys(names, "no subord daemon answers at the socket")
    assert await servers.do("10.0.0.7", orders(Stop("m", "10.0.0.7"))) == "no subord daemon answers at the socket"


async def test_a_key_that_cannot_sign(daemon: FakeDaemon, context: Context) -> None:
    os.chmod(context.machines.key, 0o644)
    _, missing = await DaemonServers(context).ask(FENCE)
    assert set(missing) == {"10.0.0.7", "10.0.0.8"}
    assert "can be read by other users: chmod 600 it; no order was given" in missing["10.0.0.7"]
    assert not daemon.signed


# -- orders ---------------------------------------------------------------------------------------------------------

ACTIONS: tuple[Action | Step, ...] = (
    Start("m", "10.0.0.7"),
    Start("m", "10.0.0.8", "10.0.0.7"),
    Clone("m", "alma", "10.0.0.7"),
    Stop("m", "10.0.0.7"),
    Arrive("m", "10.0.0.7", "10.0.0.8", "the id", "<domain/>"),
    Settle("m", "10.0.0.7", "10.0.0.8"),
    Stay("m", "10.0.0.7", "10.0.0.8"),
)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda each: type(each).__name__)
def test_what_is_ordered_is_what_a_server_hears(action: Action | Step) -> None:
    (order,) = orders(action)
    told = told_of(order)
    assert told is not None
    heard = msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=type(told))
    assert order_of(heard, FENCE, "10.0.0.7") == order


async def test_orders_of_a_server_have_a_result_each(daemon: FakeDaemon, context: Context) -> None:
    daemon.reply = lambda _, task: Results(
        results=tuple(
            Done("it is drained", is_refused=True) if each.machine == "n" else Done() for each in told(task)
        )
    )
    found = await DaemonServers(context).do("10.0.0.7", orders(Start("m", "10.0.0.7"), Start("n", "10.0.0.7")))
    assert found == (Result(), Result("it is drained", is_refused=True))
    ((task, targets),) = daemon.signed
    assert (targets, [each.number for each in told(task)]) == ("7", [1, 2])


def told(task: Ask | Do) -> Iterable[Any]:
    assert isinstance(task, Do)
    return task.orders


async def test_what_has_no_room_in_an_order_is_refused_here(daemon: FakeDaemon, context: Context) -> None:
    daemon.reply = lambda _, task: Results(results=tuple(Done() for _ in told(task)))
    large = Arrive("m", "10.0.0.7", "10.0.0.8", "id", "x" * 8_001)
    found = await DaemonServers(context).do("10.0.0.7", orders(large, Stop("n", "10.0.0.7")))
    assert found == (Result(asking.TOO_LARGE, is_refused=True), Result())


async def test_a_result_has_room_for_one_definition(daemon: FakeDaemon, context: Context) -> None:
    daemon.reply = lambda _, task: Results(
        results=tuple(
            Done(id=each.machine, xml="x" * 8_000) if each.deed is Deed.LEAVE else Done() for each in told(task)
        )
    )
    moves = orders(*(Start(each, "10.0.0.8", "10.0.0.7") for each in "abc"), Stop("n", "10.0.0.7"))
    found = await DaemonServers(context).do("10.0.0.7", moves)
    assert not isinstance(found, str)
    assert [each.id for each in found] == ["a", "b", "c", ""]
    assert len(daemon.signed) == 3


async def test_many_orders_take_several(daemon: FakeDaemon, context: Context) -> None:
    daemon.reply = lambda _, task: Results(results=tuple(Done(id=each.machine) for each in told(task)))
    found = await DaemonServers(context).do(
        "10.0.0.7", orders(*(Stop(f"m{number}", "10.0.0.7") for number in range(150)))
    )
    assert not isinstance(found, str)
    assert [each.id for each in found] == [f"m{number}" for number in range(150)]
    assert len(daemon.signed) == 3


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("down", "down: the sentence of down"),
        (Results("no plan yet"), "no plan yet"),
        (None, asking.UNREADABLE),
        (NoServer(), asking.NO_SERVER),
        (Results(results=(Done(), Done())), asking.UNREADABLE),
    ],
)
async def test_orders_without_a_result_say_why(
    daemon: FakeDaemon, context: Context, said: Said | str | None, words: str
) -> None:
    daemon.reply = lambda *_: said
    assert await DaemonServers(context).do("10.0.0.7", orders(Stop("m", "10.0.0.7"))) == words


async def test_an_order_that_is_late_is_given_again(daemon: FakeDaemon, context: Context) -> None:
    """The same signed order, which the server carries out once."""
    said = iter(("expired", "busy", Results(results=(Done(),))))
    daemon.reply = lambda *_: next(said)
    assert await DaemonServers(context).do("10.0.0.7", orders(Stop("m", "10.0.0.7"))) == (Result(),)
    assert len(daemon.signed) == 1


async def test_orders_are_given_to_addresses_of_the_network_alone(daemon: FakeDaemon, context: Context) -> None:
    for name in ("192.168.0.7", "any host"):
        assert await DaemonServers(context).do(name, orders(Stop("m", name))) == asking.NO_ADDRESS
    assert not daemon.signed
