"""What Prometheus sees of elastic growth: at the queue's node alone, with ages that grow when the agent ends."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from subord.api.handlers.families.elastic import families
from subord.runtime.elastic import state
from subord.runtime.elastic.state import NodeState, State
from subord.services.elastic.stages import Stage
from tests.api.fake_node_api import FakeElastic, FakeNode, World
from tests.api.test_metrics import OF_ELASTIC, scraped

NOW = 1_800_000_000.0
PAID = NOW - 9000
NODES = (
    NodeState(name="master", stage="", slots=4, is_master=True, idle_since=NOW - 9000),
    NodeState(name="node001", stage="serving", slots=4, since=NOW - 9000, paid_since=PAID, idle_since=NOW - 700),
    NodeState(name="node002", stage="serving", slots=4, since=NOW - 9000, paid_since=PAID, idle_since=NOW - 60),
    NodeState(name="node003", stage="mounting", slots=4, since=NOW - 400, paid_since=PAID, tries=7, fault="no route"),
    NodeState(name="node004", stage="mounting", slots=4, since=NOW - 30, paid_since=NOW - 500),
    NodeState(name="node009", stage="unknown", since=NOW - 100),
)
FIGURES = State(
    word=state.MANAGES,
    version=3,
    at=NOW - 20,
    needed=7,
    queued=12,
    running=8,
    slots=12,
    free=4,
    oldest_s=930.5,
    size=6,
    min_nodes=2,
    max_nodes=9,
    blocked_since=NOW - 45,
    added=11,
    removed=5,
    undone=2,
    nodes=NODES,
    left_out=3,
)

Values = dict[str, dict[str, float]]


def values_of(found: State, batch: str = "gridengine", now: float = NOW) -> Values:
    """By sample and label."""
    elastic = FakeElastic()
    elastic.state, elastic.batch = found, batch
    values: Values = {}
    for family in families(elastic, now):
        for each in family.samples:
            name = each.name.removeprefix("subord_elastic_")
            values.setdefault(name, {})["".join(each.labels.values())] = each.value
    return values


def test_the_stages_are_those_of_the_service() -> None:
    assert tuple(Stage) == state.STAGES
    assert state.SERVING == Stage.SERVING


def test_nodes_are_counted_by_stage_with_the_longest_time() -> None:
    found = values_of(FIGURES)
    assert {stage: count for stage, count in found["nodes"].items() if count} == {
        "serving": 3 + 3,
        "mounting": 2,
        "unknown": 1,
    }
    assert {stage: seconds for stage, seconds in found["stage_seconds"].items() if seconds} == {
        "mounting": 400,
        "unknown": 100,
    }
    assert found["nodes"].keys() - {"serving"} == found["stage_seconds"].keys()


def test_the_numbers_of_the_last_poll_are_shown() -> None:
    found = values_of(FIGURES)
    single = {name: each[""] for name, each in found.items() if "" in each}
    assert single == {
        "size": 6,
        "size_min": 2,
        "size_max": 9,
        "size_needed": 7,
        "idle_seconds": 700,
        "nodes_added_total": 11,
        "nodes_removed_total": 5,
        "nodes_undone_total": 2,
        "slots": 12,
        "slots_free": 4,
        "oldest_job_wait_seconds": 930.5,
        "blocked_seconds": 45,
        "poll_failed": 0,
        "poll_age_seconds": 20,
    }
    assert found["jobs"] == {"queued": 12, "running": 8}
    assert found["state"] == {word: float(word == state.MANAGES) for word in state.WORDS}


def test_without_jobs_and_nodes_all_is_nought() -> None:
    found = values_of(State(word=state.MANAGES, at=NOW, max_nodes=4, oldest_s=-inf))
    assert found["oldest_job_wait_seconds"] == found["blocked_seconds"] == found["idle_seconds"] == {"": 0}
    assert not any(found["nodes"].values())


def test_when_the_agent_ends_its_figures_grow_old() -> None:
    found = values_of(msgspec.structs.replace(FIGURES, word=state.NO_AGENT), now=NOW + 600)
    assert found["poll_age_seconds"] == {"": 620}
    assert found["blocked_seconds"] == {"": 645}
    assert found["state"][state.NO_AGENT] == 1


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    found = values_of(FIGURES, now=NOW - 3600)
    assert min(value for each in found.values() for value in each.values()) == 0


def test_a_poll_that_fails_is_told_before_the_first_that_succeeds() -> None:
    found = values_of(State(word=state.MANAGES, max_nodes=4, fault="qstat: cannot reach the qmaster"))
    assert found["poll_failed"] == {"": 1}
    assert "poll_age_seconds" not in found


@pytest.mark.parametrize("word", [state.NONE, state.OTHER_NODE])
def test_another_node_shows_nothing(word: str) -> None:
    assert values_of(State(word=word)) == {}
    assert values_of(msgspec.structs.replace(FIGURES, word=word)) == {}


@pytest.mark.parametrize("word", [state.STARTING, state.NO_AGENT, state.REFUSED, state.OFF])
def test_without_figures_the_state_is_shown_where_the_queue_is(word: str) -> None:
    assert values_of(State(word=word)).keys() == {"state"}
    assert values_of(State(word=word), batch="") == {}


def test_a_node_that_should_manage_and_cannot_shows_its_state() -> None:
    assert values_of(State(word=state.FAILED), batch="")["state"][state.FAILED] == 1


async def test_all_families_are_scraped() -> None:
    node = World().node(1)
    assert elastic_families(await of(node)) == {}
    node.elastic.state = FIGURES
    assert elastic_families(await of(node)) == OF_ELASTIC


async def of(node: FakeNode) -> str:
    return (await scraped(node))[0]


def elastic_families(text: str) -> dict[str, str]:
    return {
        each.name: each.type
        for each in text_string_to_metric_families(text)
        if each.name.startswith("subord_elastic")
    }
