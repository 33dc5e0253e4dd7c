"""What the manager learns of nodes through its daemon: answers, causes, and the newest hosts table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from conditions import IO_S

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.orders import key_orders
from subord.config.schema import ElasticConfig
from subord.core.address.network import Network
from subord.services.acting import Context
from subord.services.elastic import asking
from subord.services.elastic.managing import nodes
from subord.services.elastic.managing.nodes import DaemonNodes
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Mount, Plan
from subord.services.elastic.task import USER, Result, Step, Task, decode_task
from subord.services.hosts import publishing
from subord.services.hosts.table import Entry, Table

NETWORK = Network.parse("10.0.0.0/24")
PLAN = Plan(manager=1, options=Options(max_nodes=4), mounts=(Mount(source="/home", target="/home"),))
TASK = Task(Step.MOUNTS, 3, "10.0.0.1")
STEP = {"fault": "", "changed": True, "slots": 4, "addresses": ["10.0.0.7"]}


def answer(*steps: dict[str, Any], missing: str = "") -> dict[str, Any]:
    missed = [{"cause": missing, "text": f"the sentence of {missing}", "addresses": ["10.0.0.7"]}] if missing else []
    return {"steps": list(steps), "missing": missed}


class FakeDaemon:
    """`answers`: documents or errors, one for each request; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[dict[str, Any] | CommandError] = []
        self.requests: list[tuple[str, bytes]] = []
        self.signed: list[tuple[Task | None, str, float, str]] = []
        monkeypatch.setattr(key_orders, "change", self._change)
        monkeypatch.setattr(key_orders, "signed_order", self._signed_order)
        monkeypatch.setattr(key_orders, "PAUSE_S", 0.01)

    def _signed_order(
        self, arguments: Any, service: str, payload: bytes, targets: str, left_s: float, **more: Any
    ) -> bytes:
        assert (service, arguments.user) == ("elastic", USER)
        assert more == {"signing_path": "/v1/elastic/cluster"}
        self.signed.append((decode_task(payload), targets, left_s, arguments.operator_key))
        return json.dumps(len(self.signed)).encode()

    def _change(self, path: str, target: str, timeout_s: float, *, body: bytes) -> dict[str, Any]:
        assert path == "the socket"
        assert timeout_s > float(target.partition("budget=")[2])
        self.requests.append((target, body))
        found = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(found, CommandError):
            raise found
        return found


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    return FakeDaemon(monkeypatch)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    config = ElasticConfig(key=str(key), exports_file=str(tmp_path / "subord.exports"))
    return Context("root", "", b"", inf, "10.0.0.1", str(tmp_path), "the socket", elastic=config, network=NETWORK)


# -- steps ----------------------------------------------------------------------------------------------------------


def test_a_step_is_signed_for_one_node(daemon: FakeDaemon, context: Context) -> None:
    daemon.answers = [answer(STEP)]
    assert asking.step(TASK, "10.0.0.7", context, 60.0) == Result(is_changed=True, slots=4)
    assert daemon.signed == [(TASK, "7-7", 60.0, context.elastic.key)]
    assert daemon.requests == [("/v1/elastic?budget=8.000", b"1")], "a request has less time than a step"


def test_a_step_that_takes_long_is_one_order(daemon: FakeDaemon, context: Context) -> None:
    """The node would carry out a second one, too."""
    daemon.answers = [answer(missing="expired"), answer(missing="busy"), answer({**STEP, "fault": "no home"})]
    assert asking.step(TASK, "10.0.0.7", context, 60.0) == Result("no home", is_changed=True, slots=4)
    assert len(daemon.signed) == 1
    assert [body for _, body in daemon.requests] == [b"1"] * 3


def test_a_step_that_takes_too_long_is_given_up(daemon: FakeDaemon, context: Context) -> None:
    daemon.answers = [answer(missing="expired")]
    found = asking.step(TASK, "10.0.0.7", context, 0.2)
    assert found == "10.0.0.7 expired: the sentence of expired"
    assert len(daemon.requests) > 3


async def test_the_queues_node_is_no_node_that_was_added(daemon: FakeDaemon, context: Context) -> None:
    """Its own agent would answer."""
    daemon.answers = [answer({**STEP, "addresses": ["10.0.0.1"]})]
    found = await DaemonNodes(context, PLAN, 3, "master").joined("10.0.0.1")
    assert found.startswith("elastic.start gave 10.0.0.1, which is that of the queue's node itself; nothing")


