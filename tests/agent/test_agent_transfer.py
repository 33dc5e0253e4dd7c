"""The plan of transfer queues at the agent, from the daemon's side: who is the transfer host, and what it tells."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from agent_node import ANY_TIME, AgentNode, all_told
from conditions import IO_S, real_time
from fake_operators import signed
from signed_orders import NOW_MS

from subord.agent import judge, serving
from subord.agent.check_transfer import lines
from subord.config.load import load
from subord.config.schema import TransferConfig
from subord.core.address.network import Network
from subord.core.carriage.documents import NEVER_MS, TRANSFER, Document, Documents
from subord.core.carriage.orders import Order
from subord.runtime.frames import Frames
from subord.runtime.orders.agent import Done, decode_done
from subord.runtime.transfer import state
from subord.runtime.transfer.state import State
from subord.runtime.transfer.talk import decode_said
from subord.services.role import GRACE_S
from subord.services.transfer import agent as transfer_agent
from subord.services.transfer import away, checking, home, thresholds
from subord.services.transfer.driving import role
from subord.services.transfer.jobs import Key, Spec
from subord.services.transfer.linking.certificate import Identity, ensured
from subord.services.transfer.linking.counts import Counts
from subord.services.transfer.local import Sense, line_of
from subord.services.transfer.plan import Peer, Plan, TransferQueue
from subord.services.transfer.records import Begun, Records
from subord.services.transfer.states import HomeRecord, HomeState
from tests.agent.test_agent_judge import revoking
from tests.services.test_files_sets import ME, POSITION
from tests.transfer.cell_in_memory import MemoryCell, MemoryLink

POLICY = f"""[[allow]]
principals = ["ann", "bob"]
services = ["transfer"]
users = ["{ME}"]
"""
NETWORK = Network.parse("127.0.0.0/24")
PEER = Peer(name="south", addresses=("127.0.0.9:9720",), certificates=("MIIAAA==",))
HOSTED = Plan(host=POSITION, cluster="north", peer=PEER, queues=(TransferQueue(name="transfer"),), slots_max=4)
ELSEWHERE = msgspec.structs.replace(HOSTED, host=POSITION + 1)
OFF = Plan(host=0)


class FakeLink(MemoryLink):
    """As the link of one plan."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()
        self.listening_fault = self.key_fault = ""


class Talk:
    """A connection of the daemon."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._frames = Frames(stream)

    async def next(self) -> State | Done | None:
        with real_time():
            data = await self._frames.next(1 << 22)
        if data is None:
            return None
        said = decode_said(data)
        return decode_done(data) if said is None else said.state

    async def state(self, wanted: Callable[[State], object] = lambda _: True) -> State:
        while not (isinstance(found := await self.next(), State) and wanted(found)):
            assert isinstance(found, State), found
        return found


class Node(AgentNode[Talk]):
    """The agent of one node behind its socket, and the daemon's side."""

    judging = ANY_TIME

    def __init__(self, top: Path) -> None:
        (top / "agent").mkdir(mode=0o700)
        powers = dict.fromkeys(("ann", "bob", "mia"), "subord.plans subord.identity")
        super().__init__(top, top / "agent", policy=POLICY, powers=powers, talk=Talk)
        self.config = TransferConfig(
            batch="gridengine", key=str(top / "key"), listen="", socket=str(top / "methods.sock")
        )
        self.cell = MemoryCell()
        self.links = list[FakeLink]()

    @property
    def configured(self) -> dict[str, Any]:
        return {"transfer": self.config, "network": NETWORK}

    @property
    def has_socket(self) -> bool:
        return os.path.exists(self.config.socket)

    async def link(self, *_: object) -> FakeLink:
        await trio.lowlevel.checkpoint()
        self.links.append(FakeLink())
        return self.links[-1]

    async def ended(self, document: Document) -> list[State | Done | None]:
        """All that is said of a plan."""
        async with self.following(document) as talk:
            return await all_told(talk)


