"""Members, changes and targets of a fake cluster."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from loops import over
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from subord.api.handlers import changes, members, targets
from subord.api.handlers.control import control_app
from subord.api.handlers.web import PUBLIC, web_app
from subord.api.http.server import App, EventStream, Response
from subord.core.address.network import Network
from subord.core.carriage import documents as documents_module
from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Verdict
from subord.core.members import statements
from subord.core.members.journal import ARRIVALS_MAX, Event, Kind
from subord.core.members.membership import EVENTS, REGISTER
from subord.core.members.register import Record, Run, State
from subord.core.settings import Settings
from subord.core.view import Liveness, Place
from subord.runtime.security.tls import Shown
from subord.sealing.openssh import fingerprint
from subord.services.serving import service_app
from tests.api.fake_node_api import FakeNode, World
from tests.api.ordering import order


async def get(node: FakeNode, path: str, **query: str) -> tuple[int, Any]:
    """(status, document)."""
    response = await control_app(node)[path](query)
    assert isinstance(response, Response)
    return response.status, json.loads(response.body)


def addresses(document: dict[str, Any]) -> dict[str, str]:
    return {each["address"]: each["standing"] for each in document["members"]}


@pytest.mark.parametrize("position", [1, 7])
async def test_every_node_knows_all_members(position: int) -> None:
    status, document = await get(World().node(position), "/v1/members")
    assert status == 200
    assert document["complete"]
    assert document["note"] is None
    assert addresses(document) == {f"10.0.0.{n}": "live" for n in range(1, 12)}
    assert document["members"][4] == {
        "address": "10.0.0.5",
        "position": 5,
        "level": 2,
        "standing": "live",
        "leader": "10.0.0.2",
        "place": "home",
        "since_s": 60.0,
        "maintenance": None,
        "identity": None,
    }


async def test_a_known_identity_is_listed() -> None:
    node = World().node(1)
    node.peers.judge("10.0.0.5", Shown(bytes(32)))
    _, document = await get(node, "/v1/members")
    found = {each["address"]: each["identity"] for each in document["members"] if each["identity"]}
    assert found == {"10.0.0.1": node.identity.fingerprint, "10.0.0.5": fingerprint(bytes(32))}


async def test_a_vanished_node_is_missing_and_then_gone() -> None:
    world = World()
    root = world.node(1)
    await get(root, "/v1/members")
    world.liveness[11] = Liveness.MISSING
    _, document = await get(root, "/v1/members")
    assert addresses(document)["10.0.0.11"] == "missing"
    del world.leaders[11], world.liveness[11]
    _, document = await get(root, "/v1/members")
    gone = document["members"][-1]
    assert (gone["address"], gone["standing"], gone["leader"], gone["level"]) == ("10.0.0.11", "gone", "10.0.0.5", 3)
    world.leaders[11] = 5
    _, document = await get(root, "/v1/members")
    assert addresses(document)["10.0.0.11"] == "live"


async def test_a_branch_on_its_way_to_another_leader_stays_on_the_list() -> None:
    world = World()
    root = world.node(1)
    await get(root, "/v1/members")
    world.liveness[5] = Liveness.MISSING
    del world.leaders[10], world.leaders[11]
    _, document = await get(root, "/v1/members")
    found = addresses(document)
    assert (found["10.0.0.5"], found["10.0.0.10"], found["10.0.0.11"]) == ("missing", "stale", "stale")
    world.leaders.update({10: 4, 11: 4})
    _, document = await get(root, "/v1/members")
    assert addresses(document)["10.0.0.10"] == "live"


async def test_a_new_root_that_has_not_compared_its_register_says_so() -> None:
    """Its disk may be of before the last deaths; the asked node answers by its own register."""
    world = World()
    root, node = world.node(1), world.node(7)
    world.known, world.newly_placed = {1: root, 7: node}, {1}
    remember(root, *(Run(11, 11, Record(1, State.UP)),))
    remember(node, Run(20, 20, Record(2, State.DOWN)))
    for each in (root, node):
        _, document = await get(each, "/v1/members")
        assert not document["complete"]
        assert "10.0.0.1 (root) has only just become root" in document["note"]
    assert addresses(document)["10.0.0.20"] == "gone"
    root.tracker.membership.exchange.compared.add(REGISTER)
    _, document = await get(node, "/v1/members")
    assert document["complete"]


async def test_the_list_of_a_new_root_counts_at_every_node() -> None:
    """Else nodes that the root lists as live are stale at another node, or not listed at all."""
    world = World()
    root, node = world.node(1), world.node(7)
    world.known, world.newly_placed = {1: root, 7: node}, {1}
    remember(node, Run(3, 4, UP), Run(20, 20, Record(2, State.DOWN)), Run(21, 21, Record(2, State.LEFT)))
    _, document = await get(node, "/v1/members")
    assert addresses(document) == {f"10.0.0.{n}": "live" for n in range(1, 12)} | {"10.0.0.20": "gone"}
    assert document["parted"] == ["10.0.0.21"]
    assert not document["complete"]
    assert "10.0.0.1 (root)" in document["note"]
    assert "register of 10.0.0.7" in document["note"]


async def test_the_list_of_a_node_that_is_no_root_any_more_is_not_taken() -> None:
    """It lists only its branch."""
    world = World()
    node = world.node(7)
    world.lying[1] = msgspec.json.encode(members.own(world.node(2)))
    remember(node, Run(1, 11, UP))
    _, document = await get(node, "/v1/members")
    assert addresses(document)["10.0.0.4"] == "stale"
    assert not document["complete"]


UP = Record(1, State.UP)


def remember(node: FakeNode, *runs: Run) -> None:
    """As if neighbours had sent these."""
    node.tracker.membership.exchange.spread(REGISTER, runs)


async def test_a_down_node_stays_on_the_list_of_every_node(autojump_clock: MockClock) -> None:
    world = World()
    root = world.node(1)
    world.known = {1: root}
    world.liveness[11] = Liveness.MISSING
    await get(root, "/v1/members")
    del world.leaders[11], world.liveness[11]
    await trio.sleep(7 * 86400)
    for node in (root, world.node(7)):
        _, document = await get(node, "/v1/members")
        assert addresses(document)["10.0.0.11"] == "gone"
    members_of_another = world.node(7).tracker.membership.register
    assert members_of_another.at(11) is None  # the fake cluster has no edges: the root answered


@pytest.mark.parametrize("failure", ["hung", "gone", "lying"])
async def test_without_a_root_the_register_names_all_members(autojump_clock: MockClock, failure: str) -> None:
    world = World()
    node = world.node(2)
    remember(node, Run(1, 11, UP), Run(12, 12, Record(2, State.DOWN, 1000, 3)), Run(13, 13, Record(3, State.LEFT)))
    if failure == "lying":
        world.lying[1] = b'{"members": 7}'
    else:
        {"hung": world.hung, "gone": world.gone}[failure].add(1)
    document = await members.of_cluster(node)
    assert not document.complete
    assert document.note is not None
    assert document.note.endswith(": nodes that are not below 10.0.0.2 are as its register has them")
    below = {2, 4, 5, 8, 9, 10, 11}
    found = {each.position: each.standing for each in document.members}
    assert found == {**{n: "live" if n in below else "stale" for n in range(1, 12)}, 12: "gone"}


async def test_a_missing_node_that_is_forgotten_is_on_no_list() -> None:
    """Its leader reports it for a minute."""
    world = World()
    root = world.node(1)
    world.liveness[11] = Liveness.MISSING
    members.own(root)
    record = root.tracker.membership.register.at(11)
    assert record is not None
    remember(root, Run(11, 11, Record(record.stamp_ms + 1, State.FORGOTTEN)))
    _, document = await get(root, "/v1/members")
    assert "10.0.0.11" not in addresses(document)
    _, tree = await get(root, "/v1/tree", form="rows")
    assert (tree["missing"], tree["down"], len(tree["rows"])) == (0, 0, 10)


async def test_a_gone_node_stands_below_its_last_leader() -> None:
    root = World().node(1)
    down = Record(2, State.DOWN, 1000, 3)
    remember(root, Run(12, 12, down), Run(13, 13, down._replace(leader=0)), Run(14, 14, down._replace(leader=99)))
    _, tree = await get(root, "/v1/tree", form="rows")
    found = {row["address"]: (row["leader"], row["apart"]) for row in tree["rows"] if row["standing"] == "gone"}
    assert found == {
        "10.0.0.12": ("10.0.0.3", None),
        "10.0.0.13": (None, "was the root, or its last leader is not known"),
        "10.0.0.14": ("10.0.0.99", "last below 10.0.0.99"),
    }
    assert (tree["nodes"], tree["down"], tree["gone"]) == (11, 3, 3)


# -- statements --------------------------------------------------------------------------------------------------


async def test_forgotten_nodes_are_those_that_are_down() -> None:
    root = World().node(1)
    remember(root, Run(12, 14, Record(2, State.DOWN, 1000, 3)))
    status, document = await order(root, "forget", nodes="3,12-13", reason="sold", by="ann")
    assert (status, document["nodes"], document["addresses"]) == (200, 2, ["10.0.0.12", "10.0.0.13"])
    _, listed = await get(root, "/v1/members")
    assert [each for each, word in addresses(listed).items() if word == "gone"] == ["10.0.0.14"]
    assert (await order(root, "forget", nodes="3", reason="sold"))[0] == 409


async def test_a_maintenance_is_shown_until_its_end() -> None:
    root = World().node(1)
    _, document = await order(root, "maintain", nodes="4-5,70", reason="new disks")
    assert document["nodes"] == 3
    _, listed = await get(root, "/v1/members")
    reasons = {each["address"]: each["maintenance"] for each in listed["members"] if each["maintenance"]}
    assert reasons == dict.fromkeys(("10.0.0.4", "10.0.0.5"), "new disks")
    _, tree = await get(root, "/v1/tree", form="rows")
    assert tree["maintained"] == 2
    _, document = await order(root, "resume", nodes="5")
    assert (document["nodes"], document["addresses"]) == (1, ["10.0.0.5"])
    _, tree = await get(root, "/v1/tree", form="rows")
    assert [row["address"] for row in tree["rows"] if row["maintenance"]] == ["10.0.0.4"]
    assert (await order(root, "resume", nodes="5"))[0] == 409


@over(
    "query",
    [
        {"nodes": "", "reason": "r"},
        {"nodes": "0", "reason": "r"},
        {"nodes": "3-1", "reason": "r"},
        {"nodes": "65535", "reason": "r"},
        {"nodes": "1,x", "reason": "r"},
        {"nodes": ",".join(["1"] * 513), "reason": "r"},
        {"nodes": "1"},
        {"nodes": "1", "reason": "a\x1b"},
        {"nodes": "1", "reason": "r" * 201},
        {"nodes": "1", "reason": "r", "until": "x"},
        {"nodes": "1", "reason": "r", "until": "1e999"},
        {"nodes": "1", "reason": "r", "until": "1"},
        {"nodes": "1", "reason": "r", "until": "99999999999"},
    ],
)
async def test_a_wrong_statement_is_refused(query: dict[str, str]) -> None:
    status, document = await order(World().node(1), "maintain", **query)
    assert status == 400
    assert "nothing was changed" in document["error"]


async def test_a_forget_of_nodes_far_apart_is_refused_if_neighbours_could_not_read_it() -> None:
    """Down nodes within a range may be more ranges than were asked for."""
    root = World().node(1)
    remember(root, *(Run(p, p, Record(2, State.DOWN, 1000, 3)) for p in range(101, 101 + 2 * 513, 2)))
    status, document = await order(root, "forget", nodes="1-2000", reason="sold")
    assert (status, root.tracker.membership.documents.by_name) == (400, {})
    assert "nothing was changed" in document["error"]


async def test_a_maintenance_is_not_ended_for_more_nodes_than_were_named() -> None:
    root = World().node(1)
    await order(root, "maintain", nodes="1-2000", reason="new disks")
    status, document = await order(root, "resume", nodes=",".join(map(str, range(2, 1000, 2))))
    assert status == 200
    status, document = await order(root, "resume", nodes=",".join(map(str, range(1002, 1100, 2))))
    assert (status, "nothing was changed" in document["error"]) == (400, True)
    held = members.maintained(root)
    assert statements.covers(held, 1001)


async def test_a_statement_without_room_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "DOCUMENTS_MAX", 1)
    root = World().node(1)
    assert (await order(root, "maintain", nodes="4", reason="new disks"))[0] == 200
    status, document = await order(root, "maintain", nodes="5", reason="new disks")
    assert (status, "nothing was changed" in document["error"]) == (503, True)
    assert (await order(root, "resume", nodes="4"))[0] == 200


async def test_a_document_with_the_last_version_cannot_be_continued() -> None:
    """A version that neighbours refuse would end all edges of this node, again and again."""
    root = World().node(1)
    said = statements.Maintain(((4, 4),), "new disks", "ann")
    last = Document(*statements.maintain_order("a", said, root.tracker.wall_ms))._replace(version=1 << 31)
    root.tracker.membership.documents.merge([last])
    status, _ = await order(root, "resume", nodes="4")
    assert status == 400
    assert list(root.tracker.membership.documents.by_name.values()) == [last]


@pytest.mark.parametrize(("address", "position"), [("10.0.0.5", 0), ("10.0.0.5", 6), ("192.0.2.1", 5)])
async def test_a_root_that_names_foreign_nodes_is_rejected(address: str, position: int) -> None:
    world = World()
    document = msgspec.to_builtins(members.own(world.node(1)))
    document["members"][4].update(address=address, position=position)
    world.lying[1] = msgspec.json.encode(document)
    status, _ = await get(world.node(7), "/sd", of="cluster")
    assert status == 503
    _, document = await get(world.node(7), "/v1/members")
    assert "of another network" in document["note"]


# -- changes -----------------------------------------------------------------------------------------------------


async def test_a_node_back_before_the_next_look_is_listed_once() -> None:
    world = World()
    root = world.node(1)
    members.own(root)
    history = root.tracker.history
    there = world.leaders.copy()
    world.liveness[5] = Liveness.MISSING
    del world.leaders[10], world.leaders[11]
    members.own(root)
    assert [each.position for each in history.on_their_way()] == [10, 11]
    world.leaders.update(there)
    root.tracker.look = lambda: None  # type: ignore[method-assign]
    found = [each.position for each in members.own(root).members]
    assert found == sorted(set(found))


NOW_MS = int(1000 * time.time())


def happen(node: FakeNode, *ats_ms: int, kind: Kind = "missing") -> None:
    """Events come to a node, each of another position; from a neighbour, one after the other."""
    for at_ms in ats_ms:
        event = Event(NOW_MS + at_ms, 1, abs(at_ms), kind, 1 + abs(at_ms) % 4999, old=5)
        node.tracker.membership.exchange.spread(EVENTS, [event.item])


def kept(position: int = 1) -> FakeNode:
    """A node that keeps its state."""
    world = World()
    world.known = {position: world.node(position)}
    return world.known[position]


@pytest.mark.parametrize("position", [1, 7])
async def test_changes_are_read_on_from_the_token(position: int) -> None:
    node = kept(position)
    happen(node, *range(1, 12))
    _, first = await get(node, "/v1/changes")
    assert (len(first["changes"]), first["missed"], first["note"]) == (11, False, None)
    _, second = await get(node, "/v1/changes", since=first["token"])
    assert second["changes"] == []
    moved = Event(NOW_MS + 50, 1, 50, "moved", 11, 4, 5, Place.GUEST)
    node.tracker.membership.exchange.spread(EVENTS, [moved.item])
    _, third = await get(node, "/v1/changes", since=second["token"])
    (change,) = third["changes"]
    assert (change["kind"], change["address"], change["leader"], change["old"], change["place"]) == (
        "moved",
        "10.0.0.11",
        "10.0.0.4",
        "10.0.0.5",
        "guest",
    )
    assert node.world.asked == []


async def test_an_order_is_an_event_with_its_reason_and_its_author() -> None:
    node = kept()
    remember(node, Run(11, 11, Record(1, State.DOWN)))
    said = statements.forget_order("1", statements.Forget(((11, 11),), "disk swap", "root"), NOW_MS)
    node.tracker.take([(Document(*said), Verdict("", "ann", "SHA256:ann"))])
    _, document = await get(node, "/v1/changes")
    (change,) = document["changes"]
    found = change["kind"], change["address"], change["reason"], change["by"]
    assert found == ("forgotten", "10.0.0.11", "disk swap", "ann")


async def test_as_many_changes_as_asked_for() -> None:
    node = kept()
    happen(node, *range(1, 400))
    for words, count in (({}, changes.CHANGES_MAX), ({"last": "3"}, 3), ({"last": "10000"}, 399)):
        _, document = await get(node, "/v1/changes", **words)
        assert len(document["changes"]) == count
    assert document["changes"][-1]["number"] == 399


@over("last", ["", "0", "-1", "10001", "x", "1e3"])
async def test_a_malformed_count_is_refused(last: str) -> None:
    status, _ = await get(World().node(1), "/v1/changes", last=last)
    assert status == 400


async def test_many_changes_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGES_MAX", 4)
    node = kept()
    happen(node, *range(1, 12))
    found, token = [], changes.Bookmark(1, 0, 0).token
    for expected in (4, 4, 3, 0):
        document = changes.own(node, token)
        assert len(document.changes) == expected
        found += [each.number for each in document.changes]
        token = document.token
    assert found == list(range(1, 12))


async def test_a_late_event_comes_to_a_reader_who_has_read_further() -> None:
    node = kept()
    happen(node, 100, 200)
    token = changes.own(node).token
    happen(node, 50)
    assert [each.number for each in changes.own(node, token).changes] == [50]
    assert [each.number for each in changes.own(node).changes] == [50, 100, 200]


async def test_a_late_reader_learns_that_changes_are_missed() -> None:
    node = kept()
    happen(node, *range(ARRIVALS_MAX))
    token = changes.Bookmark(1, 0, 0).token
    assert not changes.own(node, token).missed
    happen(node, ARRIVALS_MAX)
    assert changes.own(node, token).missed


async def test_another_node_reads_on_by_time_and_repeats_a_little() -> None:
    """Events may have come to it later; after a restart, or at another address."""
    node = kept()
    overlap_ms = int(1000 * changes.OVERLAP_S)
    happen(node, -3 * overlap_ms, -overlap_ms, -1)
    document = changes.own(node, changes.Bookmark(77, 500, NOW_MS - overlap_ms).token)
    assert [each.number for each in document.changes] == [overlap_ms, 1]
    assert not document.missed
    node.tracker.membership.journal.dropped = 1
    assert not changes.own(node, changes.Bookmark(77, 500, NOW_MS).token).missed
    assert changes.own(node, changes.Bookmark(77, 500, NOW_MS - 9 * overlap_ms).token).missed


async def test_an_event_of_a_clock_ahead_does_not_hide_later_ones() -> None:
    node = kept()
    ahead_ms = 3_000_000 + int(1000 * time.time()) - NOW_MS
    happen(node, ahead_ms)
    bookmark = changes.Bookmark.of(changes.own(node).token)
    assert bookmark is not None
    assert bookmark.wall_ms < NOW_MS + ahead_ms - 2_900_000


@over("since", ["", "x", "1.2", "1.2.3.4", "-", "a b", "1.2.-3", "1.+2.3", "1.2.3 ", "1._2.3", "z" * 40 + ".1.1"])
@over("path", ["/v1/changes", "/v1/events"])
async def test_a_malformed_token_is_refused(path: str, since: str) -> None:
    status, document = await get(World().node(1), path, since=since)
    assert status == 400
    assert "token" in document["error"]


async def test_without_a_root_there_is_a_note() -> None:
    node = kept(4)
    happen(node, 1)
    node.snapshot = lambda: msgspec.structs.replace(FakeNode.snapshot(node), root=None)  # type: ignore[method-assign]
    _, document = await get(node, "/v1/changes")
    assert len(document["changes"]) == 1
    assert document["note"] == "10.0.0.4 knows no root just now"


def test_a_token_fits_a_word_of_a_question() -> None:
    bookmark = changes.Bookmark(2**42, 10**6, 2**43)
    assert len(bookmark.token) <= 32
    assert changes.Bookmark.of(bookmark.token) == bookmark


@asynccontextmanager
async def reading(node: FakeNode) -> AsyncIterator[list[str]]:
    """The pieces that a reader of the node's events has received."""
    events = await control_app(node)["/v1/events"]({})
    assert isinstance(events, EventStream)
    pieces: list[str] = []

    async def send(piece: bytes) -> None:
        await trio.lowlevel.checkpoint()
        pieces.append(piece.decode())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(events.run, send)
        yield pieces
        nursery.cancel_scope.cancel()


