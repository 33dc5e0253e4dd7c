"""Documents of sets at the agent, from the daemon's side: what is carried out, and what only the agent can refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from agent_node import AgentNode
from conditions import until
from fake_operators import CLUSTER, signed

from subord.agent import judge, serving
from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.orders import Order
from subord.services.exec import session
from subord.services.files.sets.words import Followed, decode_followed
from tests.agent.test_agent_judge import revoking
from tests.services.test_files_sets import ME, NAME, Node

POLICY = f'[[allow]]\nprincipals = ["ann", "bob"]\nservices = ["files"]\nusers = ["{ME}"]\n'
FILES = "subord.files subord.identity"


class Stage(AgentNode[trio.SocketStream]):
    """The agent of one node behind its socket, and the daemon's side. Eve has no power for files, and mia no rule in
    the policy."""

    def __init__(self, node: Node, top: Path) -> None:
        self.node = node
        powers = {"ann": FILES, "bob": FILES, "mia": FILES, "eve": "subord.members"}
        super().__init__(top, node.agent, policy=POLICY, powers=powers, talk=lambda stream: stream)

    @property
    def configured(self) -> dict[str, Any]:
        return {"node": "10.0.0.7", "socket": "socket"}

    async def prepare(self) -> None:
        self.directory.chmod(0o700)

    def signed(self, text: str, by: str = "ann", **options: Any) -> Document:
        (self.node.source / "a").write_text(text)
        return signed(self.node.document(**options).order, by)

    async def hand(self, document: Document) -> Followed:
        done = await self.agent.hand(document, ())
        assert done is not None
        found = decode_followed(done.result)
        assert found is not None
        return found

    @property
    def text(self) -> str:
        return (self.node.target / "a").read_text()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for each in (judge, serving):
        monkeypatch.setattr(each, "ROOT", ME)
    return Stage(Node(tmp_path, monkeypatch), tmp_path)


async def test_a_document_of_an_operator_is_carried_out(stage: Stage) -> None:
    document = stage.signed("one", after='echo "$SUBORD_PRINCIPAL $SUBORD_NODE" > "$SUBORD_TARGET/by"')
    async with stage.running():
        assert (await stage.hand(document)).state == "current"
        assert (await stage.hand(document)).state == "current"
    assert stage.text == "one"
    assert (stage.node.target / "by").read_text() == "ann 10.0.0.7\n"


async def test_what_does_not_count_changes_nothing_whatever_the_daemon_says(stage: Stage) -> None:
    first, second = stage.signed("one"), stage.signed("two")
    other = stage.node.document()
    async with stage.running():
        assert (await stage.hand(second)).state == "current"
        assert (await stage.hand(first)).state == "overtaken", "a recording"
        false = [
            (other, "no signature"),
            (second._replace(version=9), "was changed or damaged after signing"),
            (second._replace(body=other.body, version=9), "was changed or damaged after signing"),
            (signed(other.order, "eve"), "power"),
            (signed(other.order, "mia"), "the policy of the node does not allow"),
            (signed(other.order, "zoe"), "no line of this node's operators file"),
            (signed(other.order, "ann", ("other", CLUSTER[1])), "was changed or damaged after signing"),
            (signed(other.order._replace(at_ms=1 << 50), "ann"), "ahead of this node's clock"),
        ]
        for document, why in false:
            assert await stage.hand(document) == Followed("failed", "refused", (stage.node.sets.get(NAME).holds)), why  # type: ignore[union-attr]
            failure = stage.node.sets.failure(NAME)
            assert failure is not None
            assert why in failure.detail
    assert stage.text == "two"


async def test_a_revoked_operator_counts_no_more(stage: Stage) -> None:
    documents = Documents()
    third = stage.signed("three", "bob", version=3)
    fourth, second = stage.signed("four", "ann", version=4), stage.signed("two", "bob", version=2)
    async with stage.running():
        assert (await stage.hand(third)).state == "current"
        assert (await stage.hand(fourth)).state == "current"
        stage.revoked = revoking("ann", documents, "bob")
        assert (await stage.hand(stage.signed("five", "ann", version=5))).cause == "refused"
        assert stage.text == "four"
        assert (await stage.hand(second)).state == "current", "what ann has said does not stand above it"
    assert stage.text == "two"


async def test_other_documents_are_not_for_the_agent(stage: Stage) -> None:
    async with stage.running() as server:
        done = await stage.agent.hand(signed(Order("forget/0a", 1, 1, 2, b"")), ())
        assert done is not None
        assert (done.cause, done.refused) == ("not offered", True)
        assert server.refused == {"not offered": 1}


async def test_it_goes_on_when_the_daemon_ends(stage: Stage) -> None:
    waits = f"while test ! -e {stage.top}/go; do sleep 0.01; done"
    document = stage.signed("one", check=f"touch {stage.top}/begun; {waits}")
    async with stage.running():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.hand, document)
            await until((stage.top / "begun").exists, "the check runs")
            nursery.cancel_scope.cancel()
        (stage.top / "go").touch()
        await until((stage.node.target / "a").exists, "the files are in place")


async def test_a_newer_document_ends_the_work_on_an_older_one(stage: Stage) -> None:
    first = stage.signed("one", check=f"touch {stage.top}/begun; sleep 60")
    second = stage.signed("two")
    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(stage.hand, first)
        await until((stage.top / "begun").exists, "the check of the first runs")
        assert (await stage.hand(second)).state == "current"
    assert stage.text == "two"


async def test_the_end_of_the_agent_ends_the_check_and_leaves_nothing(stage: Stage) -> None:
    begun = stage.top / "begun"
    document = stage.signed("one", check=f"echo $$ > {begun}; sleep 60; true")
    async with stage.running(), trio.open_nursery() as nursery:
        nursery.start_soon(stage.hand, document)
        await until(lambda: begun.exists() and len(session.members(int(begun.read_text() or "0"))) == 2, "it runs")
        nursery.cancel_scope.cancel()
    assert session.members(int(begun.read_text())) == []
    assert (stage.node.hidden, stage.node.target.exists()) == ([], False)


async def test_without_an_agent_the_daemon_is_told(stage: Stage) -> None:
    assert await stage.agent.hand(stage.signed("one"), ()) is None