def plan(version: int = 1, what: Plan | bytes = HOSTED, by: str = "ann") -> Document:
    body = what if isinstance(what, bytes) else msgspec.json.encode(what)
    return signed(Order(TRANSFER, version, NOW_MS + version, NEVER_MS, body), by)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    for each in (judge, serving):
        monkeypatch.setattr(each, "ROOT", ME)
    monkeypatch.setattr(transfer_agent, "_nodes", {})
    found = Node(tmp_path)
    monkeypatch.setattr(role, "make_cell", lambda *_: found.cell)
    monkeypatch.setattr(role, "make_link", found.link)
    return found


@pytest.fixture
def clock() -> trio.abc.Clock:
    return trio.testing.MockClock(autojump_threshold=IO_S)


# -- who is the transfer host ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_node_that_the_plan_names_is_the_transfer_host(node: Node, clock: object) -> None:
    async with node.running(), node.following(plan(3)) as talk:
        found = await talk.state(lambda each: each.at)
        assert (found.word, found.version, found.batch) == (state.TRANSFERS, 3, "gridengine")
        assert (found.cluster, found.peer, found.slots_max) == ("north", "south", 4)
        assert stat.S_ISSOCK(os.stat(node.config.socket).st_mode)
        found = await talk.state(lambda each: each.link_fault)
        assert "does not answer" in found.link_fault
        node.cell.is_silent = True
        found = await talk.state(lambda each: each.fault)
        assert (found.fault, found.pending) == ("it does not answer; nothing was changed: start it", 0)


@pytest.mark.parametrize(("what", "word"), [(OFF, state.OFF), (ELSEWHERE, state.OTHER_NODE)])
async def test_another_node_says_so_and_is_done(node: Node, what: Plan, word: str) -> None:
    async with node.running():
        assert await node.ended(plan(1, what)) == [State(word=word, version=1), Done(principal="ann")]
    assert node.links == []


async def test_a_newer_plan_takes_over_when_the_work_of_the_older_one_has_ended(node: Node, clock: object) -> None:
    async with node.running(), node.following(plan(1)) as talk:
        await talk.state(lambda each: each.at)
        async with node.following(plan(2)) as other:
            found = await other.state(lambda each: each.at)
            assert found.version == 2
            assert [each.is_serving for each in node.links] == [False, True]
            while isinstance(last := await talk.next(), State):
                pass
            assert last == Done(principal="ann")
    assert not node.has_socket


async def test_the_same_plan_goes_on_without_a_break(node: Node, clock: object) -> None:
    async with node.running():
        async with node.following(plan(1)) as talk:
            await talk.state(lambda each: each.at)
        async with node.following(plan(1)) as talk:
            assert (await talk.state()).at
        assert len(node.links) == 1


async def test_an_older_plan_is_refused(node: Node, clock: object) -> None:
    async with node.running(), node.following(plan(2)) as talk:
        await talk.state(lambda each: each.at)
        (done,) = await node.ended(plan(1, OFF))
        assert isinstance(done, Done)
        assert done.cause
        assert node.has_socket


@pytest.mark.slow
async def test_without_a_daemon_the_work_ends(node: Node, clock: object) -> None:
    async with node.running():
        async with node.following(plan(1)) as talk:
            await talk.state(lambda each: each.at)
        await trio.sleep(GRACE_S + 5)
        assert not node.has_socket


async def test_an_operator_who_is_revoked_ends_the_work(node: Node, clock: object) -> None:
    async with node.running(), node.following(plan(1)) as talk:
        await talk.state(lambda each: each.at)
        node.revoked = revoking("ann", Documents(), "bob")
        await node.ended(plan(2, OFF, "bob"))
        while isinstance(await talk.next(), State):
            pass
        assert not node.has_socket


async def sensed(node: Node) -> None:
    """As the load sensor asks."""
    async with await trio.open_unix_socket(node.config.socket) as stream:
        await stream.send_all(line_of(Sense()))
        assert await stream.receive_some(100)


