"""The agent behind its socket, with the daemon's side of it: once for each tag, also over restarts of either."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
import toy_services
import trio
import trio.testing
from conditions import WAIT_S_MAX, until
from fake_operators import sign
from signed_orders import NOW_MS, TAG, order

from subord.agent import serving
from subord.agent.journal import Journal
from subord.agent.judge import Judge
from subord.agent.revoked import RevokedList
from subord.agent.serving import Server
from subord.api.http.sockets import bind_unix
from subord.core.carriage.engine.frames import Order
from subord.core.carriage.engine.interface import Outcome
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, frame
from subord.runtime.orders import agent as client
from subord.runtime.orders.agent import Agent
from subord.services.acting import act_of, carries_out_orders, has_effects
from tests.agent.test_agent_judge import CLUSTER, POLICY, POSITION, Operators

BEGUN = ("", "failed", "expired", "outcome unknown", "cancelled", "lease over")


class Stage:
    """One node: the files of its agent, and the daemon's side."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.path = top / "agent.sock"
        self.state = top / "state"
        self.state.mkdir(mode=0o700)
        (top / "policy.toml").write_text(POLICY)
        self.counters = Counters()
        self.agent = Agent(str(self.path), self.counters)
        self.now_ms = NOW_MS
        self.users = {os.geteuid()}
        self.idle_s = inf

    def server(self) -> Server:
        operators: Any = Operators()
        judge = Judge(
            CLUSTER,
            POSITION,
            verifier=operators,
            revoked=RevokedList(str(self.state), operators, CLUSTER),
            policy_path=str(self.top / "policy.toml"),
            offers=carries_out_orders,
            follows=has_effects,
            wall=lambda: self.now_ms / 1000,
        )
        self.journal = Journal(str(self.state))
        return Server(judge, self.journal, act_of, self.users, self.idle_s)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """The process of the agent, which is killed at the end."""
        self.path.unlink(missing_ok=True)
        listener = bind_unix(self.path)
        server = self.server()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, listener)
            try:
                yield server
            finally:
                nursery.cancel_scope.cancel()
        self.journal.close()

    async def act(self, order: Order, left_s: float) -> Outcome:
        """The outcome; a refused order has not begun."""
        self.agent.expect(order.tag)
        acted = await self.agent.act(order, left_s)
        assert acted.tag == order.tag
        assert acted.begun is (acted.outcome.cause in BEGUN)
        return acted.outcome

    def order(self, *, name: str = "touched", **given: Any) -> Order:
        behaviour = {key: given.pop(key) for key in ("waits", "fails") if key in given}
        return order(json.dumps({"file": str(self.top / name), **behaviour}).encode(), **given)

    def lingering(self, *, left_s: float = 60.0) -> Order:
        """An order of a leased service."""
        return order(json.dumps({"file": str(self.top / "touched")}).encode(), service="linger", left_s=left_s)

    def lines(self) -> list[str]:
        """When a leased service began and ended."""
        file = self.top / "touched"
        return file.read_text().split() if file.exists() else []

    def times(self, name: str = "touched") -> int:
        """How often the service acted."""
        file = self.top / name
        return len(file.read_text().splitlines()) if file.exists() else 0


def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """With toy services, and a daemon that does not wait for the agent."""
    toy_services.register(monkeypatch.setattr)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client, "PAUSES_S", (0.0, 0.0))
    return Stage(tmp_path)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return staged(tmp_path, monkeypatch)


TOUCHED = Outcome(b"touched")


async def test_an_order_acts_once_and_the_outcome_is_given_again(stage: Stage) -> None:
    async with stage.running():
        assert await stage.act(stage.order(), 5) == TOUCHED
        assert await stage.act(stage.order(), 5) == TOUCHED
    async with stage.running():
        assert await stage.act(stage.order(), 5) == TOUCHED
    assert stage.times() == 1
    assert (stage.top / "touched").read_text() == "ann as root\n"
    assert stage.counters.orders_accepted == {"touch": 3}