async def test_events_are_sent_as_they_happen(autojump_clock: MockClock) -> None:
    node = kept(4)
    happen(node, *range(1, 12))
    async with reading(node) as pieces:
        await trio.sleep(1)
        assert pieces[0] == "retry: 1000\n\n"
        assert pieces[1].count("event: change\n") == 11
        assert pieces[1].endswith("\n\n")
        assert pieces[1].rpartition("id: ")[2].strip() == changes.own(node).token
        assert len(pieces) == 2
        happen(node, 20)
        await trio.sleep(1)
        assert pieces[2].startswith("event: change\ndata: {")
        assert '"missing"' in pieces[2]
        await trio.sleep(changes.KEEP_ALIVE_S + 1)
        assert pieces[3:] == [": still here\n\n"]


# -- targets -----------------------------------------------------------------------------------------------------


async def test_targets_are_the_subtree_and_at_the_root_all() -> None:
    world = World()
    _, whole = await get(world.node(1), "/sd")
    assert [each["targets"] for each in whole] == [[f"10.0.0.{n}:9717"] for n in range(1, 12)]
    assert whole[4]["labels"] == {
        "__meta_subord_address": "10.0.0.5",
        "__meta_subord_position": "5",
        "__meta_subord_level": "2",
        "__meta_subord_offset": "1",
    }
    _, below = await get(world.node(5), "/sd")
    assert [each["targets"] for each in below] == [["10.0.0.5:9717"], ["10.0.0.10:9717"], ["10.0.0.11:9717"]]
    node = world.node(5)
    remember(node, Run(1, 11, UP))
    assert (await get(node, "/sd", of="cluster"))[1] == whole


