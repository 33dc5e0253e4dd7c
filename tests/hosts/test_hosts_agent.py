"""The document of hosts at the agent, from the daemon's side: what is written, what is refused, and what is told."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from agent_node import AgentNode
from fake_operators import CLUSTER, signed
from msgspec.structs import replace
from signed_orders import NOW_MS

from subord.agent import judge, serving
from subord.config.schema import ElasticConfig
from subord.core.address.network import Network
from subord.core.carriage.documents import ELASTIC, HOSTS, NEVER_MS, Document, Documents
from subord.core.carriage.orders import Order
from subord.runtime.frames import Frames
from subord.runtime.hosts import state
from subord.runtime.hosts.state import Said, decode_said
from subord.runtime.orders.agent import DONE_BYTES_MAX, Done, decode_done
from subord.services.acting import Handed
from subord.services.elastic.options import SLURM, Options
from subord.services.elastic.plan import Plan, encode_plan
from subord.services.hosts.table import encode, table_of
from subord.services.newest import accepted
from tests.agent.test_agent_judge import revoking
from tests.hosts.test_hosts_block import DEBIAN
from tests.services.test_files_sets import ME, POSITION

POLICY = f'[[allow]]\nprincipals = ["ann", "bob"]\nservices = ["hosts"]\nusers = ["{ME}"]\n'
POWERS = dict.fromkeys(("ann", "bob", "mia"), "subord.hosts subord.identity")
APPLIED = Said(state.APPLIED)


class Stage(AgentNode[Frames]):
    """The agent of one node behind its socket, and the daemon's side."""

    def __init__(self, top: Path) -> None:
        (top / "state").mkdir(mode=0o700)
        super().__init__(top, top / "state", policy=POLICY, powers=POWERS, talk=Frames)
        self.hosts = top / "hosts"
        self.hosts.write_text(DEBIAN)
        self.config = ElasticConfig(hosts_file=str(self.hosts))

    @property
    def configured(self) -> dict[str, Any]:
        return {"elastic": self.config, "network": Network.parse("10.0.0.0/16")}

    async def handed(self, document: Document) -> tuple[Said | None, Done | None]:
        """What the agent says, and how it ends."""
        async with self.following(document) as frames:
            data = await frames.next(DONE_BYTES_MAX)
            assert data is not None
            said = decode_said(data)
            if said is not None:
                data = await frames.next(DONE_BYTES_MAX)
            return said, None if data is None else decode_done(data)

    @property
    def names(self) -> list[str]:
        """Of the block."""
        return [line.split()[1] for line in self.hosts.read_text().splitlines() if line.startswith("10.")]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for each in (judge, serving):
        monkeypatch.setattr(each, "ROOT", ME)
    return Stage(tmp_path)


def document(version: int, *names: str, by: str = "ann", name: str = HOSTS, network: str = "10.0") -> Document:
    pairs = ((each, f"{network}.0.{number}") for number, each in enumerate(names, 5))
    return signed(Order(name, version, NOW_MS + version, NEVER_MS, encode(table_of(pairs))), by)


async def test_a_table_is_written_and_taken_away(stage: Stage) -> None:
    async with stage.running():
        assert await stage.handed(document(1, "node001", "node002")) == (APPLIED, Done(principal="ann"))
        assert stage.names == ["node001", "node002"]
        assert await stage.handed(document(2, by="bob")) == (APPLIED, Done(principal="bob"))
        assert stage.hosts.read_text() == DEBIAN


async def test_an_older_table_is_never_written_again(stage: Stage) -> None:
    async with stage.running():
        await stage.handed(document(2, "node002"))
        assert await stage.handed(document(1, "node001")) == (None, Done("replayed", principal="ann"))
        assert stage.names == ["node002"]
    async with stage.running():  # also after a restart
        assert await stage.handed(document(1, "node001")) == (None, Done("replayed", principal="ann"))
        assert await stage.handed(document(2, "node002")) == (APPLIED, Done(principal="ann"))
    assert stage.names == ["node002"]


async def test_a_table_before_one_of_a_revoked_operator_counts(stage: Stage) -> None:
    async with stage.running():
        await stage.handed(document(5, "evil", by="bob"))
        stage.revoked = revoking("bob", Documents())
        assert await stage.handed(document(4, "node001")) == (APPLIED, Done(principal="ann"))
        assert await stage.handed(document(6, "evil", by="bob")) == (
            None,
            Done("revoked", principal="bob", refused=True),
        )
    assert stage.names == ["node001"]


async def test_an_operator_who_may_not_is_refused(stage: Stage) -> None:
    async with stage.running():
        altered = document(1, "node001")._replace(body=encode(table_of([("evil", "10.0.0.9")])))
        for each, cause in (
            (document(1, "node001", by="mia"), "denied"),
            (document(1, "node001", by="eve"), "unknown principal"),
            (altered, "altered"),
        ):
            said, done = await stage.handed(each)
            assert done is not None
            assert (said, done.cause, done.refused) == (None, cause, True)
    assert stage.hosts.read_text() == DEBIAN


@pytest.mark.parametrize("body", [b"{}x", b'{"later":1}', b'{"others":[["localhost","10.0.0.9"]]}'])
async def test_a_body_that_is_no_table_is_not_written(stage: Stage, body: bytes) -> None:
    async with stage.running():
        later = signed(Order(HOSTS, 1, NOW_MS, NEVER_MS, body))
        assert await stage.handed(later) == (None, Done("malformed", principal="ann"))
        assert (await stage.handed(document(1, "node001", name="hosts/other")))[1] == Done("expired", refused=True)
    assert stage.hosts.read_text() == DEBIAN


