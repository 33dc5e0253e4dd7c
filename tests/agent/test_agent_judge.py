"""Which orders the agent takes, word by word, with operators whose signatures need no program."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from fake_operators import FakeVerifier, signed
from signed_orders import NOW_MS, TAG, order

from subord.agent.judge import Judge, Judged
from subord.agent.policy import EXAMPLE
from subord.agent.revoked import RevokedList
from subord.core.carriage.documents import NEVER_MS, Document, Documents
from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.causes import SENTENCES, sentence
from subord.core.carriage.engine.frames import Order
from subord.core.carriage.engine.ranges import Ranges
from subord.core.identity.revocations import Entry, Revocations

POSITION = 5
POLICY = '[[allow]]\nprincipals = ["ann", "bob"]\nservices = ["touch", "linger"]\nusers = ["root"]\n'
HOUR_MS = 3_600_000
CLUSTER = "", "127.0.0.0/24"


class Operators(FakeVerifier):
    """With the namespaces of services."""

    def __init__(self) -> None:
        every = "subord.touch subord.linger subord.other subord.identity"
        super().__init__({"ann": every, "bob": "subord.members subord.identity", "mia": every})

    def revoke(self, names: Any) -> None:
        """The judge looks at the list itself."""


class Agent:
    """A judge with its files."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.policy = top / "policy.toml"
        self.policy.write_text(POLICY)
        self.policy.chmod(0o644)
        self.now_ms = NOW_MS
        self.operators = Operators()

    def revoked(self) -> RevokedList:
        operators: Any = Operators()
        return RevokedList(str(self.top), operators, CLUSTER, wall=lambda: self.now_ms / 1000)

    async def judge(self, given: Order, revoked: Document | None = None, source: str = "") -> Judged:
        operators: Any = self.operators
        judge = Judge(
            CLUSTER,
            POSITION,
            verifier=operators,
            revoked=self.revoked(),
            policy_path=str(self.policy),
            offers=lambda name: name in ("touch", "other"),
            follows=lambda name: name in ("touch", "other"),
            wall=lambda: self.now_ms / 1000,
        )
        return await judge.judge(given, revoked, source)

    async def cause(self, given: Order, revoked: Document | None = None) -> str:
        cause = (await self.judge(given, revoked)).cause
        assert not cause or "gave no result" not in sentence(cause)
        return cause


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


async def test_an_order_of_an_operator_counts(agent: Agent) -> None:
    for targets in (None, Ranges.of((2, POSITION))):
        judged = await agent.judge(order(targets=targets))
        assert judged[:3] == ("", "ann", "root")
        assert judged.expires_ms == NOW_MS + 5000 + service_orders.SKEW_MS


async def test_false_signatures_count_for_the_node_that_asked_and_not_for_the_issuer_that_it_names(
    agent: Agent,
) -> None:
    for issuer in (2, 3):
        await agent.judge(altered(order(), issuer=issuer), source="10.0.0.9")
    assert agent.operators.sources == {"10.0.0.9"}
    await agent.judge(altered(order(), issuer=3))
    assert agent.operators.sources == {"10.0.0.9", "3"}, "along the tree"


def altered(given: Order, **changes: Any) -> Order:
    return msgspec.structs.replace(given, **changes)