async def test_targets_of_the_cluster_come_from_the_register_alone() -> None:
    """Also without a root; a node that said goodbye or was forgotten is none of them."""
    world = World()
    node = world.node(5)
    left = Record(2, State.LEFT)
    remember(node, Run(1, 13, UP), Run(12, 12, left), Run(2, 2, Record(2, State.DOWN)), Run(13, 13, left))
    world.hung.add(1)
    _, found = await get(node, "/sd", of="cluster")
    assert [each["targets"][0] for each in found] == [f"10.0.0.{n}:9717" for n in range(1, 12)]


async def test_a_node_whose_register_lacks_it_gives_no_targets_of_the_cluster() -> None:
    """After an error Prometheus keeps its list; it would take half a list for a whole one."""
    status, document = await get(World().node(5), "/sd", of="cluster")
    assert (status, "only just come" in document["error"]) == (503, True)


async def test_a_new_root_gives_no_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.newly_placed = {1}
    status, document = await get(world.node(1), "/sd")
    assert (status, "only just" in document["error"]) == (503, True)
    monkeypatch.setattr(targets, "SETTLE_S", 0.0)
    status, document = await get(world.node(1), "/sd")
    assert (status, "only just become root" in document["error"]) == (503, True)
    assert (await get(world.node(2), "/sd"))[0] == 200, "it names its branch alone"