@pytest.mark.parametrize("cause", ["down", "unknown", "no agent", "outcome unknown"])
def test_a_node_that_does_not_answer_says_why(daemon: FakeDaemon, context: Context, cause: str) -> None:
    daemon.answers = [answer(missing=cause)]
    assert asking.step(TASK, "10.0.0.7", context, 60.0) == f"10.0.0.7 {cause}: the sentence of {cause}"
    assert len(daemon.requests) == 1


def test_a_policy_that_does_not_allow_steps_is_told_with_its_remedy(daemon: FakeDaemon, context: Context) -> None:
    daemon.answers = [answer(missing="denied")]
    found = asking.step(TASK, "10.0.0.7", context, 60.0)
    assert isinstance(found, str)
    assert found.endswith('allow the operator of elastic.key services = ["elastic"], users = ["steps"] there')


def test_an_answer_of_another_release_is_no_result(daemon: FakeDaemon, context: Context) -> None:
    daemon.answers = [answer()]
    found = asking.step(TASK, "10.0.0.7", context, 60.0)
    assert isinstance(found, str)
    assert "install the same release on all nodes" in found


@pytest.mark.parametrize("address", ["10.0.1.7", "node007", ""])
def test_an_address_of_no_node_is_a_fault_of_the_supplier(daemon: FakeDaemon, context: Context, address: str) -> None:
    found = asking.step(TASK, address, context, 60.0)
    assert found == (
        f"{address} is no address of the cluster's network; no order was given: correct what starts nodes"
    )
    assert not daemon.requests


def test_without_a_key_no_order_is_given(daemon: FakeDaemon, context: Context) -> None:
    Path(context.elastic.key).unlink()
    found = asking.step(TASK, "10.0.0.7", context, 60.0)
    assert isinstance(found, str)
    assert found.startswith(f"elastic.key {context.elastic.key} cannot be read (No such file or directory)")
    assert found.endswith("no order was given")
    assert not daemon.signed


def test_a_daemon_that_is_away_is_no_answer(daemon: FakeDaemon, context: Context) -> None:
    daemon.answers = [CommandError("no subord daemon answers at the socket", exit_codes.DAEMON_UNREACHABLE)]
    assert asking.step(TASK, "10.0.0.7", context, 60.0) == "no subord daemon answers at the socket"


async def test_the_manager_asks_with_its_plan(daemon: FakeDaemon, context: Context) -> None:
    daemon.answers = [answer(STEP)]
    asked = DaemonNodes(context, PLAN, 3, "master")
    assert await asked.order("10.0.0.7", Step.MOUNTS) == Result(is_changed=True, slots=4)
    assert await asked.joined("10.0.0.7") == ""
    assert [(task, left_s) for task, _, left_s, _ in daemon.signed] == [
        (TASK, nodes.ORDER_S),
        (Task(Step.LOOK, 3, "10.0.0.1"), nodes.JOINED_S),
    ]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (answer({**STEP, "fault": "no plan yet"}), "no plan yet"),
        (answer(missing="down"), "10.0.0.7 down: the sentence of down"),
    ],
)
async def test_a_node_has_joined_when_its_agent_holds_the_plan(
    daemon: FakeDaemon, context: Context, found: dict[str, Any], why: str
) -> None:
    daemon.answers = [found]
    assert await DaemonNodes(context, PLAN, 3, "master").joined("10.0.0.7") == why


