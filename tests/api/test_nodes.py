"""The documents of a node have addresses and survive encoding and decoding."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from loops import over

from subord.api.handlers import peer_answers
from subord.api.models import fields, members, nodes
from subord.api.node_api import NodeApi, Question
from subord.core.address.network import Network
from subord.core.settings import Settings
from subord.core.view import Asked, Near, Place, Ranking, Refusal, Why
from subord.runtime.net.peer_query import Topic
from subord.sealing.keys import key_of, keyring_of
from tests.api.fake_node_api import MEASURED, SETTINGS, World, key_ring_of


def test_status_names_nodes_by_address() -> None:
    world = World()
    world.refusals = (Refusal(address="10.0.0.9", by="them", reason="fan-out 8, we use 4", ago_s=2.0, times=3),)
    node: NodeApi = world.node(5)
    status = nodes.status(node)
    assert (status.address, status.leader, status.root, status.home) == (
        "10.0.0.5",
        "10.0.0.2",
        "10.0.0.1",
        "10.0.0.2",
    )
    assert status.path == ("10.0.0.1", "10.0.0.2")
    assert (status.level, status.real_level, status.place) == (2, 2, Place.HOME)
    assert [edge.address for edge in status.subordinates] == ["10.0.0.10", "10.0.0.11"]
    assert status.refusals[0].reason == "fan-out 8, we use 4"
    assert (status.settings.network, status.settings.fanout) == ("10.0.0.0/16", 2)


@pytest.mark.parametrize(("directory", "saved"), [("", False), ("state", True)])
async def test_status_lists_key_names(tmp_path: Path, directory: str, saved: bool) -> None:
    old, new = (key_of(bytes([number]) * 32) for number in (1, 2))
    (tmp_path / "state").mkdir()
    key_ring = key_ring_of(tmp_path, keyring_of(old), directory and str(tmp_path / directory))
    key_ring.take(keyring_of(new, [old], revision=3))
    await key_ring.save()
    world = World()
    world.key_rings = {2: key_ring}
    assert nodes.status(world.node(5)).seal is None
    assert nodes.status(world.node(2)).seal == fields.SealDocument(revision=3, keys=(new.name, old.name), saved=saved)


def test_why_joins_candidates_with_their_newest_answers() -> None:
    view = Why(
        position=5,
        place=Place.GUEST,
        leader=3,
        reason="home is silent",
        ranked=(2, 3),
        asked=(
            Asked(position=3, answer="accepted", ago_s=1.0),
            Asked(position=1, answer="full", ago_s=2.0),
            Asked(position=3, answer="full", ago_s=9.0),
        ),
        ranking=Ranking(mapping="ip"),
    )
    document = nodes.why(SETTINGS, view)
    assert [(each.address, each.answer) for each in document.candidates] == [
        ("10.0.0.2", None),
        ("10.0.0.3", "accepted"),
    ]
    assert [(each.address, each.answer) for each in document.others] == [("10.0.0.1", "full")]


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("status", fields.StatusDocument),
        ("why", fields.WhyDocument),
        ("roster", members.RosterDocument),
    ],
)
async def test_an_answer_can_be_read_by_another_node(what: Topic, kind: type[msgspec.Struct]) -> None:
    answer = await peer_answers.answer(World().node(2), Question(what))
    assert msgspec.json.encode(msgspec.json.decode(answer, type=kind)) == answer


async def test_positions_of_ipv6_networks_are_exact() -> None:
    shared = Settings(network=Network.parse("fd00::/48"), fanout=2)
    high = 2**79 + 1
    node = World({1: None, high: 1}, shared).node(1)
    roster = msgspec.json.decode(await peer_answers.answer(node, Question("roster")), type=members.RosterDocument)
    assert roster.rows[1].position == high
    assert roster.rows[1].address == shared.network.address_text_of(high)


@over("address", ["\x1b[31m", "10.0.0.1\n", "", "a" * 46, "example.org"])
async def test_a_malformed_address_is_rejected(address: str) -> None:
    answer = msgspec.json.decode(await peer_answers.answer(World().node(2), Question("roster")))
    answer["rows"][0]["address"] = address
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(answer), type=members.RosterDocument)


def test_counters_are_totals_and_details() -> None:
    node = World().node(2)
    node.counters.messages_sent.update({"beat": 3, "report": 2})
    node.counters.bytes_sent["beat"] = 120
    node.counters.dropped["malformed"] = 4
    document = nodes.counters(node)
    assert (document.messages_sent, document.bytes_sent, document.dropped) == (5, 120, 4)
    assert (document.exchanges, document.leader_changes) == (2, 1)
    assert document.messages_sent_by_type == {"beat": 3, "report": 2}


# -- what is measured -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "kind"),
    [("status", fields.StatusDocument), ("why", fields.WhyDocument), ("roster", members.RosterDocument)],
)
async def test_what_was_measured_travels_and_may_be_missing(what: Topic, kind: type[msgspec.Struct]) -> None:
    """Documents of older daemons lack these fields, and older daemons ignore them."""
    world = World()
    world.ranking = MEASURED
    world.numbers = {2: (0.02, 90.5), 4: (0.0002, None)}
    answer = await peer_answers.answer(world.node(2), Question(what))
    assert msgspec.json.encode(msgspec.json.decode(answer, type=kind)) == answer
    older = msgspec.json.decode(answer)
    older.pop("ranking", None)
    for row in older.get("rows", ()):
        row.pop("round_trip_s", None)
        row.pop("performance", None)
    read = msgspec.json.decode(msgspec.json.encode(older), type=kind)
    if isinstance(read, members.RosterDocument):
        assert {(row.round_trip_s, row.performance) for row in read.rows} == {(None, None)}
    else:
        assert read.ranking is None  # type: ignore[attr-defined]


async def test_a_roster_has_the_numbers_of_its_rows() -> None:
    world = World({1: None, 2: 1, 4: 2})
    world.numbers = {2: (0.02, 90.5096), 4: (None, 1.0)}
    node = world.node(1)
    rows = nodes.roster(node.settings, node.roster()).rows
    assert [(row.round_trip_s, row.performance) for row in rows] == [(None, None), (0.02, 90.5), (None, 1.0)]


def test_the_document_of_a_ranking() -> None:
    assert nodes.ranking(SETTINGS, Ranking(mapping="ip"), 2) is None
    document = nodes.ranking(SETTINGS, MEASURED, 2)
    assert document is not None
    assert (document.mapping, document.performance_class, document.standing) == ("latency", 141, 2**5.5)
    assert document.leader_round_trip_s == 0.02
    assert [each.address for each in document.near] == ["10.0.0.3", "10.0.0.2"]


def test_the_nearest_are_listed_and_the_leader_in_any_case() -> None:
    near = tuple(Near(position=p, round_trip_s=p / 1000, performance=None, ago_s=0.0) for p in range(1, 101))
    for leader, last in ((50, 50), (3, nodes.NEAR_SHOWN), (None, nodes.NEAR_SHOWN), (2000, nodes.NEAR_SHOWN)):
        document = nodes.ranking(SETTINGS, Ranking(mapping="performance", near=near), leader)
        assert document is not None
        assert len(document.near) == nodes.NEAR_SHOWN + (leader == 50)
        assert document.near[-1].position == last