async def test_targets_are_the_same_wherever_a_node_stands() -> None:
    world = World()
    root = world.node(1)
    _, before = await get(root, "/sd")
    world.leaders[11] = 4
    assert (await get(root, "/sd"))[1] == before


async def test_a_vanished_node_stays_a_target() -> None:
    world = World()
    root = world.node(1)
    _, before = await get(root, "/sd")
    world.liveness[11] = Liveness.MISSING
    await get(root, "/sd")
    del world.leaders[11], world.liveness[11]
    assert (await get(root, "/sd"))[1] == before


async def test_a_node_without_place_gives_no_targets() -> None:
    node = World().node(5)
    node.placed = False
    assert (await get(node, "/sd"))[0] == 503


async def member_page(app: App) -> tuple[int, dict[str, float]]:
    """Status and values by address of the page for the rules of Prometheus."""
    response = await app["/metrics/members"]({})
    assert isinstance(response, Response)
    if response.status != 200:
        return response.status, {}
    assert response.content_type.startswith("text/plain; version=0.0.4")
    (family,) = text_string_to_metric_families(response.body.decode())
    assert (family.name, family.type) == ("subord_member_live", "gauge")
    return 200, {sample.labels["address"]: sample.value for sample in family.samples}


async def test_members_are_metrics_until_they_say_goodbye_or_are_under_maintenance() -> None:
    node = World().node(5)
    app = control_app(node)
    assert (await member_page(app))[0] == 503
    down, left = Record(2, State.DOWN), Record(2, State.LEFT)
    remember(node, Run(1, 14, UP), Run(12, 12, down), Run(13, 13, left), Run(14, 14, down))
    await order(node, "maintain", nodes="1,14", reason="new disks")
    expected = {f"10.0.0.{n}": 1.0 for n in range(2, 12)} | {"10.0.0.12": 0.0}
    assert await member_page(app) == (200, expected)