async def test_a_request_that_hangs_is_left_behind(
    context: Context, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    release = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def hang(*_: Any) -> str:
        trio.from_thread.run(release.wait, trio_token=token)
        return "late"

    monkeypatch.setattr(asking, "step", hang)
    autojump_clock.autojump_threshold = IO_S
    found = await DaemonNodes(context, PLAN, 3, "master").order("10.0.0.7", Step.USERS)
    assert found == "10.0.0.7 has not answered within 120 s: look at its daemon, and at that of this node"
    release.set()


# -- hosts tables ---------------------------------------------------------------------------------------------------


class Tables:
    """What is published, and which nodes have not applied it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.published: list[Table] = []
        self.asked: list[set[str]] = []
        self.fault = ""
        self.unapplied: Callable[[Table], str] = lambda _: ""
        monkeypatch.setattr(publishing, "publish", self._publish)
        monkeypatch.setattr(publishing, "unapplied", self._unapplied)
        monkeypatch.setattr(nodes, "NAMES_PAUSE_S", 0.01)

    def _publish(self, table: Table, context: Context, key: str) -> str:
        assert key == context.elastic.key
        time.sleep(0.02 / len(table.entries))  # an older one takes longer
        self.published.append(table)
        return self.fault

    def _unapplied(self, table: Table, addresses: set[str], _: Context) -> str:
        self.asked.append(set(addresses))
        return self.unapplied(table)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    return Tables(monkeypatch)


MASTER, FIRST, SECOND = (
    Entry("master", "10.0.0.1"),
    Entry("node001", "10.0.0.7"),
    Entry("node002", "10.0.0.8"),
)


async def test_a_table_has_the_queue_s_node_too(tables: Tables, context: Context) -> None:
    asked = DaemonNodes(context, PLAN, 3, "master")
    assert await asked.names({"node001": "10.0.0.7"}, ["10.0.0.7"]) == ""
    assert set(tables.published[0].entries) == {MASTER, FIRST}
    assert tables.asked == [{"10.0.0.1", "10.0.0.7"}]
    assert await asked.names({}, []) == ""
    assert set(tables.published[1].entries) == {MASTER}


async def test_with_names_in_dns_no_table_is_published(tables: Tables, context: Context) -> None:
    asked = DaemonNodes(context, Plan(manager=1, options=PLAN.options, has_hosts=False), 3, "master")
    assert await asked.names({"node001": "10.0.0.7"}, ["10.0.0.7"]) == ""
    assert not tables.published


async def test_nodes_are_waited_for(tables: Tables, context: Context) -> None:
    waits = iter(["10.0.0.7 starting", "10.0.0.7 starting", ""])
    tables.unapplied = lambda _: next(waits)
    assert await DaemonNodes(context, PLAN, 3, "master").names({"node001": "10.0.0.7"}, ["10.0.0.7"]) == ""


async def test_a_call_that_waits_is_content_with_a_newer_table(tables: Tables, context: Context) -> None:
    """It must not publish its own again, or two calls would turn the table back and forth."""
    tables.unapplied = lambda table: "" if len(table.entries) == 3 else "10.0.0.7 starting"
    asked = DaemonNodes(context, PLAN, 3, "master")
    found = list[str]()

    async def first() -> None:
        found.append(await asked.names({"node001": "10.0.0.7"}, ["10.0.0.7"]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.sleep(0.1)
        assert await asked.names({"node001": "10.0.0.7", "node002": "10.0.0.8"}, ["10.0.0.8"]) == ""
        later = len(tables.published)
    assert found == [""]
    assert all(set(each.entries) == {MASTER, FIRST, SECOND} for each in tables.published[later:])


async def test_a_newer_table_is_published_last(tables: Tables, context: Context) -> None:
    asked = DaemonNodes(context, PLAN, 3, "master")
    many = {f"node{number:03}": f"10.0.0.{number}" for number in range(2, 20)}
    async with trio.open_nursery() as nursery:
        for count in range(len(many)):
            nursery.start_soon(asked.names, dict(list(many.items())[:count]), ())
            await trio.sleep(0.001)
    sizes = [len(each.entries) for each in tables.published]
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(many)


async def test_a_table_that_cannot_be_published_says_why(
    tables: Tables, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "NAMES_S", 0.1)
    tables.fault = "the operator is not permitted"
    asked = DaemonNodes(context, PLAN, 3, "master")
    assert await asked.names({"node001": "10.0.0.7"}, []) == "the operator is not permitted"
    assert "nothing was published" in await asked.names({"node 1": "10.0.0.7"}, [])


# -- exports --------------------------------------------------------------------------------------------------------


async def test_without_a_file_nothing_is_exported(context: Context) -> None:
    """The removal of a node must not wait for it."""
    config = msgspec.structs.replace(context.elastic, exports_file="")
    asked = DaemonNodes(context._replace(elastic=config), PLAN, 3, "master")
    assert await asked.export({"10.0.0.7"}) == nodes.NO_FILE
    assert await asked.unexport(set()) == ""
    without = msgspec.structs.replace(PLAN, mounts=())
    assert await DaemonNodes(context._replace(elastic=config), without, 3, "master").export({"10.0.0.7"}) == ""


async def test_exports_are_those_of_the_plan(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[tuple[Any, ...]]()

    async def noted(*words: Any) -> str:
        await trio.lowlevel.checkpoint()
        given.append(words)
        return "no directory"

    monkeypatch.setattr(nodes, "export", noted)
    monkeypatch.setattr(nodes, "unexport", noted)
    asked = DaemonNodes(context, PLAN, 3, "master")
    assert await asked.export({"10.0.0.7"}) == "no directory"
    assert await asked.unexport(set()) == "no directory"
    assert given == [
        (context.elastic.exports_file, {"10.0.0.7"}, PLAN.mounts),
        (context.elastic.exports_file, set(), PLAN.mounts),
    ]
