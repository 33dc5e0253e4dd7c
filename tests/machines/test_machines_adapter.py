"""What libvirt has, in the words of the model: each state, stage and limit."""

from __future__ import annotations

from typing import Any

import pytest
from loops import over

from subord.config.schema import MachinesConfig
from subord.services.machines.model import Capacity, Doing, Machine, Need, State
from subord.services.machines.power import records
from subord.services.machines.power.records import Found, Hardware, Stage
from subord.services.machines.serving.adapter import (
    Part,
    capacity_of,
    larger,
    machine_of,
    ours,
    server_of,
    template_need,
)
from tests.machines.tables import PLAN, SMALL, kind, plan

HARDWARE = Hardware(16, 32768, 2400, ())
DISKY = kind(SMALL, disk_mb=500)


def found(name: str = "m", **changes: Any) -> Found:
    """Off, of the type small."""
    given = {"name": name, "state": records.State.OFF, "type": SMALL.name, **changes}
    return Found(id="1", word="", cores=2, memory=3000, disk=7000, **given)


def part(**changes: Any) -> Part:
    return Part("10.0.0.7", MachinesConfig(uri="test:///default", **changes), PLAN)


@over(
    ("changes", "expected"),
    [
        ({}, Capacity(16, 31744, 0, 64)),
        ({"reserve_mb": 0, "slots": 3}, Capacity(16, 32768, 0, 3)),
        ({"reserve_mb": 40000}, Capacity(16, 0, 0, 64)),
        ({"cores": 12, "disk_mb": 9000}, Capacity(12, 31744, 9000, 64)),
    ],
)
def test_the_capacity_of_a_server(changes: dict[str, Any], expected: Capacity) -> None:
    assert capacity_of(HARDWARE, MachinesConfig(**changes)) == expected


STAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "off": ({}, {}),
    "on": ({"state": records.State.ON}, {"state": State.ON}),
    "paused": ({"state": records.State.PAUSED}, {"state": State.PAUSED}),
    "unknown": ({"state": records.State.UNKNOWN}, {"state": State.UNKNOWN}),
    "a clone that was interrupted": ({"stage": Stage.CLONING}, {"doing": Doing.DELETING}),
    "partly deleted": ({"stage": Stage.DELETING}, {"doing": Doing.DELETING}),
    "leaving": ({"stage": Stage.LEAVING, "peer": "b"}, {"given_to": "b"}),
    "arriving": ({"stage": Stage.ARRIVING, "peer": "b"}, {"came_from": "b"}),
    "of another release": ({"stage": Stage.OTHER}, {"state": State.UNKNOWN}),
    "not ours": ({"type": ""}, {"type": ""}),
    "given, and on by hand": (
        {"stage": Stage.LEAVING, "peer": "b", "state": records.State.ON},
        {"state": State.ON, "given_to": "b"},
    ),
}


@pytest.mark.parametrize(("there", "expected"), STAGES.values(), ids=STAGES)
def test_the_states_and_stages_of_a_machine(there: dict[str, Any], expected: dict[str, Any]) -> None:
    plain = Machine("m", Need(2, 3000, 0), type=SMALL.name)
    assert machine_of(found(**there), part()) == plain._replace(**expected)


def test_each_state_and_stage_of_libvirt_has_its_words() -> None:
    """One that is added there is added here."""
    for state in records.State:
        assert machine_of(found(state=state), part()).state.value == state.value
    for stage in Stage:
        assert machine_of(found(stage=stage, peer="b"), part()).is_still is (stage == Stage.WHOLE)


@over(
    ("changes", "there", "expected"),
    [
        ({}, {}, 0),
        ({}, {"type": ""}, 0),
        ({"disk_mb": 9000}, {}, SMALL.disk_mb),
        ({"disk_mb": 9000}, {"type": ""}, 7000),
        ({"disk_mb": 9000}, {"type": "gone"}, 7000),
    ],
)
def test_what_counts_on_the_local_disk(changes: dict[str, Any], there: dict[str, Any], expected: int) -> None:
    """Images of our machines are in the store; a server without local disk counts none."""
    assert machine_of(found(**there), part(**changes)).need.disk == expected


def test_a_machine_needs_what_libvirt_gives_it() -> None:
    assert SMALL.need != Need(2, 3000, 0)
    assert machine_of(found(), part()).need == Need(2, 3000, 0)


def test_what_is_under_way_counts() -> None:
    works = {
        "m": Machine("m", SMALL.need, type=SMALL.name, doing=Doing.STARTING),
        "n": Machine("n", SMALL.need, type=SMALL.name, doing=Doing.CLONING),
        "p": Machine("p", SMALL.need, type=SMALL.name, doing=Doing.STARTING),
        "gone": Machine("gone", SMALL.need, type=SMALL.name, doing=Doing.STOPPING),
    }
    server = server_of(HARDWARE, [found(), found("o")], part(mhz=3000), works, since=lambda _: 7.0)
    assert {each.name: each.doing for each in server.machines} == {
        "m": Doing.STARTING,
        "o": None,
        "n": Doing.CLONING,
        "p": Doing.STARTING,
    }
    assert {each.since for each in server.machines} == {7.0}
    assert (server.name, server.mhz, server.is_drained) == ("10.0.0.7", 3000, False)
    assert [each.name for each in server.machines if each.is_counted] == ["m", "n", "p"]
    assert server_of(HARDWARE, [], part(), {}, is_drained=True).is_drained


def test_machines_that_the_plan_leaves_alone() -> None:
    always = Part("s", MachinesConfig(), plan(always_on=("m",)))
    assert machine_of(found(), always).always_on
    assert not machine_of(found("n"), always).always_on
    assert ours(machine_of(found(type="gone"), part()), PLAN).type == ""
    assert ours(machine_of(found(), part()), PLAN).type == SMALL.name


def test_a_clone_takes_what_its_template_takes() -> None:
    server = server_of(HARDWARE, [found("alma", type="")], part(), {})
    assert template_need("alma", server) == Need(2, 3000, 0)
    assert template_need("rocky", server) == Need(0, 0, 0)
    assert larger(Need(1, 9000, 5), Need(2, 3000, 0)) == Need(2, 9000, 5)
