"""/metrics: every family parses, has its help and unit, and follows the naming conventions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from loops import over
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from subord import __version__
from subord.api.handlers.web import metrics_app
from subord.config.schema import NodeConfig
from subord.core.carriage.engine.interface import Overview
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.shares.interface import DOCUMENT, LEADER
from subord.core.view import Refusal
from subord.runtime.shares.state import FAILED, WORDS
from subord.runtime.shares.state import State as SharesState
from subord.sealing.identity import Verifier
from subord.sealing.keys import key_of, keyring_of
from tests.api.fake_node_api import MEASURED, FakeNode, World, key_ring_of
from tests.api.fake_shares import branch_of, hold, overview_of, plan_of

EXPECTED = {
    "subord_build_info": "gauge",
    "subord_leader_info": "gauge",
    "subord_identity_info": "gauge",
    "subord_key_info": "gauge",
    "subord_sealed": "gauge",
    "subord_level": "gauge",
    "subord_real_level": "gauge",
    "subord_offset": "gauge",
    "subord_position": "gauge",
    "subord_fanout": "gauge",
    "subord_is_root": "gauge",
    "subord_subordinates": "gauge",
    "subord_refusals": "gauge",
    "subord_members_live": "gauge",
    "subord_members_down": "gauge",
    "subord_members_expected": "gauge",
    "subord_members_maintained": "gauge",
    "subord_members_maintained_away": "gauge",
    "subord_table_entries": "gauge",
    "subord_subtree_nodes": "gauge",
    "subord_subtree_not_home_nodes": "gauge",
    "subord_subtree_unbound_nodes": "gauge",
    "subord_performance_jobs_per_hour": "gauge",
    "subord_performance_jobs_per_second": "gauge",
    "subord_jobs_done": "counter",
    "subord_performance_readings_failed": "counter",
    "subord_leader_changes": "counter",
    "subord_exchanges": "counter",
    "subord_messages": "counter",
    "subord_bytes": "counter",
    "subord_input_dropped": "counter",
    "subord_orders_accepted": "counter",
    "subord_orders_refused": "counter",
    "subord_orders_under_way": "gauge",
    "subord_orders_given": "counter",
    "subord_orders_told": "counter",
    "subord_orders_missing": "counter",
    "subord_spool_records": "gauge",
    "subord_spool_bytes": "gauge",
    "subord_spool_oldest_seconds": "gauge",
    "subord_spool_bytes_max": "gauge",
    "subord_records_accepted": "counter",
    "subord_records_refused": "counter",
    "subord_records_stored": "counter",
    "subord_records_missing": "gauge",
    "subord_report_nodes": "gauge",
    "subord_report_oldest_seconds": "gauge",
    "subord_reports": "counter",
    "subord_send_errors": "counter",
    "subord_log_lines": "counter",
    "subord_round_trip_seconds": "histogram",
    "subord_detection_seconds": "histogram",
    "subord_healing_seconds": "histogram",
    "subord_event_loop_lag_seconds": "histogram",
}

OF_SHARES = {
    "subord_shares_plan_version": "gauge",
    "subord_shares_state": "gauge",
    "subord_shares_nodes_asked": "gauge",
    "subord_shares_nodes_told": "gauge",
    "subord_shares_rounds": "counter",
    "subord_shares_wanted_ratio": "gauge",
    "subord_shares_obeyed_ratio": "gauge",
    "subord_shares_got_ratio": "gauge",
    "subord_shares_used_ratio": "gauge",
    "subord_shares_needy": "gauge",
}
"""While the node holds a plan that is in force."""

OF_ELASTIC = {
    "subord_elastic_state": "gauge",
    "subord_elastic_nodes": "gauge",
    "subord_elastic_stage_seconds": "gauge",
    "subord_elastic_size": "gauge",
    "subord_elastic_size_min": "gauge",
    "subord_elastic_size_max": "gauge",
    "subord_elastic_size_needed": "gauge",
    "subord_elastic_idle_seconds": "gauge",
    "subord_elastic_nodes_added": "counter",
    "subord_elastic_nodes_removed": "counter",
    "subord_elastic_nodes_undone": "counter",
    "subord_elastic_jobs": "gauge",
    "subord_elastic_slots": "gauge",
    "subord_elastic_slots_free": "gauge",
    "subord_elastic_oldest_job_wait_seconds": "gauge",
    "subord_elastic_blocked_seconds": "gauge",
    "subord_elastic_poll_failed": "gauge",
    "subord_elastic_poll_age_seconds": "gauge",
}
"""At the queue's node, once its agent has told figures."""


