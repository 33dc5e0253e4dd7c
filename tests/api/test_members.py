"""Members, changes and targets of a fake cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from subord.api.handlers import changes, members
from subord.api.handlers.control import control_app
from subord.api.handlers.members import Cluster
from subord.api.handlers.web import PUBLIC, web_app
from subord.api.http.server import EventStream, Response
from subord.core.address.network import Network
from subord.core.settings import Settings
from subord.core.view import Standing
from subord.runtime.state.history import REMEMBER_S
from tests.api.fake_node_api import FakeNode, World


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
    }


async def test_a_vanished_node_is_missing_and_then_gone() -> None:
    world = World()
    root = world.node(1)
    await get(root, "/v1/members")
    world.standing[11] = Standing.MISSING
    _, document = await get(root, "/v1/members")
    assert addresses(document)["10.0.0.11"] == "missing"
    del world.leaders[11], world.standing[11]
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
    world.standing[5] = Standing.MISSING
    del world.leaders[10], world.leaders[11]
    _, document = await get(root, "/v1/members")
    found = addresses(document)
    assert (found["10.0.0.5"], found["10.0.0.10"], found["10.0.0.11"]) == ("missing", "stale", "stale")
    world.leaders.update({10: 4, 11: 4})
    _, document = await get(root, "/v1/members")
    assert addresses(document)["10.0.0.10"] == "live"


async def test_without_a_root_the_last_list_is_given_with_a_note(autojump_clock: MockClock) -> None:
    world = World()
    node = world.node(4)
    cluster = Cluster(node)
    assert (await cluster.members()).complete
    world.hung.add(1)
    began = trio.current_time()
    document = await cluster.members()
    assert trio.current_time() - began == pytest.approx(members.ASK_S_MAX)
    assert not document.complete
    assert document.note == "10.0.0.1 (root) does not answer: this is the last whole list, 1 s old"
    assert len(document.members) == 11


@pytest.mark.parametrize("failure", ["gone", "lying"])
async def test_without_an_earlier_list_the_subtree_is_given(failure: str) -> None:
    world = World()
    if failure == "gone":
        world.gone.add(1)
    else:
        world.lying[1] = b'{"members": 7}'
    document = await Cluster(world.node(2)).members()
    assert not document.complete
    assert document.note is not None
    assert document.note.endswith(": these are below 10.0.0.2")
    assert [each.position for each in document.members] == [2, 4, 5, 8, 9, 10, 11]


async def test_a_new_root_does_not_hide_the_missing_of_the_old_one(autojump_clock: MockClock) -> None:
    """The root and other nodes vanish together: the asked node remembers them, although no root saw them vanish."""
    world = World()
    world.since_s = 60.0
    node = world.node(7)
    cluster = Cluster(node)
    await cluster.members()
    for position in (1, 2, 4):
        del world.leaders[position]
    world.leaders.update({3: None, 5: 3, 8: 3, 9: 3})
    world.since_s = 1.0
    await trio.sleep(1)
    found = {each.position: each.standing for each in (await cluster.members()).members}
    assert found == {n: "stale" if n in {1, 2, 4} else "live" for n in range(1, 12)}
    world.since_s = 10.0
    await trio.sleep(9)
    found = {each.position: each.standing for each in (await cluster.members()).members}
    assert found == {n: "gone" if n in {1, 2, 4} else "live" for n in range(1, 12)}
    world.leaders[4] = 3
    world.since_s = 11.0
    await trio.sleep(1)
    assert [each.position for each in (await cluster.members()).members if each.standing == "gone"] == [1, 2]
    world.since_s += REMEMBER_S
    await trio.sleep(REMEMBER_S)
    assert len((await cluster.members()).members) == 9


async def test_a_root_that_left_is_no_member(autojump_clock: MockClock) -> None:
    world = World()
    world.since_s = 60.0
    cluster = Cluster(world.node(7))
    await cluster.members()
    new = world.node(2)
    world.known = {2: new}
    del world.leaders[1]
    world.leaders.update({2: None, 3: 2})
    new.attendance.register.parted_above(1, trio.current_time())
    world.since_s = 10.0
    await trio.sleep(10)
    assert [each.position for each in (await cluster.members()).members] == list(range(2, 12))


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


async def test_an_old_list_does_not_add_members(autojump_clock: MockClock) -> None:
    """A node that left long after the last question here is no member and no target."""
    world = World()
    cluster = Cluster(world.node(7))
    await cluster.members()
    for position in (10, 11):
        del world.leaders[position]
    await trio.sleep(7 * 86400)
    del world.leaders[1]
    world.leaders.update({2: 3, 3: None})
    assert {each.position for each in (await cluster.members()).members} == set(range(2, 10))


async def test_a_gone_node_is_remembered_across_roots(autojump_clock: MockClock) -> None:
    world = World()
    cluster = Cluster(world.node(7))
    world.standing[11] = Standing.MISSING
    await cluster.members()
    world.since_s = 30.0  # the root is another one
    del world.leaders[1], world.leaders[11]
    world.leaders.update({2: 3, 3: None})
    (found,) = [each for each in (await cluster.members()).members if each.position == 11]
    assert (found.standing, found.since_s) == ("gone", pytest.approx(60.0, abs=1.0))


async def test_a_node_back_before_the_next_look_is_listed_once() -> None:
    world = World()
    root = world.node(1)
    members.own(root)
    history = root.attendance.register
    there = world.leaders.copy()
    world.standing[5] = Standing.MISSING
    del world.leaders[10], world.leaders[11]
    members.own(root)
    assert [each.position for each in history.on_their_way()] == [10, 11]
    world.leaders.update(there)
    root.attendance.look = lambda: None  # type: ignore[method-assign]
    found = [each.position for each in members.own(root).members]
    assert found == sorted(set(found))


@pytest.mark.parametrize("position", [1, 7])
async def test_changes_are_read_on_from_the_token(position: int) -> None:
    world = World()
    root = world.node(1)
    world.known = {1: root}
    node = root if position == 1 else world.node(position)
    _, first = await get(node, "/v1/changes")
    assert {each["kind"] for each in first["changes"]} == {"found"}
    assert (len(first["changes"]), first["missed"], first["note"]) == (11, False, None)
    _, second = await get(node, "/v1/changes", since=first["token"])
    assert second["changes"] == []
    world.leaders[11] = 4
    _, third = await get(node, "/v1/changes", since=second["token"])
    (change,) = third["changes"]
    assert (change["kind"], change["address"], change["leader"], change["old"], change["place"]) == (
        "moved",
        "10.0.0.11",
        "10.0.0.4",
        "10.0.0.5",
        "guest",
    )


async def test_many_changes_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGES_MAX", 4)
    root = World().node(1)
    changes.own(root)
    found, token = [], changes.Bookmark(1, 0, 0).token
    for expected in (4, 4, 3, 0):
        document = changes.own(root, token)
        assert len(document.changes) == expected
        found += [each.number for each in document.changes]
        token = document.token
    assert found == list(range(1, 12))


async def test_a_late_reader_learns_that_changes_are_missed() -> None:
    root = World().node(1)
    changes.own(root)
    happenings = root.attendance.register.happenings
    token = changes.Bookmark(1, 3, 0).token
    assert not changes.own(root, token).missed
    while happenings[0].number < 6:
        happenings.popleft()
    assert changes.own(root, token).missed


async def test_another_roots_log_is_read_on_by_time() -> None:
    root = World().node(1)
    changes.own(root)
    happenings = root.attendance.register.happenings
    middle_ms = int(happenings[5].wall * 1000)
    later = [each.number for each in happenings if each.wall * 1000 > middle_ms]
    document = changes.own(root, changes.Bookmark(77, 500, middle_ms).token)
    assert [each.number for each in document.changes] == later
    assert changes.own(root, changes.Bookmark(77, 500, middle_ms * 2).token).changes == ()


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_new_root_with_a_late_clock_gives_its_changes(is_new: bool) -> None:
    """Its changes since it became root are new to the reader; long after that, some are reported missed."""
    world = World()
    root = world.node(2)
    world.known = {2: root}
    root.attendance.look()
    pieces = changes.own(root)
    del world.leaders[1]
    world.leaders.update({2: None, 3: 2})
    world.newly_placed = {2} if is_new else set()
    root.attendance.register.lost_above(1, trio.current_time())
    ahead = changes.Bookmark(77, 500, (int(pieces.changes[-1].wall) + 7200) * 1000)
    document = changes.own(root, ahead.token)
    kinds = [(each.kind, each.address) for each in document.changes]
    if is_new:
        assert kinds[0] == ("root", "10.0.0.2")
        assert ("missing", "10.0.0.1") in kinds
    else:
        assert kinds == []
    assert document.missed == (not is_new)


async def test_a_new_root_reports_forgotten_changes() -> None:
    root = World().node(1)
    changes.own(root)
    happenings = root.attendance.register.happenings
    token = changes.Bookmark(77, 500, int(happenings[0].wall * 1000) - 10_000).token
    assert not changes.own(root, token).missed
    happenings.popleft()
    assert changes.own(root, token).missed


@pytest.mark.parametrize(
    "since", ["", "x", "1.2", "1.2.3.4", "-", "a b", "1.2.-3", "1.+2.3", "1.2.3 ", "1._2.3", "z" * 40 + ".1.1"]
)
@pytest.mark.parametrize("path", ["/v1/changes", "/v1/events"])
async def test_a_malformed_token_is_refused(path: str, since: str) -> None:
    status, document = await get(World().node(1), path, since=since)
    assert status == 400
    assert "token" in document["error"]


async def test_without_a_root_there_are_no_changes_but_a_note() -> None:
    world = World()
    world.gone.add(1)
    node = world.node(4)
    token = changes.Bookmark(1, 3, 0).token
    _, document = await get(node, "/v1/changes", since=token)
    assert (document["changes"], document["token"]) == ([], token)
    assert document["note"] == "10.0.0.1 (root) does not answer"
    _, document = await get(node, "/v1/changes")
    assert [each["address"] for each in document["changes"]] == ["10.0.0.4", "10.0.0.8", "10.0.0.9"]


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
    world = World()
    root = world.node(1)
    async with reading(root) as pieces:
        await trio.sleep(1)
        assert pieces[0] == "retry: 1000\n\n"
        assert pieces[1].count("event: change\n") == 11
        assert pieces[1].endswith("\n\n")
        assert pieces[1].rpartition("id: ")[2].strip() == changes.own(root).token
        assert len(pieces) == 2
        world.leaders[11] = 4
        await trio.sleep(1)
        assert pieces[2].startswith("event: change\ndata: {")
        assert '"moved"' in pieces[2]
        await trio.sleep(changes.KEEP_ALIVE_S + 1)
        assert pieces[3:] == [": still here\n\n"]


async def test_events_note_a_silent_root(autojump_clock: MockClock) -> None:
    world = World()
    world.known = {1: world.node(1)}
    async with reading(world.node(4)) as pieces:
        await trio.sleep(1)
        del pieces[:]
        world.gone.add(1)
        await trio.sleep(3)
        assert pieces == ['event: note\ndata: "10.0.0.1 (root) does not answer"\n\n']
        world.gone.clear()
        world.leaders[11] = 4
        await trio.sleep(3)
        assert pieces[1].startswith("event: note\ndata: null\n\nevent: change\n")


async def test_the_substitute_for_a_silent_root_is_sent_once(autojump_clock: MockClock) -> None:
    world = World()
    world.gone.add(1)
    node = world.node(4)
    world.known = {4: node}
    async with reading(node) as pieces:
        await trio.sleep(10)
        assert sum(piece.count("event: change\n") for piece in pieces) == 3
        assert sum(piece.count("event: note\n") for piece in pieces) == 1


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
    assert (await get(world.node(5), "/sd", of="cluster"))[1] == whole


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
    world.standing[11] = Standing.MISSING
    await get(root, "/sd")
    del world.leaders[11], world.standing[11]
    assert (await get(root, "/sd"))[1] == before


async def test_without_the_root_the_last_targets_are_given() -> None:
    world = World()
    app = control_app(world.node(5))
    before = await app["/sd"]({"of": "cluster"})
    world.gone.add(1)
    after = await app["/sd"]({"of": "cluster"})
    assert isinstance(before, Response)
    assert isinstance(after, Response)
    assert (after.status, after.body) == (200, before.body)


async def test_without_a_whole_list_there_are_no_targets() -> None:
    """After an error Prometheus keeps its list; it would take half a list for a whole one."""
    world = World()
    world.gone.add(1)
    status, document = await get(world.node(5), "/sd", of="cluster")
    assert status == 503
    assert document["error"].startswith("the whole tree is not known: 10.0.0.1 (root) does not answer")
    assert (await get(world.node(5), "/sd"))[0] == 200


async def test_a_node_without_place_gives_no_targets() -> None:
    node = World().node(5)
    node.placed = False
    assert (await get(node, "/sd"))[0] == 503


async def test_a_new_root_does_not_replace_the_target_list() -> None:
    world = World()
    app, other = control_app(world.node(5)), control_app(world.node(4))
    before = await app["/sd"]({"of": "cluster"})
    whole = dict(world.leaders)
    world.leaders, world.newly_placed = (
        {1: None, 2: 1, 4: 2, 5: 2},
        {1, 2},
    )  # it was restarted, and the other nodes are still moving
    for _ in range(2):
        after = await app["/sd"]({"of": "cluster"})
        assert isinstance(before, Response)
        assert isinstance(after, Response)
        assert (after.status, after.body) == (200, before.body)
    assert (await get(world.node(5), "/v1/members"))[1]["complete"]  # the members are shown even so
    for path, query in (("/sd", {}), ("/sd", {"of": "cluster"})):
        status, document = await get(world.node(1), path, **query)
        assert (status, "only just" in document["error"]) == (503, True)
    answer = await other["/sd"]({"of": "cluster"})
    assert isinstance(answer, Response)
    assert answer.status == 503
    world.leaders, world.newly_placed = whole, set()
    world.leaders[11] = 4
    del world.leaders[9]
    settled = await app["/sd"]({"of": "cluster"})
    assert isinstance(settled, Response)
    assert len(json.loads(settled.body)) == 11  # including the node whose end no root saw


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
    web, control = web_app(node, control_app(node)), control_app(node)
    assert set(PUBLIC) <= set(control)
    assert set(web) - set(control) >= {"/metrics"}
    assert not {"/v1/keys", "/v1/counters"} & set(web)
