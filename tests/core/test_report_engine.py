"""The part of reports at a few nodes: what counts, when it goes up, and what is said of nodes that are missing."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Any

import msgspec
import pytest

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import encode
from subord.core.carriage.engine.interface import Arrived, Opened, Role, Transmit
from subord.core.carriage.engine.lanes import Lane, lane_of
from subord.core.carriage.reports import bounds, records
from subord.core.carriage.reports.algebra import Count, Latest, Sum, Tally
from subord.core.carriage.reports.answer import decode_fold, encode_fold
from subord.core.carriage.reports.coverage import BELOW_OLDER, NO_REPORT, STALE, Missing, Told, cover
from subord.core.carriage.reports.frames import INFLATED_BYTES_MAX, Report, packed
from subord.core.carriage.reports.records import Folded, Record
from subord.core.carriage.reports.reports import Fold, Publish
from subord.core.view import Position
from subord.sim.services.still import Still, complete
from subord.sim.services.words import of_data

INTERVAL_S = 4.0
OLDER = "older release"


def record(value: float = 1.0) -> dict[str, Any]:
    return {"nodes": Count(1), "sum": Sum.of(value)}


def publishing(nodes: int = 7, fanout: int = 2, **words: Any) -> Still:
    """A settled tree in which every node publishes its position."""
    cluster = Still(complete(nodes, fanout), interval_s=INTERVAL_S, **words)
    for position in cluster.leaders:
        cluster.publish_forever(position, record(position), position / 1000)
    cluster.run(3 * INTERVAL_S)
    return cluster


def count_of(fold: Fold) -> int:
    return int(fold.record["nodes"].value) if "nodes" in fold.record else 0  # type: ignore[arg-type, union-attr]


def said(fold: Fold) -> str:
    missing = "".join(f", {each.count} {each.cause}: {each.nodes}" for each in fold.coverage.missing)
    return f"{fold.coverage.told} of {fold.coverage.asked}{missing}"


def test_every_leader_has_the_fold_of_its_branch() -> None:
    cluster = publishing()
    for position, (told, total) in {1: (7, 28), 2: (3, 11), 7: (1, 7)}.items():
        fold = cluster.fold(position)
        assert (count_of(fold), fold.record["sum"]) == (told, Sum.of(total))
        assert said(fold) == f"{told} of {told}"


def test_what_has_not_changed_is_not_folded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, folds, fold = Still(complete(7, 2), interval_s=INTERVAL_S), list[int](), records.fold
    published = {each: record(each) for each in cluster.leaders}

    def publish(position: Position) -> None:
        cluster.publish(position, published[position])
        cluster.after(INTERVAL_S, lambda: publish(position))

    def counted(many: Sequence[Record], own: Record) -> Record:
        folds.append(len(many))
        return fold(many, own)

    for each in published:
        publish(each)
    cluster.run(3 * INTERVAL_S)
    assert cluster.fold(1).record["sum"] == Sum.of(28)
    monkeypatch.setattr(records, "fold", counted)
    cluster.run(3 * INTERVAL_S)
    assert (folds, cluster.fold(1).record["sum"]) == ([], Sum.of(28))
    published[4] = record(40)
    cluster.run(3 * INTERVAL_S)
    assert (folds, cluster.fold(1).record["sum"]) == ([1, 3, 3], Sum.of(64))
    cluster.close(4, 2)
    cluster.run(0.01)
    assert cluster.fold(1).record["sum"] == Sum.of(24)


def test_a_field_that_cannot_be_read_counts_each_time_that_it_comes() -> None:
    cluster = publishing(3)
    for times in (1, 2, 3):
        hear(cluster, 2, {"nodes": Count(3), "strange": "text"})
        assert cluster.nodes[1].reports.dropped["report field malformed"] == times
        assert cluster.fold(1).left_out == 1


def test_the_kinds_of_the_own_record_stay_when_it_comes_and_goes() -> None:
    strange = {"sum": Count(5)}
    both, below = Folded(strange, [strange, record(2.0)]), Folded(None, [strange, record(2.0)])
    assert (both.record["sum"], below.record["sum"]) == (Count(5), Count(5))
    assert both.is_of(strange, [strange, both._records[1]])
    assert not both.is_of(None, [strange, both._records[1]])
    assert not both.is_of(strange, [strange])
    assert not both.is_of(strange, [strange, record(2.0)]), "an equal record may be changed by its owner"


def test_nothing_is_sent_while_no_node_publishes() -> None:
    cluster = Still(complete(7, 2), interval_s=INTERVAL_S)
    cluster.run(100)
    assert cluster.sent == []
    assert all(node.engine.deadline == inf for node in cluster.nodes.values())


def test_a_fold_goes_up_once_per_interval() -> None:
    cluster = publishing(40, 3)
    before = len(cluster.sent)
    cluster.run(10 * INTERVAL_S)
    assert len(cluster.sent) - before == 39 * 10


def test_a_fold_is_no_older_than_two_intervals() -> None:
    cluster = publishing(40, 3)
    for _ in range(40):
        cluster.run(INTERVAL_S / 10 + 0.001)
        assert cluster.fold(1).oldest_s <= 2 * INTERVAL_S


def test_a_death_goes_up_at_once_and_the_node_is_named() -> None:
    cluster = publishing()
    cluster.close(4, 2)
    cluster.run(0.01)
    assert said(cluster.fold(1)) == "6 of 7, 1 no report: 4"
    assert cluster.fold(1).record["sum"] == Sum.of(24)


def test_early_reports_keep_a_distance() -> None:
    cluster = publishing(40, 13)
    cluster.sent.clear()
    for position in range(15, 28):
        cluster.close(position, 2)
        cluster.run(0.02)
    cluster.run(bounds.EARLY_S)
    times = [now for now, edge in cluster.sent if edge == (2, 1)]
    assert 2 <= len(times) <= 4
    assert all(b - a >= bounds.EARLY_S - 1e-6 for a, b in pairwise(times))


def test_a_node_that_moves_counts_once_where_it_is_listed() -> None:
    cluster = publishing()
    cluster.leaders[4] = 3
    cluster.list_all()  # the stream to the former leader is still open
    cluster.open(4)
    cluster.run(0.01)
    assert count_of(cluster.fold(2)) == 2
    assert count_of(cluster.fold(3)) == 4
    cluster.run(INTERVAL_S)
    fold = cluster.fold(1)
    assert (count_of(fold), said(fold), fold.coverage.unlisted) == (7, "7 of 7", 0)


def test_more_nodes_than_the_roster_lists_are_not_told() -> None:
    """As while a branch that has moved counts at its former leader, too."""
    cluster = publishing()
    cluster.nodes[1].sizes[2] = 1
    fold = cluster.fold(1)
    assert (said(fold), fold.coverage.unlisted, count_of(fold)) == ("5 of 5", 2, 7)


def test_a_record_that_is_not_renewed_is_dropped_and_named() -> None:
    silent = Still(complete(3, 2), interval_s=INTERVAL_S)
    silent.publish_forever(1, record(), 0.0)
    silent.publish(2, record())
    silent.run(2.9 * INTERVAL_S)
    assert said(silent.fold(1)) == "2 of 3, 1 no report: 3"
    silent.run(0.3 * INTERVAL_S)
    assert said(silent.fold(1)) == "1 of 3, 1 no report: 3, 1 stale: 2"
    assert silent.nodes[2].reports.dropped["report stale"] == 1
    silent.publish(2, record())
    silent.run(0.01)
    assert said(silent.fold(1)) == "2 of 3, 1 no report: 3"


def test_a_stopped_leader_is_stale_with_its_branch() -> None:
    cluster = publishing()
    cluster.cut(2)
    cluster.run(1.5 * INTERVAL_S)
    assert said(cluster.fold(1)) == "7 of 7"
    cluster.run(INTERVAL_S)
    assert said(cluster.fold(1)) == f"4 of 7, 3 {STALE}: 2"


def test_older_nodes_and_their_branches_are_named() -> None:
    cluster = publishing(older=(2,))
    assert said(cluster.fold(1)) == f"4 of 7, 2 {BELOW_OLDER}: , 1 {OLDER}: 2"


def test_a_withdrawn_report_leaves_nothing() -> None:
    cluster = Still(complete(3, 2), interval_s=INTERVAL_S)
    cluster.publish(2, record())
    cluster.run(1)
    assert count_of(cluster.fold(1)) == 1
    cluster.publish(2, None)
    cluster.run(1)
    assert all(not any(node.reports.sizes.values()) for node in cluster.nodes.values())
    assert all(node.engine.deadline == inf for node in cluster.nodes.values())


def test_a_new_life_begins_with_nothing_and_counts_once() -> None:
    cluster = publishing()
    cluster.close(2, 1)
    for position in (4, 5):
        cluster.close(position, 2)
    cluster.start(2)
    cluster.list_all()
    for position in (2, 4, 5):
        cluster.open(position)
    cluster.run(0.0015)
    assert said(cluster.fold(1)) == "5 of 7, 2 no report: 2,5"
    cluster.run(0.6)
    assert said(cluster.fold(1)) == "7 of 7"
    assert count_of(cluster.fold(1)) == 7


def test_what_an_earlier_life_sent_is_not_heard() -> None:
    cluster = publishing(3)
    body = Report("load", 4000, 9, (), 0, 0, {})
    root = cluster.nodes[1]
    root.engine.handle(Arrived((2, 1), encode(5, root.incarnation, packed(body))), cluster.now)
    assert said(cluster.fold(1)) == "3 of 3"
    assert root.engine.dropped["earlier life"] == 1


def test_only_subordinates_report() -> None:
    cluster = publishing(3)
    leader, root = cluster.nodes[1], cluster.nodes[1]
    body = Report("load", 4000, 9, (), 0, 0, {})
    below = cluster.nodes[2]
    below.engine.handle(Arrived((2, 1), encode(leader.incarnation, below.incarnation, packed(body))), cluster.now)
    assert below.reports.dropped["report of no subordinate"] == 1
    assert said(cluster.fold(1)) == "3 of 3"
    assert root.engine.sizes["orders"] == 0


def test_reports_have_a_lane_of_their_own() -> None:
    data = encode(1, 2, packed(Report("load", 4000, 1, (Missing("stale", 2, (3, 0)),), 1500, 0, {})))
    assert lane_of(data) is Lane.REPORT
    assert of_data(data) == "report load: of 1, up to 1500 ms old, 2 stale: 4"


def test_fields_that_are_deflated_already_travel_as_they_are() -> None:
    fields = records.fitted(record()).fields
    report = Report("load", 4000, 1, (), 1500, 0, fields)
    assert packed(report, records.deflated(fields)) == packed(report)
    assert Folded(None, [record()]).deflated == records.deflated(fields)


@pytest.mark.parametrize(
    "change",
    [
        {"interval_ms": 0},
        {"service": "x" * 33},
        {"told": -1},
        {"missing": tuple(Missing("silent", 1) for _ in range(9))},
        {"fields": {"x" * 65: msgspec.Raw(b"\x92\x01\x01")}},
    ],
)
def test_a_report_out_of_bounds_is_not_read(change: dict[str, Any]) -> None:
    cluster = publishing(3)
    body = msgspec.structs.replace(Report("load", 4000, 9, (), 0, 0, {}), **change)
    root, below = cluster.nodes[1], cluster.nodes[2]
    root.engine.handle(Arrived((2, 1), encode(below.incarnation, root.incarnation, packed(body))), cluster.now)
    assert root.engine.dropped["unreadable"] == 1
    assert said(cluster.fold(1)) == "3 of 3"


@pytest.mark.parametrize(
    "deflated",
    [
        b"",
        b"no zlib",
        zlib.compress(bytes(1 << 20)),
        zlib.compress(b"\x80")[:-1],
        zlib.compress(b"\x80") + b"more",
        zlib.compress(b"\x91" * 9_999),
    ],
    ids=["empty", "other", "bomb", "cut", "more", "nested"],
)
def test_fields_that_cannot_be_inflated_are_not_read(deflated: bytes) -> None:
    cluster = publishing(3)
    root, below = cluster.nodes[1], cluster.nodes[2]
    body = msgspec.structs.replace(packed(Report("load", 4000, 9, (), 0, 0, {})), deflated=deflated)
    assert len(deflated) < INFLATED_BYTES_MAX
    root.engine.handle(Arrived((2, 1), encode(below.incarnation, root.incarnation, body)), cluster.now)
    assert root.engine.dropped["unreadable"] == 1
    assert said(cluster.fold(1)) == "3 of 3"


def test_the_largest_numbers_of_a_liar_leave_the_fold_readable() -> None:
    cluster = publishing(7)
    body = Report("load", 4000, bounds.COUNT_MAX, (Missing(STALE, bounds.COUNT_MAX),), bounds.COUNT_MAX, 0, {})
    two = cluster.nodes[2]
    cluster.run(1)
    for liar in (4, 5):
        data = encode(cluster.nodes[liar].incarnation, two.incarnation, packed(body))
        cluster.feed(2, Arrived((liar, 2), data))
    cluster.run(0.5)
    assert cluster.nodes[1].engine.dropped["unreadable"] == 0
    for position, unlisted in {1: bounds.COUNT_MAX - 3, 2: bounds.COUNT_MAX}.items():
        fold = cluster.fold(position)
        assert (fold.coverage.told, fold.coverage.unlisted) == (fold.coverage.asked, unlisted)
        assert decode_fold(encode_fold(fold)).coverage == fold.coverage


def test_a_liar_names_only_nodes_below_it() -> None:
    cluster = publishing(7)
    cluster.run(1)
    body = Report("load", 4000, 1, (Missing(STALE, 9, (1, 1 << 23)),), 0, 0, {})
    cluster.feed(1, Arrived((2, 1), encode(cluster.nodes[2].incarnation, cluster.nodes[1].incarnation, packed(body))))
    assert said(cluster.fold(1)) == "5 of 7, 2 stale: 2,4-5"


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = publishing(3)
    node = cluster.nodes[1]
    for number in range(bounds.SERVICES_MAX + 5):
        node.engine.handle(Publish(f"report {number}", record(), 1.0), cluster.now)
    assert node.reports.sizes["report services"] == bounds.SERVICES_MAX
    assert node.reports.dropped["report services full"] == 6
    monkeypatch.setattr(bounds, "HELD_BYTES_MAX", node.reports.sizes["report bytes"])
    cluster.publish(2, record() | {"more": Latest(1, 2, bytes(200))})
    cluster.run(1.5 * INTERVAL_S)
    assert node.reports.dropped["report bytes full"]
    assert node.reports.sizes["report bytes"] <= bounds.HELD_BYTES_MAX


def test_a_large_fold_says_what_it_left_out() -> None:
    cluster = Still(complete(3, 2), interval_s=INTERVAL_S)
    for position in (2, 3):
        cluster.publish(position, {f"{position} {each:03}": Latest(1, position, bytes(250)) for each in range(80)})
    cluster.run(1)
    cluster.publish(1, {"x": Count(1)})
    fold = cluster.fold(1)
    assert fold.left_out == 0
    assert len(fold.record) == 161
    told = decode_fold(encode_fold(fold))
    assert 0 < told.left_out == 161 - len(told.record)
    assert len(encode_fold(fold)) <= 32_768


def hear(cluster: Still, below: int, fields: dict[str, Any]) -> None:
    """A report of a node to its leader."""
    leader = cluster.leaders[below]
    raw = {name: msgspec.Raw(msgspec.msgpack.encode(value)) for name, value in fields.items()}
    body = Report("load", 4000, 3, (), 0, 0, raw)
    lives = cluster.nodes[below].incarnation, cluster.nodes[leader].incarnation
    cluster.feed(leader, Arrived((below, leader), encode(*lives, packed(body))))


def test_the_kinds_of_the_own_record_stay() -> None:
    cluster = publishing(7)
    cluster.run(1)
    hear(cluster, 2, {"nodes": Count(3), "sum": Count(9)})
    fold = cluster.fold(1)
    assert (fold.record["sum"], count_of(fold), fold.left_out) == (Sum.of(1 + 3 + 6 + 7), 7, 1)


def test_the_fields_of_the_own_record_go_up_before_others() -> None:
    cluster = publishing(7)
    cluster.run(1)
    huge = Tally({f"{number:048}": Sum((1 << 62) - 1, 999_999) for number in range(128)})
    for below in (4, 5):
        hear(cluster, below, {f"\0{below}{number}": huge for number in range(3)} | record())
    cluster.run(0.5)
    for position, count in {1: 7, 2: 3}.items():
        told = decode_fold(encode_fold(cluster.fold(position)))
        assert (count_of(told), told.left_out > 0) == (count, True)


def test_fields_that_cannot_be_read_are_left_out() -> None:
    cluster = publishing(7)
    cluster.run(1)
    hear(cluster, 2, {"nodes": Count(3), "sum": ["?"]})
    assert cluster.fold(1).left_out == 1


def test_a_fold_travels_as_it_is() -> None:
    fold = publishing(7, older=(3,)).fold(1)
    again = decode_fold(encode_fold(fold))
    assert (again.record, again.coverage) == (fold.record, fold.coverage)
    assert again.oldest_s == pytest.approx(fold.oldest_s, abs=0.001)


def test_a_leader_that_comes_later_gets_everything_at_once() -> None:
    cluster = publishing(3)
    two = cluster.nodes[2].engine
    cluster.leaders[2] = 3
    actions = two.handle(Opened("new", 3, Role.LEADER, 3001), cluster.now)
    assert [of_data(each.data).split(",")[0] for each in actions if isinstance(each, Transmit)] == [
        "report load: of 1"
    ]


def test_the_coverage_is_a_partition() -> None:
    told = {2: Told(3, (Missing("stale", 9, (4, 0)),)), 3: Told(0, (Missing(OLDER, 1),)), 5: Told(7)}
    found = cover(1, NO_REPORT, {2: 4, 3: 3, 4: 2, 5: 6}, told, {4: OLDER})
    counts = {each.cause: each.count for each in found.missing}
    assert (found.asked, found.told, found.unlisted) == (16, 9, 1)
    assert counts == {NO_REPORT: 1 + 2, "stale": 1, OLDER: 1 + 1, BELOW_OLDER: 1}
    assert found.told + sum(counts.values()) == found.asked


def test_causes_and_names_are_bounded() -> None:
    many = tuple(Missing(f"cause {each}", 1) for each in range(8))
    other = tuple(Missing(f"other {each}", 1) for each in range(8))
    found = cover(1, "", {2: 9, 3: 9}, {2: Told(1, many), 3: Told(1, other)}, {})
    assert len(found.missing) <= bounds.CAUSES_MAX
    assert found.told + sum(each.count for each in found.missing) == found.asked
    wide = cover(1, "", {2 * each: 1 for each in range(1, 999)}, {}, {})
    assert wide.missing[0].count == 998
    assert wide.missing[0].nodes
    assert len(msgspec.msgpack.encode(wide)) < 400


def test_an_engine_without_parts_drops_reports() -> None:
    cluster = publishing(3)
    tree: Any = cluster.nodes[1]
    engine = Engine(tree, {})
    engine.handle(Opened("edge", 2, Role.SUBORDINATE, 7), 0.0)
    engine.handle(Arrived("edge", encode(7, tree.incarnation, packed(Report("load", 4000, 9, (), 0, 0, {})))), 0.0)
    assert engine.dropped["unreadable"] == 1