async def test_another_port_is_used_on_request() -> None:
    _, found = await get(World({1: None}).node(1), "/sd", port="9100")
    assert [each["targets"] for each in found] == [["10.0.0.1:9100"]]


async def test_targets_of_ipv6_stand_in_brackets() -> None:
    settings = Settings(network=Network.parse("fd00::/64"), fanout=2, guest_slots=2)
    _, found = await get(World({1: None}, settings).node(1), "/sd")
    assert [each["targets"] for each in found] == [["[fd00::1]:9717"]]


@pytest.mark.parametrize("query", [{"port": "0"}, {"port": "x"}, {"port": "65536"}, {"of": "all"}])
async def test_wrong_questions_are_refused(query: dict[str, str]) -> None:
    status, document = await get(World().node(1), "/sd", **query)
    assert status == 400
    assert "must be" in document["error"]


async def test_an_unknown_parameter_is_refused() -> None:
    """Otherwise a scraper would silently use a part of the cluster or the wrong port."""
    assert await get(World().node(1), "/sd", off="cluster") == (
        400,
        {"error": "unknown parameter off; known: of, port"},
    )


def test_the_web_address_serves_less_than_the_control_socket() -> None:
    node = World().node(1)
    control = {**control_app(node), **service_app(node)}
    web = web_app(node, control)
    assert set(PUBLIC) <= set(control)
    assert set(web) - set(control) >= {"/metrics"}
    assert not {"/v1/keys", "/v1/counters"} & set(web)


