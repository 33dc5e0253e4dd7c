"""Nodes of Slurm's power saving (State=CLOUD), as recorded from a real Slurm 22.05, and what its adapter leaves.

The slurmctld had PrivateData=cloud: otherwise the nodes c2 and c5, which are powered down, were in no answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loops import over
from said_commands import SaidCommands

from subord.services.batch.records import Done, HostState, NewHost, Refused, Wanted
from subord.services.batch.running import Ran
from subord.services.batch.slurm.adapter import Slurm
from subord.services.batch.slurm.hosts import hosts_in, node_in, wanted_of

RECORDED = Path(__file__).parent / "recorded"
WANTED = {
    "c1": Wanted.START,
    "c2": Wanted.END,
    "c3": Wanted.END,
    "c4": Wanted.STAY,
    "c5": Wanted.END,
    "c6": Wanted.STAY,
    "c7": Wanted.STAY,
    "h1": Wanted.NOTHING,
}


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def test_what_slurm_wants_of_each_node() -> None:
    hosts = {each.name: each for each in hosts_in(recorded("sinfo-cloud.json"), "all.q")}
    assert {name: each.wanted for name, each in hosts.items()} == WANTED
    assert hosts["c1"].word == "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP"
    assert hosts["c1"].busy == 1, "the job that waits for it"
    assert hosts["c5"].word == "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"
    assert hosts["c5"].reason == "ResumeTimeout reached"
    assert hosts["c6"].word == "MIXED+CLOUD+POWER_DOWN", "it is powered down when its job has ended"
    usable = [name for name, each in hosts.items() if each.is_usable]
    assert usable == ["c4", "h1"]
    assert {name for name, each in hosts.items() if each.state == HostState.UP} == {"c4", "c7", "h1"}
    assert {each.slots for each in hosts.values()} == {2}
    assert hosts["c7"].is_drained


def test_a_node_that_has_not_reported_has_no_load() -> None:
    loads = {each.name: each.load for each in hosts_in(recorded("sinfo-cloud.json"), "all.q")}
    assert loads["c1"] is loads["c2"] is None
    assert loads["h1"] is not None
    assert loads["h1"] < 1000


@over(
    ("state", "flags", "wanted"),
    [
        ("idle", {"CLOUD", "POWERED_DOWN", "POWER_UP"}, Wanted.END),
        ("idle", {"CLOUD", "POWER_UP"}, Wanted.START),
        ("idle", {"CLOUD", "NOT_RESPONDING", "POWERING_UP"}, Wanted.START),
        ("allocated", {"CLOUD", "NOT_RESPONDING", "POWERING_UP"}, Wanted.START),
        ("down", {"CLOUD", "NOT_RESPONDING", "POWERING_UP"}, Wanted.END),
        ("down", {"CLOUD", "NOT_RESPONDING"}, Wanted.STAY),
        ("idle", {"CLOUD", "POWERING_DOWN"}, Wanted.END),
        ("down", {"CLOUD", "POWERING_DOWN"}, Wanted.END),
        ("idle", {"CLOUD", "POWERING_DOWN", "POWERING_UP"}, Wanted.END),
        ("mixed", {"CLOUD", "POWER_DOWN"}, Wanted.STAY),
        ("idle", {"POWERED_DOWN"}, Wanted.NOTHING),
        ("idle", set(), Wanted.NOTHING),
    ],
)
def test_states(state: str, flags: set[str], wanted: Wanted) -> None:
    assert wanted_of(state, frozenset(flags)) == wanted


def test_addresses() -> None:
    lines = recorded("scontrol-cloud.txt").splitlines()
    nodes = {node.name: node for line in lines if (node := node_in(line)) is not None}
    assert {name for name, each in nodes.items() if each.is_cloud} == WANTED.keys() - {"h1"}
    assert {name for name, each in nodes.items() if each.is_awaited} == {"c1"}
    assert (nodes["c1"].address, nodes["c1"].hostname) == ("c1", "c1")
    assert nodes["c4"].address.startswith("10.89.1.")


# -- the adapter ------------------------------------------------------------------------------------------------


class Cloud:
    """The recorded nodes; an update of an address is kept. `jobs`: on c4."""

    def __init__(self, *, jobs: bool = False, hidden: tuple[str, ...] = ()) -> None:
        self.lines = [
            line for line in recorded("scontrol-cloud.txt").splitlines() if line.split()[0][9:] not in hidden
        ]
        answer: dict[str, Any] = json.loads(recorded("sinfo-cloud.json"))
        for node in answer["nodes"]:
            node["alloc_cpus"] = int(node["name"] == "c1" or (jobs and node["name"] == "c4"))
        self.commands = SaidCommands(
            {
                "scontrol --future": lambda: "".join(f"{each}\n" for each in self.lines),
                "scontrol update": self._update,
                "sinfo": json.dumps(answer),
                "squeue": recorded("squeue-empty.json"),
            }
        )
        self.adapter = Slurm(self.commands, "all.q")

    def _update(self) -> str | Ran:
        words = dict(each.split("=") for each in self.commands.ran[-1].split()[2:])
        name = words.pop("NodeName")
        assert words.keys() == {"NodeAddr", "NodeHostName"}, "nothing else is changed"
        for number, line in enumerate(self.lines):
            if line.startswith(f"NodeName={name} "):
                changed = line.replace(f"NodeAddr={name}", f"NodeAddr={words['NodeAddr']}")
                self.lines[number] = changed.replace(f"NodeHostName={name}", f"NodeHostName={words['NodeHostName']}")
        return ""

    @property
    def changes(self) -> list[str]:
        return [each for each in self.commands.ran if each.split()[1] in ("create", "delete", "update")]


async def test_a_node_that_slurm_waits_for_gets_its_address_and_nothing_else() -> None:
    cloud = Cloud()
    new = NewHost("c1", 2, address="10.0.0.7", is_wanted=True)
    assert await cloud.adapter.add(new) == Done(is_changed=True)
    assert cloud.changes == ["scontrol update NodeName=c1 NodeAddr=10.0.0.7 NodeHostName=c1"]
    assert await cloud.adapter.add(new) == Done(is_changed=False)
    assert await cloud.adapter.add(NewHost("c1", 64)) == Done(is_changed=False), "slots are those of slurm.conf"


@pytest.mark.parametrize("name", ["c1", "c2", "c3", "c4", "c7"])
async def test_it_is_neither_drained_nor_resumed_nor_deleted(name: str) -> None:
    cloud = Cloud()
    for refused in (await cloud.adapter.drain(name), await cloud.adapter.undrain(name)):
        assert isinstance(refused, Refused)
        assert "State=CLOUD" in refused.reason
    assert await cloud.adapter.remove(name) == Done(is_changed=False)
    assert cloud.changes == []


async def test_a_node_with_a_job_is_not_removed() -> None:
    """The job that waits for c1 runs nowhere."""
    cloud = Cloud(jobs=True)
    refused = await cloud.adapter.remove("c4")
    assert isinstance(refused, Refused)
    assert refused.reason == "c4 has 1 used CPUs; nothing was changed: remove it when they have ended"
    assert await cloud.adapter.remove("c1") == Done(is_changed=False)
    assert cloud.changes == []


async def test_of_a_node_that_slurm_hides_none_is_created() -> None:
    cloud = Cloud(hidden=("c2",))
    refused = await cloud.adapter.add(NewHost("c2", 2, address="10.0.0.7", is_wanted=True))
    assert isinstance(refused, Refused)
    assert "Slurm has powered c2 down" in refused.reason
    assert await cloud.adapter.remove("c2") == Done(is_changed=False)
    assert cloud.changes == []