@pytest.mark.slow
async def test_a_load_sensor_that_does_not_ask_is_told(
    node: Node, clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An execd that was not restarted after `subord transfer setup` does not run it, and no job leaves."""
    monkeypatch.setattr(thresholds, "SENSOR_S_MAX", 6.0)
    async with node.running(), node.following(plan(1)) as talk:
        found = await talk.state(lambda each: each.at)
        assert not found.sensor_fault, "it has time to ask"
        found = await talk.state(lambda each: each.sensor_fault)
        assert "has not asked the agent for 60 s" in found.sensor_fault
        assert "restart the execd of this host" in found.sensor_fault
        await sensed(node)
        await talk.state(lambda each: not each.sensor_fault)


# -- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"x", b'{"host": 1}', b'{"host": 1, "colour": 2}'])
async def test_a_plan_that_cannot_be_followed_is_refused(node: Node, body: bytes) -> None:
    async with node.running():
        (done,) = await node.ended(plan(1, body))
    assert isinstance(done, Done)
    assert done.cause == "malformed"


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"batch": ""}, "transfer.batch was empty when the agent of this node started, which the plan names")],
    ids=["none"],
)
async def test_a_node_without_what_it_needs_says_so(node: Node, changed: dict[str, Any], words: str) -> None:
    node.config = msgspec.structs.replace(node.config, **changed)
    async with node.running():
        *said, done = await node.ended(plan(1))
    assert isinstance(done, Done)
    assert done.cause == "failed"
    last = said[-1]
    assert isinstance(last, State)
    assert (last.word, words in last.detail) == (state.FAILED, True)
    assert "`systemctl restart subord.service subord-agent.service`" in last.detail
    assert last.detail.endswith("no job crosses, and those that are away run on")


async def test_another_peer_is_not_asked_for_jobs_of_the_one_before(node: Node, clock: object) -> None:
    """It would say that it does not have them, and they would run twice."""
    async with node.running(), node.following(plan(1)) as talk:
        await talk.state(lambda each: each.at)
    records = Records(str(node.directory))
    key = Key("north", "12", 0, 5)
    records.write(home.Changes({key: HomeRecord(key=key, state=HomeState.ABROAD)}), away.Changes({}))
    records.close()
    renamed = msgspec.structs.replace(HOSTED, peer=msgspec.structs.replace(PEER, name="east"))
    async with node.running():
        *said, done = await node.ended(plan(2, renamed))
        assert isinstance(said[-1], State)
        assert "jobs that left or came by the one before are not over (1)" in said[-1].detail
        assert isinstance(done, Done)
        assert done.cause == "failed"
        async with node.following(plan(3)) as talk:
            found = await talk.state(lambda each: each.at)
            assert found.leaving == {"abroad": 1}, "they go on when the plan has their names again"


async def test_a_link_without_a_key_is_told(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role, "make_link", role._link)
    async with node.running():
        *said, _ = await node.ended(plan(1))
    assert isinstance(said[-1], State)
    assert "`subord transfer key`" in said[-1].detail


async def test_the_disk_does_not_keep_other_work_waiting(
    node: Node, clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key and the records may be large, or their disk slow."""
    main, seen = threading.get_ident(), list[str]()
    begin, read = Records.begin, role.read

    def watched(records: Records, at_ms: int) -> Begun:
        seen.append("records in the loop" if threading.get_ident() == main else "records")
        return begin(records, at_ms)

    def watched_read(path: str) -> Identity:
        seen.append("key in the loop" if threading.get_ident() == main else "key")
        return read(path)

    monkeypatch.setattr(Records, "begin", watched)
    monkeypatch.setattr(role, "read", watched_read)
    async with node.running(), node.following(plan(1)) as talk:
        await talk.state(lambda each: each.at)
    monkeypatch.setattr(role, "make_link", role._link)
    async with node.running():
        await node.ended(plan(1))
    assert seen == ["records", "key"]


async def test_a_socket_that_cannot_be_made_is_told(node: Node) -> None:
    node.config = msgspec.structs.replace(node.config, socket=str(node.top / "nowhere" / "socket"))
    async with node.running():
        *said, _ = await node.ended(plan(1))
    assert isinstance(said[-1], State)
    assert "correct transfer.socket" in said[-1].detail


async def test_lines_that_the_unit_lacks_are_told(node: Node, clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that cannot be made is a fault of the unit then, and not of transfer.socket."""
    fault = "install subord-agent-transfer.conf, which lacks RuntimeDirectory=subord-transfer"
    monkeypatch.setattr(role, "lacking", lambda _: fault)
    async with node.running(), node.following(plan(1)) as talk:
        assert (await talk.state(lambda each: each.at)).unit_fault == fault
    node.config = msgspec.structs.replace(node.config, socket=str(node.top / "nowhere" / "socket"))
    async with node.running():
        *said, _ = await node.ended(plan(2))
    assert isinstance(said[-1], State)
    assert f"cannot be made: No such file or directory: {fault}" in said[-1].detail
    assert "correct transfer.socket" not in said[-1].detail


def put_there(path: str, kind: str) -> Callable[[], bool]:
    """What is no socket, and whether it is there."""
    own, file = Path(path), Path(f"{path}.other" if kind == "link" else path)
    file.write_text("of another program")
    if kind == "link":
        own.symlink_to(file)
    return lambda: own.read_text() == "of another program" and own.is_symlink() == (kind == "link")


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_what_is_no_socket_is_left_as_it_is(node: Node, kind: str) -> None:
    is_as_before = put_there(node.config.socket, kind)
    async with node.running():
        *said, _ = await node.ended(plan(1))
    assert isinstance(said[-1], State)
    assert "is no socket, and was left unchanged" in said[-1].detail
    assert is_as_before()


async def test_records_that_cannot_be_written_end_the_work(
    node: Node, clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from subord.runtime.record_file import RecordsError

    def full(*_: object) -> int:
        raise RecordsError("the disk is full")

    node.cell.add("12", Spec(user=ME, name="x", script="true\n"))
    monkeypatch.setattr(Records, "write", full)
    async with node.running(), node.following(plan(1)) as talk:
        await talk.state(lambda each: each.at)
        from subord.services.transfer.local import Start

        async with await trio.open_unix_socket(node.config.socket) as stream:
            await stream.send_all(line_of(Start(job="12", queue="transfer")))
            found = await talk.state(lambda each: each.word == state.FAILED)
            assert found.detail.startswith("the disk is full")
            assert await talk.next() == Done("failed", principal="ann")


# -- the check of the configuration ---------------------------------------------------------------------------------


def test_a_directory_that_the_unit_makes_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A correct host has it only as long as the agent runs."""
    monkeypatch.setattr(checking, "RUN", tmp_path)
    for path, is_missed in (("subord-transfer/methods", False), ("a/b/methods", True), ("file/methods", True)):
        (tmp_path / "file").touch()
        config = TransferConfig(batch="gridengine", socket=str(tmp_path / path))
        assert any("transfer.socket" in each for each in checking.faults(config)) == is_missed, path


def test_the_check_says_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("qstat", "qhost", "qconf", "qmod", "qacct"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    key = tmp_path / "link.key"
    file = tmp_path / "subord.toml"
    table = f'[transfer]\nbatch = "gridengine"\nbatch_environment = ["PATH={folder}"]\nkey = "{key}"\n'
    file.write_text(f'[cluster]\nnetwork = "10.0.0.0/24"\n{table}socket = "{tmp_path}/methods"\n')
    found = list(lines(load(str(file))))
    assert found[0] == (
        "transfer: this node may be the transfer host of a cluster of gridengine; it listens at :9720",
        False,
    )
    assert [text for text, _ in found if "`subord transfer key`" in text]
    ensured(str(key))
    assert list(lines(load(str(file)))) == [(found[0][0], True)]
    key.chmod(0o644)
    assert not next(lines(load(str(file))))[1]
    (folder / "qmod").unlink()
    file.write_text(file.read_text().replace(f"{tmp_path}/methods", "/nowhere/methods"))
    texts = [text for text, _ in lines(load(str(file)))]
    assert any("qmod is not in" in each for each in texts)
    assert any("/nowhere is no directory that can be written to" in each for each in texts)