async def test_what_operators_said_can_be_read() -> None:
    root = World().node(1)
    remember(root, Run(1, 11, UP), Run(12, 12, Record(2, State.DOWN, 1000, 3)))
    await order(root, "maintain", nodes="4-5,12", reason="new disks", by="root")
    await order(root, "forget", nodes="12", reason="sold")
    root.tracker.look()
    _, found = await get(root, "/v1/statements")
    (maintenance,), (forgotten,) = found["maintenances"], found["forgotten"]
    assert (maintenance["nodes"], maintenance["addresses"]) == (2, ["10.0.0.4", "10.0.0.5"])
    assert (maintenance["absent_nodes"], maintenance["absent"], maintenance["until"]) == (1, ["10.0.0.12"], None)
    assert (maintenance["reason"], maintenance["principal"], maintenance["said_by"]) == ("new disks", "ann", "root")
    assert (forgotten["addresses"], forgotten["reason"]) == (["10.0.0.12"], "sold")
    assert (forgotten["principal"], forgotten["said_by"]) == ("ann", None)


async def test_a_node_that_is_not_down_for_the_asked_node_is_not_forgotten_and_the_operator_hears_when() -> None:
    root = World().node(1)
    remember(root, Run(1, 11, UP))
    status, found = await order(root, "forget", nodes="4", reason="sold")
    assert status == 409
    assert "within 30 s, try again then" in found["error"]


