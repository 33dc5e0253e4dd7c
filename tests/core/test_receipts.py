"""Receipts through the engine: what an interior node answers in the place of its branch is shown, and named."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from order_stage import Stage

from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.frames import Ask, Order, Tag, Told, decode, encode, order_of
from subord.core.carriage.engine.interface import Act, Acted, Action, Answer, Arrived, Issue, Link, Outcome
from subord.core.carriage.engine.ranges import Ranges
from subord.core.identity import receipts
from subord.core.identity.receipts import Receipt
from subord.core.view import Position
from subord.sealing.identity import Ed25519Signer

CLUSTER = "", "10.0.0.0/24"
TREE = {1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4}
BRANCH = Ranges.of((2, 4, 5, 6))
TAG, EARLIER = b"0123456789abcdef", b"earlier order   "
SIGNERS = {each: Ed25519Signer(bytes([each]) * 32) for each in TREE}

Invent = Callable[[Position], bytes]
"""What the liar tells as the result of a node."""


def asked_order(
    tag: Tag = TAG, service: str = "read", payload: bytes = b"", authority: bytes = b"", issuer: int = 1
) -> Order:
    return order_of(tag, service, payload, Ranges.of(TREE), issuer, authority=authority, receipts=True)


def receipt_of(position: Position, *, by: Position = 0, order: Order | None = None, result: bytes = b"ok") -> bytes:
    return receipts.signed(SIGNERS[by or position], CLUSTER, position, order or asked_order(), result)


class Lied(Stage):
    """`invent`: what node 2 answers for its branch, without asking it; None: nothing."""

    invent: Invent | None = None

    def _carry_out(self, position: Position, action: Action) -> None:
        if not isinstance(action, Act):
            super()._carry_out(position, action)
            return
        self.acted.append((position, action.order.tag))
        result = receipts.signed(SIGNERS[position], CLUSTER, position, action.order, b"ok")
        self.at(0.0, lambda: self.feed(position, Acted(action.order.tag, Outcome(result))))

    def _arrive(self, source: Position, link: Link, far: tuple[Position, Link], data: bytes) -> None:
        body = decode(data).body
        if far[0] == 2 and self.invent is not None and isinstance(body, Ask):
            invent = self.invent
            groups = tuple((invent(each), Ranges.of((each,)).flat()) for each in Ranges.unflat(body.part))
            self.feed(source, Arrived(link, encode(1, 1, Told(body.number, groups, is_last=True))))
        else:
            super()._arrive(source, link, far, data)


def asked(invent: Invent | None, *, wants: bool = True) -> Answer:
    stage = Lied(TREE)
    stage.invent = invent
    stage.feed(1, Issue(order_of(TAG, "read", b"", Ranges.of(TREE), 1, receipts=wants), 5.0))
    stage.run(5.0)
    (answer,) = stage.answers
    return answer


def checked(answer: Answer) -> Answer:
    return receipts.checked(
        answer, CLUSTER, asked_order(), lambda position: SIGNERS[position].key, Ed25519Signer(bytes(32))
    )


def test_with_receipts_every_node_counts_and_results_are_folded_again() -> None:
    answer = checked(asked(None))
    assert answer.groups == ((b"ok", Ranges.of(TREE)),)
    assert answer.is_whole


def test_without_receipts_the_invention_counts() -> None:
    """Why there are receipts."""
    answer = asked(lambda _: b"ok", wants=False)
    assert answer.groups == ((b"ok", Ranges.of(TREE)),)


@pytest.mark.parametrize(
    "invent",
    [
        lambda _: b"ok",
        lambda each: receipt_of(each, by=2),
        lambda each: receipt_of(each, order=asked_order(EARLIER)),
        lambda each: receipt_of(each, order=asked_order(service="ping")),
        lambda each: receipt_of(each, order=asked_order(payload=b"x")),
        lambda each: receipt_of(each, order=asked_order(authority=b"x")),
        lambda each: receipt_of(each, order=msgspec.structs.replace(asked_order(), flat_targets=None)),
        lambda _: receipt_of(2),
        lambda _: receipt_of(4),
        lambda _: msgspec.msgpack.encode(Receipt(b"ok", bytes(64))),
        lambda _: msgspec.msgpack.encode(Receipt(b"ok", b"")),
        lambda each: receipt_of(each).replace(b"ok", b"no"),
    ],
    ids=[
        "bare",
        "own key",
        "earlier order",
        "service",
        "payload",
        "authority",
        "targets",
        "own receipt",
        "of one",
        "no proof",
        "empty proof",
        "altered result",
    ],
)
def test_an_interior_node_that_answers_for_its_branch_is_shown(invent: Invent) -> None:
    answer = checked(asked(invent))
    told = [position for _, nodes in answer.groups for position in nodes]
    missing = dict(answer.missing)["no receipt"]
    assert sorted((*told, *missing)) == list(TREE)
    assert {1, 3} <= set(told)
    assert len(missing) >= len(BRANCH) - 1
    assert not answer.is_whole


def test_results_that_were_left_out_have_no_receipt() -> None:
    answer = Answer(targets=Ranges.of((1, 2)), groups=((receipt_of(1), Ranges.of((1,))),), others=Ranges.of((2,)))
    found = checked(answer)
    assert found.groups == ((b"ok", Ranges.of((1,))),)
    assert found.missing == (("no receipt", Ranges.of((2,))),)
    assert not found.others


def test_a_node_that_has_no_identity_gives_no_receipt() -> None:
    answer = Answer(targets=Ranges.of((1,)), groups=((receipt_of(1), Ranges.of((1,))),))
    found = receipts.checked(answer, CLUSTER, asked_order(), lambda _: b"", Ed25519Signer(bytes(32)))
    assert found.missing == (("no receipt", Ranges.of((1,))),)


def test_a_receipt_counts_for_its_address_only() -> None:
    """Also where a host has two addresses, and one key."""
    groups = (receipt_of(4), Ranges.of((4,))), (receipt_of(4, result=b"ko"), Ranges.of((5,)))
    answer = Answer(targets=Ranges.of((4, 5)), groups=groups)
    found = receipts.checked(answer, CLUSTER, asked_order(), lambda _: SIGNERS[4].key, Ed25519Signer(bytes(32)))
    assert found.groups == ((b"ok", Ranges.of((4,))),)
    assert found.missing == (("no receipt", Ranges.of((5,))),)


def test_a_receipt_counts_whichever_node_issues_the_order_and_however_its_signature_is_written() -> None:
    """ssh-keygen takes a signature also with other line ends."""
    signed = service_orders.valid_for("root", 0, 5.0)
    one, other = (service_orders.encode(msgspec.structs.replace(signed, signature=each)) for each in (b"s", b"s\n"))
    receipt = receipt_of(1, order=asked_order(authority=one, issuer=2))
    answer = Answer(targets=Ranges.of((1,)), groups=((receipt, Ranges.of((1,))),))
    key, verifier = SIGNERS[1].key, Ed25519Signer(bytes(32))
    assert receipts.checked(answer, CLUSTER, asked_order(authority=other), lambda _: key, verifier).is_whole


def test_an_order_that_asks_for_none_gets_plain_results() -> None:
    plain = order_of(TAG, "read", b"", None, 1)
    assert receipts.signed(SIGNERS[1], CLUSTER, 1, plain, b"ok") == b"ok"