def with_authority(given: Order, **changes: Any) -> Order:
    authority = service_orders.decode(given.authority)
    assert authority is not None
    return altered(given, authority=service_orders.encode(msgspec.structs.replace(authority, **changes)))


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (altered(order(), authority=b""), "unsigned"),
        (with_authority(order(), signature=b""), "unsigned"),
        (altered(order(), authority=b"\xff"), "malformed"),
        (order(expires_ms=NOW_MS + service_orders.LIFE_MS_MAX + HOUR_MS), "malformed"),
        (altered(order(), payload=b"rm"), "altered"),
        (altered(order(), tag=b"another tag     "), "altered"),
        (altered(order(targets=Ranges.of((5,))), flat_targets=None), "altered"),
        (altered(order(targets=Ranges.of((4,))), flat_targets=Ranges.of((5,)).flat()), "altered"),
        (altered(order(), service="other"), "altered"),
        (with_authority(order(), user="nobody"), "altered"),
        (with_authority(order(), expires_ms=NOW_MS + HOUR_MS), "altered"),
        (with_authority(order(), run_ms=1), "altered"),
        (with_authority(order(), not_before_ms=0, expires_ms=NOW_MS + 1), "malformed"),
        (order(cluster=("other", "127.0.0.0/24")), "altered"),
        (order(targets=Ranges.of((4, 6))), "other targets"),
        (order(principal="bob"), "not permitted"),
        (order(principal="eve"), "unknown principal"),
        (order(principal="mia"), "denied"),
        (order(user="nobody"), "denied"),
        (order(service="other"), "denied"),
        (order(service="ping"), "not offered"),
        (order(namespace="subord.other"), "altered"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_what_does_not_count_says_why(agent: Agent, given: Order, cause: str) -> None:
    assert await agent.cause(given) == cause


@pytest.mark.parametrize(
    ("off_ms", "cause"),
    [(HOUR_MS, "order expired"), (-HOUR_MS, "not yet valid"), (299_000, ""), (-299_000, "")],
)
async def test_a_wrong_clock_is_named(agent: Agent, off_ms: int, cause: str) -> None:
    agent.now_ms = NOW_MS + off_ms
    assert await agent.cause(order()) == cause


@pytest.mark.parametrize(
    ("text", "mode", "cause"),
    [
        (POLICY, 0o664, "bad mode"),
        (POLICY, 0o646, "bad mode"),
        (EXAMPLE, 0o600, "denied"),
        ("", 0o644, "denied"),
        ("[[allow]", 0o644, "bad policy"),
        (None, 0, "no policy"),
    ],
)
async def test_the_policy_must_be_sound(agent: Agent, text: str | None, mode: int, cause: str) -> None:
    if text is None:
        agent.policy.unlink()
    else:
        agent.policy.write_text(text)
        agent.policy.chmod(mode)
    assert await agent.cause(order()) == cause


def revoking(what: str, documents: Documents, by: str = "ann") -> Document:
    """The next version of the list, with an operator on it."""
    entry = Entry("operator", what, 0, "left", NOW_MS, "ann")
    listed = Revocations(documents).with_entry(entry, NOW_MS)
    assert listed is not None
    document = signed(listed, by)
    documents.merge([document])
    return document


async def test_a_revoked_operator_is_refused_also_later_and_without_the_list(agent: Agent) -> None:
    documents = Documents()
    first, second = revoking("ann", documents), revoking("bob", documents)
    assert await agent.cause(order()) == ""
    assert await agent.cause(order(), first) == "revoked"
    assert await agent.cause(order()) == "revoked"
    assert await agent.cause(order(), second) == "revoked"
    assert await agent.cause(order(), first) == "revoked", "an older list does not replace it"


STRANGE = msgspec.msgpack.encode(Document("test/a", 1, NOW_MS, NOW_MS, b""))
SPOILED = msgspec.msgpack.encode(Document("revoked/list", 1, NOW_MS, NEVER_MS, b"\xc1"))


@pytest.mark.parametrize("content", [b"", bytes(100), STRANGE, SPOILED], ids=["empty", "zeros", "other", "body"])
async def test_a_damaged_list_refuses_all_orders_until_a_list_comes(agent: Agent, content: bytes) -> None:
    file = agent.top / "revoked"
    file.write_bytes(content)
    assert await agent.cause(order()) == "bad revoked list"
    assert await agent.cause(order(), revoking("ann", Documents(), by="eve")) == "bad revoked list"
    assert await agent.cause(order(), revoking("bob", Documents())) == ""
    assert await agent.cause(order()) == ""


async def test_a_damaged_list_that_root_deletes_refuses_no_more(agent: Agent) -> None:
    file = agent.top / "revoked"
    file.write_bytes(b"")
    held = agent.revoked()
    assert held.is_damaged
    await held.take(None)
    assert held.is_damaged
    file.unlink()
    await held.take(None)
    assert not held.is_damaged


async def test_a_list_that_cannot_be_opened_refuses_all_orders(agent: Agent) -> None:
    (agent.top / "revoked").mkdir()
    assert await agent.cause(order()) == "bad revoked list"


async def test_an_agent_does_not_replace_the_newer_list_of_another(agent: Agent) -> None:
    documents = Documents()
    first, second = revoking("bob", documents), revoking("ann", documents)
    late = agent.revoked()
    assert await agent.cause(order(), second) == "revoked"
    await late.take(first)
    assert late.word_for("bob")
    assert await agent.cause(order()) == "revoked"


async def test_of_lists_that_come_at_once_the_newest_is_kept(agent: Agent) -> None:
    documents = Documents()
    lists = [revoking(each, documents) for each in ("bob", "mia", "ann")]
    one = agent.revoked()
    async with trio.open_nursery() as nursery:
        for each in lists:
            nursery.start_soon(one.take, each)
    assert await agent.cause(order()) == "revoked"


async def test_the_name_of_a_list_is_on_the_disk_too(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the older list would count again after a power failure."""
    kinds = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: kinds.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    assert await agent.cause(order(), revoking("ann", Documents())) == "revoked"
    assert kinds == [False, True]


async def test_a_list_that_no_operator_has_signed_is_not_taken(agent: Agent) -> None:
    forged = revoking("ann", Documents(), by="eve")
    assert await agent.cause(order(), forged) == ""


def test_every_word_of_the_agent_has_a_sentence() -> None:
    assert {"unsigned", "order expired", "not yet valid", "tag used", "no policy"} <= set(SENTENCES)
    assert "no line of this node's operators file" in sentence("unknown principal")
    assert TAG in order().tag