async def test_an_answer_waits_for_the_tag_on_the_disk_and_not_for_the_outcome(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer after the begin holds up no answer."""
    synced, goes_on = list[bytes](), threading.Event()

    def sync(self: Journal, tag: bytes) -> None:
        synced.append(tag)
        goes_on.wait(10)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "sync", sync)
        async with stage.running():
            assert await stage.act(stage.order(), 5) == TOUCHED
            assert await stage.act(stage.order(tag=bytes(range(16))), 5) == TOUCHED
            goes_on.set()
    assert len(synced) == 2
    async with stage.running():
        assert await stage.act(stage.order(), 5) == TOUCHED, "it outlasts the process all the same"


async def test_two_questions_at_once_act_once(stage: Stage) -> None:
    told: list[Outcome] = []

    async def ask() -> None:
        told.append(await stage.act(stage.order(waits=True), 5))

    async with stage.running() as server, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        await until(lambda: stage.times() and server._connections == 2, "both are asked")
        (stage.top / "go").touch()
    assert told == [TOUCHED, TOUCHED]
    assert stage.times() == 1


async def test_an_agent_that_dies_in_the_middle_does_not_act_again(stage: Stage) -> None:
    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(stage.act, stage.order(waits=True), 5)
        await until(stage.times, "it acts")
        nursery.cancel_scope.cancel()
    (stage.top / "go").touch()
    async with stage.running():
        assert await stage.act(stage.order(waits=True), 5) == Outcome(cause="outcome unknown")
    assert stage.times() == 1


async def test_an_agent_that_dies_while_it_writes_the_tag_does_not_act(stage: Stage) -> None:
    """The file has its room, all zeros, and no head yet."""
    (stage.state / f"{TAG.hex()}-{NOW_MS + 9999}").write_bytes(bytes(40_000))
    async with stage.running():
        assert await stage.act(stage.order(), 5) == Outcome(cause="outcome unknown")
    assert stage.times() == 0


async def test_the_outcome_counts_though_the_daemon_is_gone(stage: Stage) -> None:
    """The connection ends while the service acts; a later question gets what has come of it."""
    async with stage.running() as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.act, stage.order(waits=True), 5)
            await until(stage.times, "it acts")
            nursery.cancel_scope.cancel()
        (stage.top / "go").touch()
        await until(lambda: not server._running, "it has ended")
        assert await stage.act(stage.order(waits=True), 5) == TOUCHED
    assert stage.times() == 1


async def test_without_an_agent(stage: Stage) -> None:
    assert await stage.act(stage.order(), 5) == Outcome(cause="no agent")
    stage.path.touch()
    assert await stage.act(stage.order(), 5) == Outcome(cause="no agent")
    stage.path.unlink()
    bind_unix(stage.path).close()
    assert await stage.act(stage.order(), 5) == Outcome(cause="no agent")


async def test_an_agent_that_breaks_off_leaves_the_outcome_unknown(stage: Stage) -> None:
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(nonblocking(bind_unix(stage.path))))

    async def break_off(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, break_off, [listener])
        assert await stage.act(stage.order(), 5) == Outcome(cause="outcome unknown")
        nursery.cancel_scope.cancel()


def nonblocking(one: socket.socket) -> socket.socket:
    one.setblocking(False)
    return one


async def test_refusals_are_counted_and_shown(stage: Stage) -> None:
    async with stage.running() as server:
        unsigned = msgspec.structs.replace(stage.order(), authority=b"")
        assert await stage.act(unsigned, 5) == Outcome(cause="unsigned")
        assert await stage.act(stage.order(principal="mia"), 5) == Outcome(cause="denied")
    assert stage.times() == 0
    assert server.refused == {"unsigned": 1, "denied": 1}
    assert stage.counters.orders_refused == {"unsigned": 1, "denied": 1}
    assert any("order touch of mia is refused by the agent" in each.text for each in stage.counters.problems.shown())
    assert not list(stage.state.iterdir())


async def test_the_agent_hears_which_node_asked_directly(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []
    judge = Judge.judge

    async def noting(self: Judge, order: Order, revoked: Any, source: str) -> Any:
        sources.append(source)
        return await judge(self, order, revoked, source)

    monkeypatch.setattr(Judge, "judge", noting)
    async with stage.running():
        stage.agent.expect(TAG)
        await stage.agent.act(stage.order(), 5, "10.0.0.9")
        await stage.act(stage.order(), 5)
    assert sources == ["10.0.0.9", ""]


async def test_another_order_with_a_known_tag_is_refused(stage: Stage) -> None:
    async with stage.running():
        assert await stage.act(stage.order(), 5) == TOUCHED
        assert await stage.act(stage.order(name="other"), 5) == Outcome(cause="tag used")
    async with stage.running():
        assert await stage.act(stage.order(name="other"), 5) == Outcome(cause="tag used")
    assert stage.times("other") == 0


async def test_another_order_with_the_tag_of_one_that_runs_is_refused(stage: Stage) -> None:
    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(stage.act, stage.order(waits=True), 5)
        await until(stage.times, "it acts")
        with trio.fail_after(4):
            assert await stage.act(stage.order(name="other"), 5) == Outcome(cause="tag used")
        (stage.top / "go").touch()


async def test_a_service_that_fails_and_one_that_takes_too_long(stage: Stage) -> None:
    async with stage.running():
        assert await stage.act(stage.order(fails=True), 5) == Outcome(cause="failed")
        slow = stage.order(waits=True, tag=b"2".ljust(16), left_s=0.05)
        assert await stage.act(slow, 5) == Outcome(cause="expired")
    async with stage.running():
        assert await stage.act(stage.order(fails=True), 5) == Outcome(cause="failed")
        assert await stage.act(slow, 5) == Outcome(cause="expired")
    assert stage.times() == 2


async def test_a_member_on_the_way_cannot_shorten_the_time_to_act(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks with the same order, and says that no time is left."""
    monkeypatch.setattr(client, "GRACE_S", 0.0)
    told: list[Outcome] = []

    async def ask() -> None:
        told.append(await stage.act(stage.order(waits=True), 0.001))

    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(stage.times, "it acts")
        (stage.top / "go").touch()
    assert told == [TOUCHED]


async def test_the_order_of_the_operator_bounds_the_time_too(stage: Stage) -> None:
    """Whatever time the daemon gives it."""
    stage.now_ms = NOW_MS + 304_950
    async with stage.running():
        with trio.fail_after(10):
            assert await stage.act(stage.order(waits=True, run_ms=3_000_000), 3000) == Outcome(cause="expired")


async def test_a_journal_that_cannot_be_written(stage: Stage) -> None:
    stage.state.rmdir()
    async with stage.running():
        assert await stage.act(stage.order(), 5) == Outcome(cause="no journal")
        stage.state.mkdir(mode=0o777)
        stage.state.chmod(0o777)
        assert await stage.act(stage.order(), 5) == Outcome(cause="bad mode")
        stage.state.chmod(0o700)
        assert await stage.act(stage.order(), 5) == TOUCHED
    assert stage.times() == 1


async def test_only_the_daemon_may_connect(stage: Stage) -> None:
    stage.users = {os.geteuid() + 1}
    async with stage.running() as server:
        assert await stage.act(stage.order(), 5) == Outcome(cause="refused")
        assert server.refused == {"refused": 1}
    assert stage.times() == 0


@pytest.mark.parametrize("data", [frame(b"\xc1"), frame(b""), frame(b"x" * 100), frame(sign(b"", "")), b"\xff" * 99])
async def test_what_is_no_order_is_refused(stage: Stage, data: bytes) -> None:
    async with stage.running():
        async with await trio.open_unix_socket(str(stage.path)) as stream:
            await stream.send_all(data)
            told = await Frames(stream).next(9999)
        assert told is None or client.decode_done(told) == client.Done("malformed", refused=True)
        assert await stage.act(stage.order(), 5) == TOUCHED


async def test_it_ends_without_work_and_not_before(stage: Stage) -> None:
    stage.idle_s = 0.1
    ended = trio.Event()
    listener = bind_unix(stage.path)
    server = stage.server()

    async def run() -> None:
        await server.run(listener)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(stage.act, stage.order(waits=True), 5)
        await until(stage.times, "it acts")
        await trio.sleep(0.2)
        assert not ended.is_set(), "it ends although an order runs"
        (stage.top / "go").touch()
        with trio.fail_after(5):
            await ended.wait()


async def test_a_stop_lets_orders_end(stage: Stage) -> None:
    told: list[Outcome] = []
    listener = bind_unix(stage.path)
    server = stage.server()

    async def ask() -> None:
        told.append(await stage.act(stage.order(waits=True), 5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run, listener)
        nursery.start_soon(ask)
        await until(stage.times, "it acts")
        server.stop(5.0)
        (stage.top / "go").touch()
    assert told == [TOUCHED]


async def test_it_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "RUNNING_MAX", 1)
    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(stage.act, stage.order(waits=True), 5)
        await until(stage.times, "it acts")
        another = stage.order(tag=b"2".ljust(16))
        assert await stage.act(another, 5) == Outcome(cause="busy")
        (stage.top / "go").touch()
    assert another.tag != TAG


# -- leases -----------------------------------------------------------------------------------------------


async def test_a_cancelled_order_ends_what_is_leased_and_stays_cancelled(stage: Stage) -> None:
    told: list[Outcome] = []

    async def ask() -> None:
        told.append(await stage.act(stage.lingering(), 60))

    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(stage.lines, "it acts")
        stage.agent.stop(TAG)
    assert told == [Outcome(cause="cancelled")]
    assert stage.lines() == ["began", "ended"]
    async with stage.running():
        assert await stage.act(stage.lingering(), 60) == Outcome(cause="cancelled")
    assert stage.lines() == ["began", "ended"]


async def test_an_order_that_is_cancelled_before_it_is_given_is_cancelled(stage: Stage) -> None:
    async with stage.running():
        stage.agent.expect(TAG)
        stage.agent.stop(TAG)
        acted = await stage.agent.act(stage.lingering(), 60)
    assert acted.outcome == Outcome(cause="cancelled")


async def test_a_service_without_lease_is_not_ended(stage: Stage) -> None:
    told: list[Outcome] = []

    async def ask() -> None:
        stage.agent.expect(TAG, 0.01)
        acted = await stage.agent.act(stage.order(waits=True), 60)
        told.append(acted.outcome)

    async with stage.running() as server, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(stage.times, "it acts")
        stage.agent.stop(TAG)
        lease = server._running[TAG]._lease
        await until(lambda: lease.cause(trio.current_time()), "its lease would be over")
        (stage.top / "go").touch()
    assert told == [TOUCHED]


async def test_the_lease_that_the_daemon_sends_ends_what_runs_when_it_has_gone(
    stage: Stage, mock_clock: trio.testing.MockClock
) -> None:
    """The clock stands still unless it is set forward, however long a disk takes."""
    async with stage.running() as server:
        async with trio.open_nursery() as nursery:
            stage.agent.expect(TAG, 2.0)
            nursery.start_soon(stage.agent.act, stage.lingering(), 60)
            await standing_until(stage.lines, "it acts")
            nursery.cancel_scope.cancel()
        mock_clock.jump(1.9)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert stage.lines() == ["began"]
        mock_clock.jump(0.2)
        await standing_until(lambda: not server._running, "it has ended")
        assert await stage.act(stage.lingering(), 60) == Outcome(cause="lease over")
    assert stage.lines() == ["began", "ended"]


async def standing_until(condition: Callable[[], object], what: str) -> None:
    """As `until`, where the clock of trio stands still. Raises AssertionError."""
    end = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        await trio.testing.wait_all_tasks_blocked(0.005)


async def test_renewals_and_further_questions_lengthen_the_lease(stage: Stage) -> None:
    told: list[Outcome] = []

    async def ask(lease_s: float) -> None:
        stage.agent.expect(TAG, lease_s)
        acted = await stage.agent.act(stage.lingering(), 60)
        told.append(acted.outcome)

    async with stage.running() as server, trio.open_nursery() as nursery:
        nursery.start_soon(ask, 5.0)
        await until(stage.lines, "it acts")
        scope = server._running[TAG].scope
        for lengthen in (lambda: stage.agent.renew(TAG, 10.0), lambda: nursery.start_soon(ask, 15.0)):
            before = scope.deadline
            lengthen()
            await until(lambda before=before: scope.deadline > before + 3, "the lease is longer")
        (stage.top / "go").touch()
    assert told == [Outcome(b"lingered")] * 2


async def test_an_order_that_is_cancelled_before_it_begins_does_not_begin(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow meanwhile."""
    heard, begin = threading.Event(), Journal.begin

    def slow(self: Journal, *words: Any) -> None:
        heard.wait(5)
        begin(self, *words)

    monkeypatch.setattr(Journal, "begin", slow)
    told: list[Outcome] = []

    async def ask() -> None:
        told.append(await stage.act(stage.lingering(), 60))

    async with stage.running() as server, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(lambda: TAG in server._running, "the agent has it")
        stage.agent.stop(TAG)
        lease = server._running[TAG]._lease
        await until(lambda: lease.cause(trio.current_time()), "the agent has heard it")
        heard.set()
    assert told == [Outcome(cause="cancelled")]
    assert stage.lines() == []
