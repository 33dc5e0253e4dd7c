"""The gate: which orders count at a node, by tables, and what is counted, shown and logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fake_operators import CLUSTER, FakeVerifier, signed

from subord.core.carriage import plan
from subord.core.carriage.documents import EXPIRY_MS_MAX, NEVER_MS, REVOKED, STRICT, Document, Documents
from subord.core.carriage.orders import Order
from subord.core.carriage.verdicts import SENTENCES
from subord.core.identity.revocations import Entry, Revocations
from subord.core.members import statements
from subord.core.members.register import LEAP_MS_MAX
from subord.core.members.statements import Forget
from subord.runtime.counters import Counters
from subord.runtime.security.gate import SAID_AGAIN_S, Gate
from subord.sealing import rotation
from subord.sealing.keys import key_of, keyring_of

NOW_MS = 1_800_000_000_000
FORGET = statements.forget_order("a", Forget(((3, 3),), "sold", "ann"), NOW_MS)
RING_ORDER = rotation.ring_order(keyring_of(key_of(bytes(32)), revision=4), NOW_MS)


class Post:
    """A gate, and what it counts."""

    def __init__(self, verifier: FakeVerifier | None = None) -> None:
        self.documents = Documents()
        self.counters = Counters()
        self.verifier = verifier or FakeVerifier()
        self.now_ms = NOW_MS
        revocations = Revocations(self.documents)
        self.gate = Gate(self.verifier, CLUSTER, revocations, self.counters, lambda: self.now_ms / 1000)

    async def word(self, document: Document) -> str:
        return (await self.gate.judge(document)).word


@pytest.mark.parametrize(
    "order",
    [
        FORGET,
        RING_ORDER,
        Order(STRICT, 1, NOW_MS, NEVER_MS, b"\xc3"),
        plan.order_of(1, NOW_MS, ["node_load1", "app_*"]),
        Order("test/keys", 1, NOW_MS, NOW_MS + 1, b""),
        FORGET._replace(at_ms=NOW_MS + LEAP_MS_MAX),
    ],
    ids=lambda order: order.name,
)
async def test_a_signed_order_counts(order: Order) -> None:
    post = Post()
    verdict = await post.gate.judge(signed(order))
    assert verdict == ("", "ann", "SHA256:ann")
    assert post.counters.orders_accepted.total() == 1
    assert not post.counters.orders_refused


@pytest.mark.parametrize(
    ("document", "word", "is_asked"),
    [
        (Document(*FORGET), "unsigned", False),
        (signed(FORGET, "eve"), "unknown_principal", True),
        (signed(FORGET)._replace(version=2), "altered", True),
        (signed(FORGET)._replace(at_ms=NOW_MS - 1), "altered", True),
        (signed(FORGET)._replace(expires_ms=NOW_MS + 1), "altered", True),
        (signed(FORGET)._replace(name="forget/b"), "altered", True),
        (signed(FORGET, cluster=("another", CLUSTER[1])), "altered", True),
        (signed(FORGET, cluster=("", "10.0.0.0/24")), "altered", True),
        (signed(RING_ORDER, "mia"), "not_permitted", True),
        (signed(FORGET._replace(expires_ms=NOW_MS)), "expired", False),
        (signed(FORGET._replace(expires_ms=NOW_MS + EXPIRY_MS_MAX + 1)), "expired", False),
        (signed(RING_ORDER._replace(expires_ms=NOW_MS + 1)), "expired", False),
        (signed(FORGET._replace(at_ms=NOW_MS + LEAP_MS_MAX + 1)), "from_the_future", False),
        (signed(FORGET._replace(name="other/a")), "unknown_kind", False),
        (signed(Order("test/exec", 1, NOW_MS, NOW_MS + 1, b"")), "unknown_kind", False),
        (signed(FORGET._replace(body=b"\xc1")), "malformed", False),
        (signed(plan.order_of(1, NOW_MS, [])), "malformed", False),
        (signed(RING_ORDER._replace(version=5)), "malformed", False),
        (signed(RING_ORDER._replace(body=b"primary x\n")), "malformed", False),
        (signed(Order(REVOKED, 1, NOW_MS, NEVER_MS, b"x")), "malformed", False),
    ],
)
async def test_what_does_not_count_says_why(document: Document, word: str, is_asked: bool) -> None:
    post = Post()
    assert await post.word(document) == word
    assert post.verifier.asked == is_asked
    assert post.counters.orders_refused == {word: 1}
    assert not post.counters.orders_accepted
    (problem,) = post.counters.problems.shown()
    assert problem.kind == "order"
    assert SENTENCES[word] in problem.text


async def test_the_neighbour_that_passes_on_a_refused_order_is_named() -> None:
    post = Post()
    await post.gate.judge(signed(FORGET, "eve"), "10.0.0.9")
    (problem,) = post.counters.problems.shown()
    assert ", passed on by 10.0.0.9, is refused: " in problem.text


async def test_a_revoked_operator_counts_no_more() -> None:
    for what in ("bob", "SHA256:bob"):
        post = Post()
        order = Revocations(post.documents).with_entry(Entry("operator", what, 0, "left", NOW_MS, "ann"), NOW_MS)
        assert order is not None
        post.documents.merge([signed(order)])
        assert await post.word(signed(FORGET, "bob")) == "revoked"
        assert await post.word(signed(FORGET, "ann")) == ""


async def test_given_orders_must_be_newer_and_kept_for_as_long() -> None:
    post = Post()
    first = FORGET._replace(version=3)
    post.documents.merge([signed(first)])
    for order, word in (
        (first, "replayed"),
        (first._replace(version=2), "replayed"),
        (first._replace(version=4, expires_ms=first.expires_ms - 1), "replayed"),
        (first._replace(version=4), ""),
        (first._replace(name="forget/b", version=1), ""),
    ):
        assert (await post.gate.judge_given(signed(order), post.documents)).word == word
    assert post.counters.orders_refused == {"replayed": 3}


async def test_a_refusal_is_logged_once_in_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """A neighbour offers the same again and again."""
    post = Post()
    with caplog.at_level(logging.INFO, "subord"):
        for _ in range(3):
            await post.word(Document(*FORGET))
        post.now_ms += int(1000 * SAID_AGAIN_S)
        await post.word(Document(*FORGET))
    lines: list[Any] = [record.args for record in caplog.records]
    assert [line["order"] for line in lines] == ["forget/a"] * 2
    assert post.counters.orders_refused == {"unsigned": 4}


async def test_an_accepted_order_is_logged_with_its_operator(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "subord"):
        await Post().word(signed(FORGET, "mia"))
    (record,) = caplog.records
    assert record.args == {"order": "forget/a", "principal": "mia", "power": "members", "version": 1}
