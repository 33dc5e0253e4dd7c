"""What Prometheus sees of virtual machines: at the queue's node and at servers, with ages that grow when the agent
ends."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from subord.api.handlers.families.machines import MIB, families
from subord.runtime.machines import state
from subord.runtime.machines.state import Amount, KindCount, MachineState, ServerState, State, Totals
from tests.api.fake_node_api import FakeMachines, World
from tests.api.test_metrics import scraped

NOW = 1_800_000_000.0
ROUND = State(
    word=state.MANAGES,
    version=3,
    at=NOW - 20,
    round=9,
    waiting=12,
    running=8,
    unmet=5,
    pending=2,
    lacking=("deb",),
    store=100,
    store_most=200,
    headroom=Amount(4, 8, 0, 0),
    have=Amount(32, 64, 0, 128),
    used=Amount(30, 60, 0, 9),
    kinds=(
        KindCount(type="alma", on=7, off=2, open=3, busy=6, coming=1, left_alone=1),
        KindCount(type="", on=2),
    ),
    servers_all=9,
    unreachable=2,
    overbooked=1,
    totals=Totals(rounds=9, started=4, cloned=1, refused=3, lost=2, expired=1, messages=70, message_bytes=9000),
    ask_s=0.5,
    decide_s=0.25,
    order_s=2.0,
)
SERVER = ServerState(
    name="10.0.0.2",
    at=NOW - 30,
    have=Amount(16, 100, 0, 64),
    used=Amount(17, 90, 0, 3),
    is_drained=True,
    obeyed=11,
    refused=2,
    machines=(
        MachineState(name="alma-1", type="alma", state="on"),
        MachineState(name="alma-2", type="alma", state="off", fault="no image"),
        MachineState(name="ldap", state="on"),
        MachineState(name="old", state="paused"),
    ),
)
Values = dict[str, dict[str, float]]


def values_of(
    found: State, server: ServerState | None = None, *, batch: str = "gridengine", uri: str = "", now: float = NOW
) -> Values:
    """By sample and labels."""
    machines = FakeMachines()
    machines.state, machines.server, machines.batch, machines.uri = found, server, batch, uri
    values: Values = {}
    for family in families(machines, now):
        for each in family.samples:
            name = each.name.removeprefix("subord_machines").lstrip("_")
            values.setdefault(name, {})[" ".join(each.labels.values())] = each.value
    return values


# -- the queue's node -----------------------------------------------------------------------------------------------


def test_the_last_round_is_shown() -> None:
    found = values_of(ROUND)
    assert found["jobs"] == {"waiting": 12, "unmet": 5, "running": 8}
    assert found[""]["alma on"] == 7
    assert found[""]["alma left_alone"] == 1
    assert (found[""]["others on"], found[""]["others open"]) == (2, 0)
    assert found["servers"] == {"all": 9, "unreachable": 2, "overbooked": 1, "drained": 0}
    assert found["cores"] == {"have": 32, "used": 30, "headroom": 4}
    assert found["memory_bytes"] == {"have": 64 * MIB, "used": 60 * MIB, "headroom": 8 * MIB}
    assert found["images_bytes"] == {"used": 100 * MIB, "most": 200 * MIB}
    assert found["actions_total"]["started"] == 4
    assert found["actions_failed_total"] == {"refused": 3, "lost": 2, "expired": 1}
    assert found["round_seconds"] == {"ask": 0.5, "decide": 0.25, "order": 2}
    single = {name: each[""] for name, each in found.items() if name and "" in each}
    assert single == {
        "pending": 2,
        "templates_lacking": 1,
        "rounds_total": 9,
        "messages_total": 70,
        "message_bytes_total": 9000,
        "round_failed": 0,
        "round_hindered": 0,
        "round_age_seconds": 20,
    }
    assert found["state"] == {word: float(word == state.MANAGES) for word in state.WORDS}


def test_when_the_agent_ends_its_figures_grow_old() -> None:
    found = values_of(msgspec.structs.replace(ROUND, word=state.NO_AGENT), now=NOW + 600)
    assert found["round_age_seconds"] == {"": 620}
    assert found["state"][state.NO_AGENT] == 1


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    found = values_of(ROUND, SERVER, now=NOW - 3600)
    assert min(value for each in found.values() for value in each.values()) == 0


def test_what_hinders_a_first_round_is_told() -> None:
    found = values_of(State(word=state.MANAGES, hindrance="no server answers", fault="no qmaster"))
    assert (found["round_hindered"], found["round_failed"]) == ({"": 1}, {"": 1})
    assert "round_age_seconds" not in found


def test_what_only_the_batch_system_can_say_is_absent_before_it_does() -> None:
    found = values_of(msgspec.structs.replace(ROUND, is_unread=True))
    assert "jobs" not in found
    assert {name.split()[-1] for name in found[""]} == {"on", "off", "left_alone"}


@pytest.mark.parametrize("word", [state.NONE, state.OTHER_NODE, state.SERVES])
def test_another_node_shows_nothing(word: str) -> None:
    assert values_of(State(word=word)) == {}
    assert values_of(msgspec.structs.replace(ROUND, word=word)) == {}


@pytest.mark.parametrize("word", [state.STARTING, state.NO_AGENT, state.REFUSED, state.OFF])
def test_without_figures_the_state_is_shown_where_the_queue_is(word: str) -> None:
    assert values_of(State(word=word)).keys() == {"state"}
    assert values_of(State(word=word), batch="") == {}


# -- servers --------------------------------------------------------------------------------------------------------


def test_a_server_shows_its_machines() -> None:
    found = values_of(State(word=state.SERVES), SERVER, uri="qemu:///system")
    assert {name: count for name, count in found["server_machines"].items() if count} == {
        "on yes": 1,
        "off yes": 1,
        "on no": 1,
        "paused no": 1,
    }
    assert len(found["server_machines"]) == 2 * len(state.STATES)
    assert found["server_cores"] == {"have": 16, "used": 17}
    assert found["server_memory_bytes"] == {"have": 100 * MIB, "used": 90 * MIB}
    assert found["server_orders_total"] == {"obeyed": 11, "refused": 2}
    single = {name: each[""] for name, each in found.items() if "" in each}
    assert single == {
        "server_up": 1,
        "server_faults": 1,
        "server_overbooked": 1,
        "server_drained": 1,
        "server_age_seconds": 30,
    }
    assert "state" not in found


@pytest.mark.parametrize(
    ("have", "used", "expected"),
    [
        (Amount(1, 1, 1, 1), Amount(1, 1, 1, 1), 0),
        (Amount(1, 1, 1, 1), Amount(2, 1, 1, 1), 1),
        (Amount(1, 1, 1, 1), Amount(1, 2, 1, 1), 1),
        (Amount(1, 1, 1, 1), Amount(1, 1, 2, 1), 1),
        (Amount(1, 1, 1, 1), Amount(1, 1, 1, 2), 1),
    ],
)
def test_each_amount_may_be_overbooked(have: Amount, used: Amount, expected: int) -> None:
    server = msgspec.structs.replace(SERVER, have=have, used=used)
    assert values_of(State(word=state.SERVES), server)["server_overbooked"] == {"": expected}


def test_a_server_without_libvirt_is_down() -> None:
    fault = msgspec.structs.replace(SERVER, fault="libvirt cannot be reached")
    for server in (fault, msgspec.structs.replace(SERVER, at=0.0)):
        found = values_of(State(word=state.SERVES), server)
        assert found["server_up"] == {"": 0}
        assert "server_machines" not in found
    assert values_of(State(word=state.NO_AGENT), uri="qemu:///system", batch="") == {"server_up": {"": 0}}


async def test_all_families_are_scraped() -> None:
    node = World().node(1)
    assert not ours((await scraped(node))[0])
    node.machines.state, node.machines.server = ROUND, SERVER
    found = ours((await scraped(node))[0])
    assert len(found) == 29
    assert all(text for text in found.values())


def ours(text: str) -> dict[str, str]:
    return {
        each.name: each.documentation
        for each in text_string_to_metric_families(text)
        if each.name.startswith("subord_machines")
    }