def busy_node(position: int) -> FakeNode:
    node = World().node(position)
    node.counters.messages_sent["beat"] = 3
    node.counters.messages_received["beat"] = 2
    node.counters.bytes_sent["beat"] = 120
    node.counters.dropped["malformed"] = 1
    node.counters.orders_accepted["keys"] = 6
    node.counters.orders_refused["unsigned"] = 7
    node.counters.orders_given["ping"] = 8
    node.counters.orders_told = 77
    node.counters.orders_missing["silent"] = 9
    node.orders.held.append(Overview("ping", 5, False, 7, 3, 0, 0.2, 0.6))
    node.counters.spool_records, node.counters.spool_bytes, node.counters.spool_bytes_max = 3, 400, 65_536
    node.counters.records_accepted, node.counters.records_refused, node.counters.records_stored = 8, 9, 10
    node.counters.records_missing = 11
    node.counters.send_errors["EHOSTUNREACH"] = 5
    node.counters.reports_sent = 8
    node.orders.folds["load"] = Fold({}, Coverage(7, 6), 1.5)
    node.counters.jobs_done = 2.5
    node.counters.readings_failed["missing"] = 4
    for seconds in (0.0002, 0.0002, 7.0):
        node.counters.round_trip.observe(seconds)
    return node


async def scraped(node: FakeNode) -> tuple[str, list[Sample]]:
    response = await metrics_app(node)["/metrics"]({})
    assert response.content_type.startswith("text/plain; version=0.0.4")
    text = response.body.decode()
    return text, [sample for family in text_string_to_metric_families(text) for sample in family.samples]


async def test_names_types_and_help() -> None:
    text, _ = await scraped(busy_node(2))
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ours = {name: family.type for name, family in families.items() if name.startswith("subord_")}
    assert ours == EXPECTED
    assert all(family.documentation for family in families.values())
    for name, kind in ours.items():
        if kind == "counter":
            assert f"# TYPE {name}_total counter" in text
        if kind == "histogram":
            assert name.endswith("_seconds")
            assert "econds" in families[name].documentation
    assert "process_resident_memory_bytes" in families


@over(
    ("name", "labels", "value"),
    [
        ("subord_build_info", {"version": __version__}, 1),
        ("subord_leader_info", {"leader": "10.0.0.1"}, 1),
        ("subord_orders_accepted_total", {"power": "keys"}, 6),
        ("subord_orders_refused_total", {"reason": "unsigned"}, 7),
        ("subord_orders_under_way", {}, 1),
        ("subord_orders_given_total", {"service": "ping"}, 8),
        ("subord_orders_told_total", {}, 77),
        ("subord_orders_missing_total", {"cause": "silent"}, 9),
        ("subord_spool_records", {}, 3),
        ("subord_spool_bytes", {}, 400),
        ("subord_spool_oldest_seconds", {}, 0),
        ("subord_spool_bytes_max", {}, 65_536),
        ("subord_records_accepted_total", {}, 8),
        ("subord_records_refused_total", {}, 9),
        ("subord_records_stored_total", {}, 10),
        ("subord_records_missing", {}, 11),
        ("subord_reports_total", {"direction": "sent"}, 8),
        ("subord_report_nodes", {"report": "load", "state": "asked"}, 7),
        ("subord_report_nodes", {"report": "load", "state": "told"}, 6),
        ("subord_report_oldest_seconds", {"report": "load"}, 1.5),
        ("subord_level", {}, 1),
        ("subord_real_level", {}, 1),
        ("subord_is_root", {}, 0),
        ("subord_sealed", {}, 0),
        ("subord_fanout", {}, 2),
        ("subord_subordinates", {"place": "home"}, 2),
        ("subord_subordinates", {"place": "guest"}, 0),
        ("subord_subtree_nodes", {}, 7),
        ("subord_leader_changes_total", {}, 1),
        ("subord_messages_total", {"type": "beat", "direction": "sent"}, 3),
        ("subord_messages_total", {"type": "beat", "direction": "received"}, 2),
        ("subord_bytes_total", {"type": "beat", "direction": "sent"}, 120),
        ("subord_input_dropped_total", {"reason": "malformed"}, 1),
        ("subord_send_errors_total", {"errno": "EHOSTUNREACH"}, 5),
        ("subord_jobs_done_total", {}, 2.5),
        ("subord_performance_readings_failed_total", {"reason": "missing"}, 4),
        ("subord_round_trip_seconds_bucket", {"le": "0.0001"}, 0),
        ("subord_round_trip_seconds_bucket", {"le": "0.00025"}, 2),
        ("subord_round_trip_seconds_bucket", {"le": "1.0"}, 2),
        ("subord_round_trip_seconds_bucket", {"le": "+Inf"}, 3),
        ("subord_round_trip_seconds_count", {}, 3),
    ],
)
async def test_values(name: str, labels: dict[str, str], value: float) -> None:
    _, samples = await scraped(busy_node(2))
    assert [sample.value for sample in samples if (sample.name, sample.labels) == (name, labels)] == [value]


