"""The list of revoked operators, and what its arrival does to the documents that they signed."""

from __future__ import annotations

import pytest

from subord.core.carriage.documents import NEVER_MS, REVOKED, RING, Document, Documents
from subord.core.carriage.exchange import Received
from subord.core.carriage.orders import Order, Verdict
from subord.core.identity.revocations import ENTRIES_MAX, Entry, Revocations
from subord.core.members.membership import DOCUMENTS, REGISTER, Membership
from subord.core.members.register import Register

NOW_MS = 1_800_000_000_000
ANN, BOB = Verdict("", "ann", "SHA256:a"), Verdict("", "bob", "SHA256:b")


def entry(what: str = "bob", reason: str = "left the site") -> Entry:
    return Entry("operator", what, 0, reason, NOW_MS, "ann")


def listed(*entries: Entry, version: int = 1) -> Document:
    documents = Documents([Document(REVOKED, version - 1, NOW_MS, NEVER_MS, b"\x90")] if version > 1 else [])
    order: Order | None = None
    for each in entries:
        order = Revocations(documents).with_entry(each, NOW_MS)
        assert order is not None
        documents.drop([REVOKED])
        documents.merge([Document(*order._replace(version=version))])
    return documents.by_name[REVOKED]


def document(name: str, version: int = 1) -> Document:
    return Document(name, version, NOW_MS, NEVER_MS if name == RING else NOW_MS + 1000, b"x")


def membership() -> Membership:
    return Membership(Register(100), Documents())


def test_entries_come_and_go() -> None:
    documents = Documents()
    revocations = Revocations(documents)
    assert revocations.without("operator", "bob", NOW_MS) is None
    for number, what in enumerate(("bob", "SHA256:x", "bob"), start=1):
        order = revocations.with_entry(entry(what, f"reason {number}"), NOW_MS)
        assert order is not None
        assert (order.version, order.expires_ms) == (number, NEVER_MS)
        documents.merge([Document(*order)])
    assert [(each.what, each.reason) for each in revocations.entries] == [
        ("SHA256:x", "reason 2"),
        ("bob", "reason 3"),
    ]
    assert revocations.has_operator("carl", "SHA256:x")
    order = revocations.without("operator", "bob", NOW_MS)
    assert order is not None
    documents.merge([Document(*order)])
    assert not revocations.has_operator("bob")
    assert revocations.has_operator("SHA256:x")


@pytest.mark.parametrize("reason", ["r", "r" * 200])
def test_a_list_without_room_takes_no_more(reason: str) -> None:
    documents = Documents()
    revocations = Revocations(documents)
    for number in range(ENTRIES_MAX + 1):
        order = revocations.with_entry(entry(f"o{number}", reason), NOW_MS)
        if order is None:
            break
        documents.merge([Document(*order)])
    else:
        pytest.fail("it took them all")
    assert len(revocations.entries) == number


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91\x91\x01"])
def test_a_list_of_a_later_release_revokes_no_operator(body: bytes) -> None:
    revocations = Revocations(Documents([Document(REVOKED, 1, NOW_MS, NEVER_MS, body)]))
    assert revocations.entries == ()
    assert not revocations.has_operator("bob", "")


def test_a_node_with_the_name_of_an_operator_revokes_no_operator() -> None:
    node = Entry("node", "bob", 3, "stolen", NOW_MS, "ann")
    assert not Revocations(Documents([listed(node)])).has_operator("bob")


def test_what_a_revoked_operator_signed_is_dropped() -> None:
    node = membership()
    node.take_documents([(document("forget/a"), ANN), (document("forget/b"), BOB), (document(RING), BOB)])
    node.exchange.changed = False
    taken = node.take_documents([(listed(entry()), ANN)])
    assert [each.name for each in taken] == [REVOKED]
    assert set(node.documents.by_name) == {"forget/a", REVOKED}
    assert set(node.signers) == {"forget/a", REVOKED}
    assert node.exchange.changed


@pytest.mark.parametrize("what", ["bob", "SHA256:b"])
def test_a_frame_with_the_list_and_with_what_it_revokes_leaves_the_list(what: str) -> None:
    node = membership()
    received = Received(DOCUMENTS, [document("forget/b"), listed(entry(what))])
    found = node.to_judge(received)
    assert [each.name for each in found] == [REVOKED, "forget/b"]
    node.take("edge", received, list(zip(found, (ANN, BOB), strict=True)))
    assert set(node.documents.by_name) == {REVOKED}


def test_an_operator_who_revokes_itself_is_revoked() -> None:
    node = membership()
    node.take_documents([(listed(entry()), BOB)])
    assert set(node.documents.by_name) == {REVOKED}
    node.take_documents([(listed(entry("ann"), version=2), BOB)])
    assert node.documents.by_name[REVOKED].version == 1


def test_no_document_enters_without_a_verdict_that_accepts_it() -> None:
    node = membership()
    received = Received(DOCUMENTS, [document("forget/a"), document("forget/b")])
    node.take("edge", received, [])
    node.take("edge", received, [(document("forget/a"), Verdict("altered"))])
    assert not node.documents.by_name


def test_frames_of_the_register_need_none() -> None:
    node = membership()
    received = Received(REGISTER, [])
    assert node.to_judge(received) == []
    assert node.take("edge", received, []) == []