async def test_a_maintenance_of_a_node_that_is_no_member_counts_nowhere() -> None:
    root = World().node(1)
    remember(root, Run(1, 11, UP), Run(12, 12, Record(2, State.DOWN, 1000, 3)))
    await order(root, "maintain", nodes="4,12", reason="new disks")
    assert [
        sorted(members.maintained_addresses(root)),
        (await get(root, "/v1/tree", form="rows"))[1]["maintained"],
    ] == [
        ["10.0.0.12", "10.0.0.4"],
        2,
    ]
    await order(root, "forget", nodes="12", reason="sold")
    root.tracker.look()
    assert [
        list(members.maintained_addresses(root)),
        (await get(root, "/v1/tree", form="rows"))[1]["maintained"],
    ] == [
        ["10.0.0.4"],
        1,
    ]
    status, document = await order(root, "resume", nodes="12")
    assert (status, document["addresses"]) == (200, ["10.0.0.12"])


async def test_status_and_why_tell_of_maintenance_and_of_the_dead() -> None:
    node = World().node(7)
    remember(node, Run(1, 11, UP), Run(12, 13, Record(2, State.DOWN, 1000, 3)))
    await order(node, "maintain", nodes="7", reason="new disks")
    for path in ("/v1/status", "/v1/why"):
        assert (await get(node, path))[1]["maintenance"] == "new disks", path
    assert (await get(node, "/v1/status"))[1]["down"] == 2
