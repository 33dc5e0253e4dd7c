"""Orders through the control socket: what is prepared, for which users, and what is taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from subord.api.handlers import problems
from subord.api.models.orders import ORDERS_MAX
from subord.core.carriage.documents import NEVER_MS, REVOKED, STRICT, Document
from subord.core.carriage.orders import Order, signed_content
from subord.core.carriage.verdicts import SENTENCES
from subord.core.identity.pins import Pin
from subord.core.members.membership import REGISTER
from subord.core.members.register import Record, Run, State
from tests.api.fake_node_api import FakeNode, World
from tests.api.ordering import given, order, prepared, signed_body


def held(node: FakeNode) -> set[str]:
    return set(node.tracker.membership.documents.by_name)


async def test_what_is_prepared_is_what_is_signed() -> None:
    node = World().node(7)
    status, document = await prepared(node, "maintain", is_owner=False, nodes="4", reason="fan", by="ann")
    (one,) = document["orders"]
    body = base64.b64decode(one["body"])
    expected = Order(one["name"], one["version"], one["at_ms"], one["expires_ms"], body)
    assert (status, one["namespace"]) == (200, "subord.members")
    assert base64.b64decode(one["content"]) == signed_content(("", "10.0.0.0/16"), expected)
    assert msgspec.msgpack.decode(body) == {
        "nodes": [[4, 4]],
        "reason": "fan",
        "by": "ann",
        "until_ms": 0,
        "ended": False,
    }
    assert held(node) == set()


async def test_a_signed_order_is_taken_for_every_client_of_the_socket() -> None:
    node = World().node(7)
    status, document = await order(node, "maintain", "mia", nodes="4", reason="fan")
    assert status == 200
    (one,) = document["orders"]
    assert held(node) == {one["name"]}
    assert document["judged"] == {
        "schema_version": 1,
        "orders": [
            {
                "name": one["name"],
                "power": "members",
                "word": "",
                "sentence": "",
                "principal": "mia",
                "fingerprint": "SHA256:mia",
            }
        ],
        "stored": True,
        "saved": True,
    }
    assert node.counters.orders_accepted == {"members": 1}


async def test_two_orders_of_one_version_are_shown_as_a_conflict() -> None:
    node = World().node(1)
    node.tracker.membership.documents.merge(Document("forget/a", 1, 1, NEVER_MS, body) for body in (b"a", b"b"))
    found = await problems.find(node, 1.0)
    assert [each.text for each in found.problems if each.kind == "conflict"] == [
        "two different orders forget/a of one version were given; one of them counts on all nodes"
    ]


async def test_of_several_orders_all_are_taken_or_none() -> None:
    node = World().node(1)
    for nodes in ("4", "5"):
        await order(node, "maintain", nodes=nodes, reason="fan")
    before = dict(node.tracker.membership.documents.by_name)
    _, document = await prepared(node, "resume", nodes="4-5")
    assert len(document["orders"]) == 2
    body = json.loads(signed_body(document))
    wrong = json.loads(json.dumps(body))
    wrong["orders"][1]["version"] += 1
    status, answer = await given(node, json.dumps(wrong).encode())
    assert (status, answer["error"].endswith("Nothing was changed")) == (403, True)
    assert node.tracker.membership.documents.by_name == before
    assert (await given(node, json.dumps(body).encode()))[0] == 200


async def test_an_order_is_taken_once() -> None:
    node = World().node(1)
    _, document = await prepared(node, "maintain", nodes="4", reason="fan")
    assert (await given(node, signed_body(document)))[0] == 200
    status, answer = await given(node, signed_body(document))
    assert (status, "newer version" in answer["error"]) == (403, True)
    assert node.counters.orders_refused == {"replayed": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"orders": []}',
        b"[" * 60_000,
        json.dumps({"orders": [{"name": "forget/a"}]}).encode(),
        json.dumps(
            {"orders": [{"name": "f/a", "version": 1, "at_ms": 1, "expires_ms": 2, "body": ""}] * (ORDERS_MAX + 1)}
        ).encode(),
    ],
)
async def test_a_body_that_is_no_order_changes_nothing(body: bytes) -> None:
    node = World().node(1)
    status, answer = await given(node, body)
    assert (status, "nothing was changed" in answer["error"]) == (400, True)
    assert held(node) == set()


async def test_an_unsigned_order_is_refused_in_a_sentence() -> None:
    node = World().node(1)
    one: dict[str, Any] = {"name": "strict/on", "version": 1, "at_ms": 1, "expires_ms": NEVER_MS, "body": "ww=="}
    status, answer = await given(node, json.dumps({"orders": [one]}).encode())
    assert status == 403
    assert answer["error"] == f"refused: strict/on: {SENTENCES['unsigned']}. Nothing was changed"


# -- tests of a signature, revocations ------------------------------------------------------------------------


@pytest.mark.parametrize(("principal", "word"), [("ann", ""), ("mia", "not_permitted"), ("eve", "unknown_principal")])
async def test_a_test_is_judged_and_not_stored(principal: str, word: str) -> None:
    node = World().node(1)
    status, document = await order(node, "test", principal, power="keys")
    (one,) = document["judged"]["orders"]
    assert (status, one["word"], one["power"], bool(one["sentence"])) == (200, word, "keys", bool(word))
    assert not document["judged"]["stored"]
    assert held(node) == set()


async def test_a_revoked_operator_orders_no_more() -> None:
    node = World().node(1)
    await order(node, "maintain", "bob", nodes="4", reason="fan")
    status, _ = await order(node, "revoke", operator="bob", reason="left the site", by="ann")
    assert (status, held(node)) == (200, {REVOKED})
    status, answer = await order(node, "maintain", "bob", nodes="4", reason="fan")
    assert (status, "is revoked" in answer["error"]) == (403, True)
    assert (await order(node, "unrevoke", "bob", operator="bob"))[0] == 403
    assert (await order(node, "unrevoke", operator="bob"))[0] == 200
    assert (await order(node, "maintain", "bob", nodes="4", reason="fan"))[0] == 200
    (entry,) = node.tracker.membership.revocations.entries or (None,)
    assert entry is None


async def test_a_node_is_revoked_by_its_address() -> None:
    node, key = World().node(1), b"k" * 32
    status, document = await order(node, "revoke", node="10.0.0.9", reason="stolen", by="ann")
    assert (status, "no key is pinned to 10.0.0.9" in document["error"]) == (404, True)
    pins = node.tracker.membership.pins
    assert pins is not None
    pins.merge([Pin(9, 1, key)])
    status, document = await order(node, "revoke", node="10.0.0.9", reason="stolen", by="ann")
    assert (status, document["nodes"], document["addresses"]) == (200, 1, ["10.0.0.9"])
    (entry,) = node.tracker.membership.revocations.entries
    assert entry[:4] == ("node", "10.0.0.9", 9, "stolen")
    assert node.tracker.membership.revocations.node_keys == {key}


async def test_strict_is_switched_by_numbered_orders() -> None:
    node = World().node(1)
    for version, to in enumerate(("on", "off"), start=1):
        assert (await order(node, "strict", to=to))[0] == 200
        document = node.tracker.membership.documents.by_name[STRICT]
        assert (document.version, msgspec.msgpack.decode(document.body)) == (version, to == "on")


@pytest.mark.parametrize(
    ("action", "query", "status"),
    [
        ("", {}, 400),
        ("dance", {}, 400),
        ("revoke", {"reason": "r"}, 400),
        ("revoke", {"operator": "x" * 129, "reason": "r"}, 400),
        ("revoke", {"operator": "bob"}, 400),
        ("revoke", {"node": "192.0.2.1", "reason": "r"}, 404),
        ("unrevoke", {"operator": "bob"}, 404),
        ("strict", {"to": "perhaps"}, 400),
        ("test", {"power": "exec"}, 400),
        ("forget", {"nodes": "4", "reason": "r"}, 409),
        ("forget", {"absent": "4", "reason": "r"}, 404),
        ("forget", {"absent": "x", "reason": "r"}, 400),
    ],
)
async def test_a_wrong_request_prepares_nothing(action: str, query: dict[str, str], status: int) -> None:
    got, document = await prepared(World().node(1), action, **query)
    assert (got, set(document)) == (status, {"error"})


async def test_a_forget_releases_the_key_of_a_node_that_said_goodbye() -> None:
    """Another host, or a release without identities, may take its address. Of nodes that are up nothing is said."""
    root = World().node(1)
    membership = root.tracker.membership
    assert membership.pins is not None
    membership.exchange.spread(
        REGISTER, [Run(12, 12, Record(2, State.LEFT, 1000, 3)), Run(11, 11, Record(2, State.UP))]
    )
    status, document = await prepared(root, "forget", absent="12", reason="sold")
    assert (status, "no member, and no key is pinned to its address: 10.0.0.12;" in document["error"]) == (404, True)
    membership.pins.merge([Pin(position, 1, bytes([position] * 32)) for position in (11, 12, 13)])
    membership.exchange.spread(REGISTER, [Run(13, 13, Record(2, State.DOWN, 1000, 3))])
    status, document = await order(root, "forget", nodes="11,13", absent="12", reason="sold")
    assert (status, document["addresses"]) == (200, ["10.0.0.12", "10.0.0.13"])
    root.tracker.look()
    assert [bool(membership.pins.key_of(each)) for each in (11, 12, 13)] == [True, False, False]
    states = [record.state for each in (12, 13) if (record := membership.register.at(each))]
    assert states == [State.LEFT, State.FORGOTTEN]


async def test_a_forget_is_written_by_the_root_that_takes_it() -> None:
    root = World().node(1)
    root.tracker.membership.exchange.spread(REGISTER, [Run(12, 12, Record(2, State.DOWN, 1000, 3))])
    assert (await order(root, "forget", nodes="12", reason="sold"))[0] == 200
    root.tracker.look()
    record = root.tracker.membership.register.at(12)
    assert record is not None
    assert record.state is State.FORGOTTEN
