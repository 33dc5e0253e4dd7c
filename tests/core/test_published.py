"""What a document of a set says, and which ones nodes take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from loops import over

from subord.core.carriage.blobs.bounds import NAME_BYTES
from subord.core.carriage.documents import BODY_BYTES_MAX, NEVER_MS, Document, Documents, is_current, is_within_bounds
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Order
from subord.core.carriage.published import PAST_MAX, WITHDRAWN, Content, Past, Published, mark_of, order_of, read
from subord.sealing.admission import refusal

BLOB = bytes(range(NAME_BYTES))
CONTENT = Content(BLOB, 3, 2, 8)
SAID = Published(b"/srv/motd", ((2, 3), (7, 7)), CONTENT)


def changed(**changes: Any) -> Order:
    return order_of("motd", 1, 5, msgspec.structs.replace(SAID, **changes))


def test_what_is_said_is_read_again() -> None:
    order = changed()
    assert (order.name, order.expires_ms) == ("files/motd", NEVER_MS)
    assert read(order) == SAID
    assert (SAID.folder, SAID.last_name, SAID.targets) == (b"/srv", b"motd", Ranges.of((2, 3, 7)))
    assert [SAID.is_for(each) for each in (1, 2, 3, 4, 7, 8)] == [False, True, True, False, True, False]
    assert read(changed(nodes=None)) == msgspec.structs.replace(SAID, nodes=None)
    assert msgspec.structs.replace(SAID, nodes=None).is_for(9)
    assert changed(content=Content(WITHDRAWN, 1, 0, 0)) is not None
    assert read(order._replace(name="forget/motd")) is None


@over(
    "changes",
    [
        {"to": b"srv"},
        {"to": b"/"},
        {"to": b"/srv/"},
        {"to": b"/srv/../etc"},
        {"to": b"/srv//motd"},
        {"to": b"/srv/./motd"},
        {"to": b"/srv/a\0b"},
        {"nodes": ()},
        {"nodes": ((3, 2),)},
        {"nodes": ((0, 2),)},
        {"content": Content(b"short", 1, 1, 1)},
        {"content": Content(BLOB, 0, 1, 1)},
        {"past": (Past(1, 1, "ann", Content(b"short", 1, 1, 1)),)},
        {"past": (Past(1, 1, "a" * 65, CONTENT),)},
    ],
)
def test_what_no_node_understands_is_malformed(changes: dict[str, Any]) -> None:
    order = changed(**changes)
    assert read(order) is None
    assert refusal(Document(*order, b"signed"), 10) == "malformed"


def test_bytes_that_are_no_body() -> None:
    for body in (b"", b"\xc1", b"\x91" * 5000, msgspec.msgpack.encode([b"/a", None, []]), changed().body + b"x"):
        assert read(changed()._replace(body=body)) is None


def test_the_earliest_versions_give_way() -> None:
    past = tuple(Past(number, number, "a" * 64, CONTENT) for number in range(40, 0, -1))
    said = read(changed(past=past))
    assert said is not None
    assert [each.version for each in said.past] == list(range(40, 40 - PAST_MAX, -1))
    nodes = tuple((each, each) for each in range(2, 5000, 2))
    order = changed(nodes=nodes[:1000], past=past)
    said = read(order)
    assert said is not None
    assert 0 < len(said.past) < PAST_MAX
    assert is_within_bounds(order)
    assert len(order.body) <= BODY_BYTES_MAX
    assert not is_within_bounds(changed(nodes=nodes)), "too many separate nodes for a document"


def test_a_set_stays_until_it_is_replaced() -> None:
    order = changed()
    assert is_current(order, NEVER_MS - 1)
    assert not is_current(order._replace(expires_ms=NEVER_MS - 1), 10), "an older release would drop it"
    documents = Documents([Document(*order, b"signed")])
    documents.drop_expired(NEVER_MS - 1)
    assert len(documents) == 1


@over(
    ("one", "other", "is_so"),
    [
        (b"/srv/a", b"/srv/a", True),
        (b"/srv/a", b"/srv/a/b", True),
        (b"/srv/a/b", b"/srv/a", True),
        (b"/srv/a", b"/srv/ab", False),
        (b"/srv/a", b"/srv/b", False),
    ],
)
def test_directories_overlap(one: bytes, other: bytes, is_so: bool) -> None:
    said = [msgspec.structs.replace(SAID, to=each) for each in (one, other)]
    assert said[0].overlaps(said[1]) is is_so


def test_a_mark_is_of_the_order_and_not_of_its_signature() -> None:
    one, other = changed(), changed(replaces=True)
    assert mark_of(one) == mark_of(changed())
    assert mark_of(one) != mark_of(other)


def test_of_two_documents_with_one_version_all_nodes_keep_the_same() -> None:
    both = [Document(*changed(replaces=each), b"signed") for each in (False, True)]
    kept = []
    for order in (both, both[::-1]):
        documents = Documents(order[:1])
        documents.merge(order[1:])
        assert documents.conflicts == {"files/motd"}
        kept.append(documents.by_name["files/motd"].order)
    assert kept[0] == kept[1]


@pytest.mark.parametrize("size", [64, 57])
def test_names_have_a_bound(size: int) -> None:
    order = changed()._replace(name="files/" + "a" * size)
    assert is_within_bounds(order) is (size <= 58)