async def test_keys_are_shown_by_name(tmp_path: Path) -> None:
    old, new = (key_of(bytes([number]) * 32) for number in (1, 2))
    world = World()
    world.key_rings = {2: key_ring_of(tmp_path, keyring_of(new, [old], revision=3))}
    text, samples = await scraped(world.node(2))
    values = {sample.name: (sample.labels, sample.value) for sample in samples}
    assert values["subord_sealed"] == ({}, 1)
    assert values["subord_key_info"] == ({"primary": new.name}, 1)
    assert (values["subord_keys"], values["subord_key_ring_revision"]) == (({}, 2), ({}, 3))
    assert values["subord_key_ring_saved"] == ({}, 1)
    assert old.name not in text
    world.key_rings[2].take(keyring_of(new, revision=4))
    _, samples = await scraped(world.node(2))
    assert [sample.value for sample in samples if sample.name == "subord_key_ring_saved"] == [0]


async def test_refusals_are_shown_while_they_last() -> None:
    node = busy_node(2)
    sides: tuple[tuple[Literal["us", "them"], float], ...] = (
        ("us", 1.0),
        ("us", 299.0),
        ("us", 301.0),
        ("them", 400.0),
    )
    node.world.refusals = tuple(
        Refusal(address=f"10.0.0.{number}", by=by, reason="fan-out 8, we use 2", ago_s=ago_s, times=1)
        for number, (by, ago_s) in enumerate(sides, 10)
    )
    _, samples = await scraped(node)
    values = {sample.labels["by"]: sample.value for sample in samples if sample.name == "subord_refusals"}
    assert values == {"us": 2, "them": 0}


async def test_performance_is_shown_when_it_is_known() -> None:
    node = busy_node(2)
    _, samples = await scraped(node)
    assert "subord_performance_jobs_per_hour" not in {sample.name for sample in samples}
    node.performance.replace(NodeConfig(performance=12.5))
    _, samples = await scraped(node)
    values = {s.name: s.value for s in samples if s.name.startswith("subord_performance_jobs")}
    assert values["subord_performance_jobs_per_hour"] == 12.5
    assert values["subord_performance_jobs_per_second"] == pytest.approx(12.5 / 3600)
    assert node.reported == [12.5]


def test_units_are_base_units() -> None:
    """https://prometheus.io/docs/practices/naming/."""
    other = re.compile(r"_(ms|us|milliseconds|minutes?|hours?|days?|kib|mib|kilobytes|bits|percent)(_|$)")
    assert [name for name in EXPECTED | OF_SHARES if other.search(name)] == [
        "subord_performance_jobs_per_hour"
    ]  # deprecated


async def test_a_root_has_no_leader_to_show() -> None:
    _, samples = await scraped(busy_node(1))
    assert not [sample for sample in samples if sample.name == "subord_leader_info"]
    assert [sample.value for sample in samples if sample.name == "subord_is_root"] == [1]


