"""What Prometheus sees of transfer queues: at the transfer host, with ages that grow when the agent ends."""

from __future__ import annotations

import msgspec
import pytest

from subord.api.handlers.families.transfer import COMING, LEAVING, families
from subord.config.schema import TransferConfig
from subord.runtime.transfer import state
from subord.runtime.transfer.state import State
from subord.services.transfer.cells.interface import Being
from subord.services.transfer.exchange import Stage
from subord.services.transfer.states import HomeState
from tests.api.fake_node_api import FakeTransfer

NOW = 1_800_000_000.0
HOST = State(
    word=state.TRANSFERS,
    version=3,
    cluster="north",
    peer="south",
    slots_max=16,
    at=NOW - 4,
    heard_at=NOW - 2,
    is_up=True,
    peer_pending=5,
    offer=2,
    pending=1,
    room=7,
    permits_given=3,
    permits_held=1,
    starters=6,
    leaving={"abroad": 5, "unknown": 1},
    coming={"running": 4},
    left={"left": 60},
    taken={"taken": 50, "ended": 46},
    full=2,
    forged=9,
    looks=90,
    calls_failed=3,
    messages={"asked": 40},
    bytes={"asked": 9000},
    refusals={"stranger": 8},
    failures={"slow": 1},
    files={"sent": 77},
    file_failures={"large": 2},
    directories=4,
)
Values = dict[str, dict[str, float]]


def values_of(found: State, *, batch: str = "gridengine", now: float = NOW) -> Values:
    """By sample and labels."""
    transfer = FakeTransfer()
    transfer.state, transfer.config = found, TransferConfig(batch="gridengine" if batch else "")
    values: Values = {}
    for family in families(transfer, now):
        for each in family.samples:
            name = each.name.removeprefix("subord_transfer_")
            values.setdefault(name, {})[" ".join(each.labels.values())] = each.value
    return values


def test_every_state_has_a_series_before_a_job_is_in_it() -> None:
    """The words are those of the service, which the API does not import."""
    assert sorted(LEAVING) == sorted(HomeState)
    assert sorted(COMING) == sorted({*Stage, *Being})


def test_what_crosses_is_shown() -> None:
    found = values_of(HOST)
    assert (found["leaving"]["abroad"], found["leaving"]["unknown"], found["leaving"]["waiting"]) == (5, 1, 0)
    assert (found["coming"]["running"], found["coming"]["held"]) == (4, 0)
    assert found["left_total"] == {"left": 60, "ended": 0, "returned": 0, "unknown": 0}
    assert found["taken_total"] == {"taken": 50, "ended": 46, "returned": 0, "unknown": 0}
    assert found["permits"] == {"given": 3, "held": 1}
    assert (found["messages_total"]["asked"], found["message_bytes_total"]["asked"]) == (40, 9000)
    assert (found["link_refused_total"]["stranger"], found["link_failed_total"]["slow"]) == (8, 1)
    assert found["file_bytes_total"] == {"sent": 77, "received": 0}
    assert (found["files_failed_total"]["large"], found["files_failed_total"]["disk"]) == (2, 0)
    single = {name: each[""] for name, each in found.items() if "" in each}
    assert single == {
        "full_total": 2,
        "forged": 9,
        "directories": 4,
        "coming_max": 16,
        "room": 7,
        "offer": 2,
        "pending": 1,
        "peer_pending": 5,
        "starters": 6,
        "link_up": 1,
        "polls_total": 90,
        "calls_failed_total": 3,
        "poll_failed": 0,
        "poll_age_seconds": 4,
        "link_fault": 0,
        "answer_age_seconds": 2,
    }
    assert found["state"] == {word: float(word == state.TRANSFERS) for word in state.WORDS}


def test_when_the_agent_ends_its_figures_grow_old() -> None:
    found = values_of(msgspec.structs.replace(HOST, word=state.NO_AGENT), now=NOW + 600)
    assert (found["poll_age_seconds"], found["answer_age_seconds"]) == ({"": 604}, {"": 602})
    assert found["state"][state.NO_AGENT] == 1


def test_what_is_not_known_is_left_out() -> None:
    found = values_of(State(word=state.TRANSFERS, cluster="north", fault="silent", link_fault="cut"))
    assert not {"pending", "peer_pending", "poll_age_seconds", "answer_age_seconds"} & found.keys()
    assert (found["poll_failed"], found["link_fault"]) == ({"": 1}, {"": 1})


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    found = values_of(HOST, now=NOW - 3600)
    assert min(value for each in found.values() for value in each.values()) == 0


@pytest.mark.parametrize("word", [state.NONE, state.OTHER_NODE])
def test_another_node_shows_nothing(word: str) -> None:
    assert values_of(State(word=word)) == {}
    assert values_of(msgspec.structs.replace(HOST, word=word)) == {}


@pytest.mark.parametrize("word", [state.STARTING, state.NO_AGENT, state.REFUSED, state.OFF])
def test_without_figures_the_state_is_shown_where_the_batch_system_is(word: str) -> None:
    assert values_of(State(word=word)).keys() == {"state"}
    assert values_of(State(word=word), batch="") == {}