async def test_addresses_outside_the_cluster_are_not_written(stage: Stage) -> None:
    """An operator of hosts alone cannot send a node elsewhere."""
    async with stage.running():
        said, done = await stage.handed(document(1, "mirror.example", network="192.168"))
        assert said == Said(
            state.FAILED,
            "mirror.example has 192.168.0.5, which is no address of the cluster's network: publish another table; "
            f"{stage.hosts} is unchanged",
        )
        assert done == Done("failed", principal="ann")
        assert (await stage.handed(document(1, "node001")))[0] == APPLIED, "the version was not taken"


def planned(stage: Stage, plan: Plan, version: int = 1) -> None:
    """The node has accepted a plan."""
    order = Order(ELASTIC, version, NOW_MS, NEVER_MS, encode_plan(plan))
    handed = Handed(signed(order), "", "ann", "SHA256:ann", lambda *_: False, POSITION, (), CLUSTER)
    assert accepted(handed, str(stage.directory), "elastic")


def table(version: int, *pairs: tuple[str, str]) -> Document:
    return signed(Order(HOSTS, version, NOW_MS + version, NEVER_MS, encode(table_of(pairs))))


GROWING = Plan(manager=1, options=Options(max_nodes=9), prefix="worker-", former=("node",))
QUEUES, NODES = ("master.example", "10.0.0.1"), (("node001", "10.0.0.7"), ("worker-1002", "10.0.0.8"))
STRANGE = {
    "another name": ("mirror", "10.0.0.7"),
    "of another node": ("ldap", "10.0.0.9"),
    "a domain": ("node001.example", "10.0.0.9"),
    "too few digits": ("node1", "10.0.0.9"),
    "a second name of the queue's node": ("ldap", "10.0.0.1"),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
async def test_a_stolen_key_gives_no_other_names_than_the_plan(stage: Stage, strange: tuple[str, str]) -> None:
    assert Network.parse("10.0.0.0/16").position_of(QUEUES[1]) == 1
    planned(stage, GROWING)
    async with stage.running():
        assert (await stage.handed(table(1, QUEUES, *NODES)))[0] == APPLIED
        before = stage.hosts.read_text()
        said, done = await stage.handed(table(2, QUEUES, *NODES, strange))
        assert said is not None
        assert done == Done("failed", principal="ann")
        first = QUEUES if strange[1] == QUEUES[1] else strange
        assert said.detail.startswith(f"the table gives {first[0]} the address {first[1]}, and by the plan of the")
        assert said.detail.endswith(f"{stage.hosts} is unchanged")
        assert stage.hosts.read_text() == before
        assert (await stage.handed(table(2, QUEUES)))[0] == APPLIED, "the version was not taken"


async def test_a_table_that_was_accepted_stays_under_another_plan(stage: Stage) -> None:
    """The next queue's node makes its own."""
    planned(stage, GROWING)
    async with stage.running():
        assert (await stage.handed(table(1, QUEUES, *NODES)))[0] == APPLIED
        planned(stage, replace(GROWING, manager=5, former=()), version=2)
        stage.hosts.write_text(DEBIAN)
        assert (await stage.handed(table(1, QUEUES, *NODES)))[0] == APPLIED
        assert "node001" in stage.names
        said, _ = await stage.handed(table(2, QUEUES, *NODES))
        assert said is not None
        assert said.word == state.FAILED


async def test_a_plan_that_is_off_leaves_the_queues_node_its_name(stage: Stage) -> None:
    planned(stage, replace(GROWING, manager=0))
    async with stage.running():
        assert (await stage.handed(table(1, QUEUES, *NODES)))[0] == APPLIED
        said, _ = await stage.handed(table(2, QUEUES, *NODES, ("ldap", "10.0.0.9")))
        assert said is not None
        assert said.word == state.FAILED


async def test_where_slurm_decides_nodes_have_its_names(stage: Stage) -> None:
    planned(stage, replace(GROWING, options=Options(max_nodes=9, queue="debug", decides=SLURM)))
    async with stage.running():
        assert (await stage.handed(table(1, QUEUES, ("cloud-a", "10.0.0.9"))))[0] == APPLIED


async def test_what_cannot_be_written_is_told_and_tried_again(stage: Stage) -> None:
    stage.hosts.unlink()
    async with stage.running():
        said, done = await stage.handed(document(1, "node001"))
        assert said is not None
        assert (said.word, done) == (state.FAILED, Done("failed", principal="ann"))
        assert said.detail.startswith(f"{stage.hosts} cannot be written, and is unchanged (No such file")
        stage.hosts.touch()
        assert (await stage.handed(document(1, "node001")))[0] == APPLIED
    assert stage.names == ["node001"]


async def test_a_version_that_cannot_be_kept_is_not_written(stage: Stage) -> None:
    """Else an older one could be written later."""
    (stage.directory / "hosts").touch()
    async with stage.running():
        said, _ = await stage.handed(document(1, "node001"))
        assert said is not None
        assert said.detail.startswith("the document cannot be read from")
    assert stage.hosts.read_text() == DEBIAN
    assert stat.S_ISREG((stage.directory / "hosts").stat().st_mode)


async def test_a_node_may_follow_no_table(stage: Stage) -> None:
    stage.config = ElasticConfig(hosts_file="")
    async with stage.running():
        assert await stage.handed(document(1, "node001")) == (Said(state.OFF), Done(principal="ann"))
    assert stage.hosts.read_text() == DEBIAN


async def test_notes_are_told(stage: Stage) -> None:
    stage.hosts.write_text("10.0.9.9 node001\n")
    async with stage.running():
        said, _ = await stage.handed(document(1, "node001"))
    assert said == Said(state.APPLIED, notes=("lines outside the block give node001 another address, and count",))