@pytest.mark.parametrize(("position", "away_s"), [(4, [0.02]), (8, []), (1, [])], ids=["leader", "not near", "root"])
async def test_what_is_measured_is_shown_where_it_ranks(position: int, away_s: list[float]) -> None:
    node = busy_node(position)
    node.world.ranking = MEASURED
    text, samples = await scraped(node)
    ours = {family.name for family in text_string_to_metric_families(text) if family.name.startswith("subord_")}
    assert ours - EXPECTED.keys() == {
        "subord_leader_round_trip_seconds",
        "subord_performance_class",
        "subord_standing_class",
        "subord_ranking_moves",
        "subord_ranking_moves_held",
    }
    values = [(sample.name, sample.value) for sample in samples if sample.name not in EXPECTED]
    assert [value for name, value in values if name == "subord_leader_round_trip_seconds"] == away_s
    assert {
        ("subord_performance_class", 141),
        ("subord_standing_class", 139),
        ("subord_ranking_moves_total", 3),
        ("subord_ranking_moves_held_total", 1),
    } <= set(values)


async def test_the_identity_is_shown_by_its_fingerprint() -> None:
    node = World().node(2)
    _, samples = await scraped(node)
    (found,) = [each for each in samples if each.name == "subord_identity_info"]
    assert found.labels == {"fingerprint": node.identity.fingerprint}
    node.identity.signer = Verifier()
    _, samples = await scraped(node)
    assert "subord_identity_info" not in {each.name for each in samples}


async def shares_of(node: FakeNode) -> tuple[set[str], dict[str, dict[str, float]]]:
    """The families about shares, and the values by sample and label."""
    text, samples = await scraped(node)
    families = {each.name for each in text_string_to_metric_families(text)}
    found: dict[str, dict[str, float]] = {}
    for each in samples:
        if each.name.startswith("subord_shares_"):
            found.setdefault(each.name.removeprefix("subord_shares_"), {})["".join(each.labels.values())] = each.value
    return {each for each in families if each.startswith("subord_shares_")}, found


async def test_without_shares_there_are_no_families_about_them() -> None:
    assert await shares_of(busy_node(1)) == (set(), {})


@pytest.mark.parametrize("wanted_from", [DOCUMENT, LEADER])
async def test_shares_are_shown_while_the_node_holds_a_plan(wanted_from: str) -> None:
    node = busy_node(2)
    branches = (
        branch_of(2, (60, 30, 10), (50, 30, 5)),
        branch_of(4, (70, 20, 10), (70, 10, 10), nodes=3, needy=(False, True, False)),
    )
    hold(node, overview_of(plan_of(), branches, wanted_from=wanted_from, asked=6))
    node.shares.state = SharesState(FAILED, "cpu.weight: no space left on device")
    families, values = await shares_of(node)
    assert families == set(OF_SHARES)
    assert (values["plan_version"], values["rounds_total"]) == ({"": 7}, {"": 42})
    assert (values["nodes_asked"], values["nodes_told"]) == ({"": 6}, {"": 4})
    assert values["wanted_ratio"] == values["obeyed_ratio"] == {"web": 0.6, "batch": 0.3, "test": 0.1}
    assert values["got_ratio"] == {"web": 0.675, "batch": 0.225, "test": 0.1}
    assert values["used_ratio"] == {"web": 0.65, "batch": 0.15, "test": 0.0875}
    assert values["needy"] == {"web": 0, "batch": 1, "test": 0}
    assert values["state"] == {word: float(word == FAILED) for word in WORDS}


async def test_before_the_first_report_nothing_is_got_or_used() -> None:
    node = busy_node(2)
    hold(node, overview_of(plan_of(), asked=6))
    families, values = await shares_of(node)
    assert families == set(OF_SHARES)
    assert values.keys().isdisjoint({"got_ratio", "used_ratio", "needy"})
    assert values["nodes_told"] == {"": 0}


async def test_of_shares_that_are_off_the_state_alone_is_shown() -> None:
    node = busy_node(2)
    hold(node, overview_of(plan_of((), version=9)))
    families, values = await shares_of(node)
    assert families == {"subord_shares_plan_version", "subord_shares_state"}
    assert values["state"]["off"] == 1
    assert values["plan_version"] == {"": 9}
