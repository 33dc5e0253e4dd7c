"""The answers of Slurm 22.05, as recorded from a real one, and what its adapter makes of those that are not whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loops import over
from said_commands import Answer, SaidCommands

from subord.services.batch.arrays import Expansion
from subord.services.batch.faults import AnswerError
from subord.services.batch.records import (
    Done,
    Fault,
    HostState,
    JobState,
    NewHost,
    Place,
    Refused,
    Unavailable,
    slots_of,
    tasks_of,
)
from subord.services.batch.running import Ran
from subord.services.batch.slurm import history
from subord.services.batch.slurm.adapter import Slurm
from subord.services.batch.slurm.answers import AllocatedNode, Core, Resources
from subord.services.batch.slurm.hosts import hosts_in, node_in
from subord.services.batch.slurm.queue import finished_in, jobs_in, places_of, state_of

RECORDED = Path(__file__).parent / "recorded"
DISABLED = Ran(1, b"", "Slurm accounting storage is disabled\n")
CONFIG = "MinJobAge               = 1 sec\n"
NODE = "NodeName={} CPUAlloc=0 CPUTot={} State={} Partitions=all.q CfgTRES=cpu=2"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def of_jobs(**changed: object) -> str:
    """The answer with one job: one that runs, with other values."""
    answer: dict[str, Any] = json.loads(recorded("squeue.json"))
    (job,) = (each for each in answer["jobs"] if each["job_id"] == 6)
    return json.dumps(answer | {"jobs": [job | changed]})


def test_jobs() -> None:
    jobs = jobs_in(recorded("squeue.json"))
    wide = next(job for job in jobs if job.id == "6")
    assert (wide.state, wide.slots, wide.queue, wide.owner) == (JobState.RUNNING, 5, "all.q", "ann")
    assert wide.places == (Place("h1", 2), Place("h2", 3))
    assert wide.name == 'a<b>&"c\n|é'
    assert (wide.submitted, wide.started) == (1795693615.0, 1795693616.0)
    assert ("mem", "500M") in wide.requests
    array = {job.task: job.state for job in jobs if job.id == "7"}
    running, held = JobState.RUNNING, JobState.HELD
    assert array == {1: running, 6: running, 11: running, 16: held}, "three may run at a time"
    assert {job.id: job.state for job in jobs if not job.occupies and job.id != "7"} == {
        "4": JobState.ERROR,
        "8": held,
        "9": held,
        "10": held,
        "11": JobState.QUEUED,
        "12": held,
    }
    both = next(job for job in jobs if job.id == "11")
    assert (both.slots, both.queues, both.may_use("all.q"), both.may_use("x")) == (
        50,
        ("all.q", "other.q"),
        True,
        False,
    )
    assert jobs_in(recorded("squeue-empty.json")) == []


def test_jobs_that_have_ended() -> None:
    found = {(each.id, each.task): each for each in finished_in(recorded("squeue.json"))}
    assert {key: (each.status, each.signal, each.slots, each.host) for key, each in found.items()} == {
        ("1", None): (3, 0, 2, "h1"),
        ("2", 4): (0, 0, 1, "h2"),
        ("2", 5): (0, 0, 1, "h2"),
        ("3", None): (137, 9, 1, "h2"),
        ("14", None): (0, 0, 1, ""),
    }
    assert found["14", None].started is None, "it was cancelled before"


@over(
    ("word", "reason", "description", "partitions", "state"),
    [
        ("PENDING", "Resources", "", 1, JobState.QUEUED),
        ("PENDING", "Priority", "", 1, JobState.QUEUED),
        ("PENDING", "None", "", 1, JobState.QUEUED),
        ("PENDING", "PartitionConfig", "", 1, JobState.QUEUED),
        ("PENDING", "ReqNodeNotAvail", "", 1, JobState.QUEUED),
        ("PENDING", "JobHeldUser", "", 1, JobState.HELD),
        ("PENDING", "JobHeldAdmin", "", 1, JobState.HELD),
        ("PENDING", "JobHeldAdmin", "launch failed requeued held", 1, JobState.ERROR),
        ("PENDING", "AssocGrpCpuLimit", "", 1, JobState.HELD),
        ("PENDING", "QOSMaxCpuPerUserLimit", "", 1, JobState.HELD),
        ("PENDING", "PartitionDown", "", 1, JobState.HELD),
        ("PENDING", "PartitionDown", "", 2, JobState.QUEUED),
        ("PENDING", "BadConstraints", "", 1, JobState.ERROR),
        ("PENDING", "DependencyNeverSatisfied", "", 1, JobState.ERROR),
        ("PENDING", "Dependency", "", 1, JobState.HELD),
        ("SUSPENDED", "None", "", 1, JobState.SUSPENDED),
        ("COMPLETING", "None", "", 1, JobState.ENDING),
        ("CONFIGURING", "None", "", 1, JobState.RUNNING),
        ("REQUEUE_HOLD", "None", "", 1, JobState.HELD),
        ("A_LATER_STATE", "None", "", 1, JobState.OTHER),
    ],
)
def test_states(word: str, reason: str, description: str, partitions: int, state: JobState) -> None:
    assert state_of(word, reason, description, partitions) == state


def test_a_job_that_ends_still_has_its_host() -> None:
    (job,) = jobs_in(of_jobs(job_state="COMPLETING"))
    assert (job.state, job.occupies) == (JobState.ENDING, True)
    assert finished_in(of_jobs(job_state="COMPLETING")) == []


def test_cores_have_several_cpus() -> None:
    def node(name: str, cores: int) -> AllocatedNode:
        return AllocatedNode(name, {"0": Core({str(each): "allocated" for each in range(cores)} | {"9": "idle"})})

    assert places_of(Resources((node("a", 1), node("b", 2))), 6) == (Place("a", 2), Place("b", 4))
    assert places_of(Resources((node("a", 0),)), 2) == (Place("a", 0),)


def test_tasks_beyond_the_bound_are_one_record() -> None:
    text = of_jobs(
        job_state="PENDING", array_job_id=6, array_task_string="1-100000:2%7,5", cpus=3, job_resources=None
    )
    jobs = jobs_in(text, Expansion(4))
    assert [(job.task, job.tasks) for job in jobs] == [(1, 1), (3, 1), (5, 1), (7, 1), (9, 49996)]
    assert (tasks_of(jobs), slots_of(jobs)) == (50000, 150000)


@over(
    "text",
    [
        "",
        "{",
        recorded("squeue.json")[:9000],
        "slurm_load_jobs error",
        '{"jobs": 3}',
        of_jobs(cpus={"set": True, "number": 5}),  # as later releases write it
        of_jobs(job_state="PENDING", array_task_string="1-x", array_task_id=None),
        recorded("squeue-silent.json"),
    ],
)
def test_an_answer_that_is_none(text: str) -> None:
    with pytest.raises(AnswerError):
        jobs_in(text)


def test_names_that_are_no_text() -> None:
    """squeue prints the bytes of users."""
    text = of_jobs(name="NAME").encode().replace(b"NAME", b'\xff\\u0001\\"')
    (job,) = jobs_in(Ran(0, text, "").text)
    assert job.name == '\ufffd\x01"'


def test_hosts() -> None:
    hosts = {each.name: each for each in hosts_in(recorded("sinfo.json"), "all.q")}
    assert {each.name: (each.slots, each.used, each.busy) for each in hosts.values()} == {
        "h1": (2, 2, 2),
        "h2": (4, 4, 4),
        "h3": (3, 3, 3),
    }
    assert (hosts["h1"].is_drained, hosts["h1"].is_usable) == (True, False)
    assert hosts["h1"].reason == "subord: a reason = with signs"
    assert (hosts["h2"].state, hosts["h2"].is_usable, hosts["h2"].memory) == (HostState.UP, True, 500 << 20)
    assert [each.slots for each in hosts_in(recorded("sinfo.json"), "none")] == [0, 0, 0]
    assert [each.slots for each in hosts_in(recorded("sinfo.json"), "")] == [2, 4, 3]


@over(
    ("state", "flags", "wanted"),
    [
        ("idle", [], HostState.UP),
        ("mixed", ["COMPLETING"], HostState.UP),
        ("idle", ["NOT_RESPONDING"], HostState.DOWN),
        ("idle", ["CLOUD", "POWERED_DOWN"], HostState.DOWN),
        ("down", [], HostState.DOWN),
        ("unknown", [], HostState.DOWN),
        ("idle", ["INVALID_REG", "DRAIN"], HostState.ERROR),
    ],
)
def test_states_of_hosts(state: str, flags: list[str], wanted: HostState) -> None:
    answer = json.loads(recorded("sinfo.json"))
    one = answer["nodes"][1] | {"state": state, "state_flags": flags, "alloc_cpus": 0}
    (host,) = hosts_in(json.dumps(answer | {"nodes": [one]}), "all.q")
    assert host.state == wanted
    assert host.busy == ("COMPLETING" in flags)


def test_nodes() -> None:
    lines = recorded("scontrol-nodes.txt").splitlines()
    nodes = {node.name: node for line in lines if (node := node_in(line)) is not None}
    assert {name: (node.cpus, node.is_dynamic, node.is_expected) for name, node in nodes.items()} == {
        "h1": (2, False, False),
        "h2": (4, False, False),
        "h3": (3, True, True),
    }
    drained = node_in(recorded("scontrol-nodes-drained.txt").splitlines()[0])
    assert drained is not None
    assert (drained.is_drained, drained.is_removed, drained.reason) == (True, False, "subord: a reason = with signs")
    starred = node_in(NODE.format("n1", 2, "IDLE*+DRAIN+POWERED_DOWN") + " Reason=subord: removed [root@1]")
    assert starred is not None
    assert (starred.is_drained, starred.is_removed) == (True, True)
    assert node_in("") is None


# -- the adapter ------------------------------------------------------------------------------------------------


async def test_an_empty_answer_of_a_silent_controller_is_no_empty_queue() -> None:
    """squeue and sinfo end with 0."""
    adapter = Slurm(SaidCommands({"squeue": recorded("squeue-silent.json"), "sinfo": recorded("sinfo-silent.json")}))
    for each in (await adapter.queue(), await adapter.hosts()):
        assert isinstance(each, Unavailable)
        assert (each.fault, "see that slurmctld runs" in each.reason) == (Fault.SILENT, True)
    errors = "Munge encode failed: Failed to access the socket"
    adapter = Slurm(SaidCommands({"squeue": Ran(0, recorded("squeue-silent.json").encode(), errors)}))
    answer = await adapter.queue()
    assert isinstance(answer, Unavailable)
    assert (answer.fault, "munged runs here" in answer.reason) == (Fault.RIGHTS, True)


async def test_an_answer_that_is_cut_names_the_release() -> None:
    adapter = Slurm(SaidCommands({"squeue": recorded("squeue.json")[:9000]}))
    answer = await adapter.queue()
    assert isinstance(answer, Unavailable)
    assert (answer.fault, "Slurm 22.05" in answer.reason) == (Fault.GARBLED, True)


async def test_without_accounting_slurmctld_is_asked() -> None:
    jobs = recorded("squeue.json")
    said: dict[str, Answer] = {"sacct": DISABLED, "squeue": jobs, "scontrol show config": CONFIG}
    answer = await Slurm(SaidCommands(said)).history(0.0)
    assert not isinstance(answer, Unavailable)
    assert answer.since > 1795693700, "it remembers a second"
    assert answer.jobs == ()
    with_age = said | {"scontrol show config": "MinJobAge = 999999999 sec\n"}
    answer = await Slurm(SaidCommands(with_age)).history(1795693613.5)
    assert not isinstance(answer, Unavailable)
    assert [each.id for each in answer.jobs] == ["14"]


async def test_accounts() -> None:
    text = recorded("sacct.txt")
    found = {(each.id, each.task): each for each in history.finished_in(text)}
    assert {key: (each.slots, each.status, each.signal, each.host) for key, each in found.items()} == {
        ("1", None): (5, 3, 0, "h1"),
        ("2", 4): (1, 0, 0, "h2"),
        ("2", 5): (1, 0, 0, "h1"),
        ("3", None): (1, 137, 9, "h1"),
        ("4", None): (1, 0, 0, ""),
        ("6", None): (1, 0, 0, "h2"),
    }
    assert found["4", None].started is None, "it was cancelled before"
    commands = SaidCommands({"sacct": text})
    answer = await Slurm(commands).history(1795695500.5)
    assert not isinstance(answer, Unavailable)
    assert {each.id for each in answer.jobs} == {"4", "6"}
    assert "--starttime=2026-11-26T12:18:20" in commands.ran[0]
    assert await Slurm(SaidCommands({"sacct": ""})).history(5.0) == ((), 5.0)
    for wrong in ("1|ann", text.replace("|0:9", "|killed"), text.replace("|5|", "|five|")):
        with pytest.raises(AnswerError):
            history.finished_in(wrong)


async def test_of_what_has_not_been_yet_there_is_no_history() -> None:
    """sacct refuses a begin after its end."""
    commands = SaidCommands({"sacct": ""})
    assert await Slurm(commands).history(4e9) == ((), 4e9)
    assert "--starttime=20961002" not in commands.ran[0].replace("-", "")


@over(
    ("nodes", "first"),
    [("h1", "h1"), ("h[1-2]", "h1"), ("h[07,9-11]", "h07"), ("a,b[1-2]", "a"), ("", "")],
)
def test_the_first_node_of_a_list(nodes: str, first: str) -> None:
    assert history.first_of(nodes) == first


@pytest.mark.slow
async def test_many_accounts_are_cut() -> None:
    line = "{}|ann|all.q|h1|1|1795693612|1795693613|{}|0:0\n"
    text = "".join(line.format(each, 1795693620 + each) for each in range(200_000))
    answer = await Slurm(SaidCommands({"sacct": text})).history(0.0)
    assert not isinstance(answer, Unavailable)
    assert answer.jobs[-1].id == "199999"
    assert answer.since == answer.jobs[0].ended > 1795693620


class Nodes:
    """What scontrol, sinfo and squeue say of nodes that a test changes."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.commands = SaidCommands(
            {
                "scontrol --future": lambda: "".join(f"{each}\n" for each in self.lines),
                "scontrol create": self._create,
                "scontrol delete": self._delete,
                "scontrol update": self._update,
                "sinfo": recorded("sinfo.json").replace('"alloc_cpus": 3', '"alloc_cpus": 0'),
                "squeue": recorded("squeue-empty.json"),
            }
        )
        self.adapter = Slurm(self.commands, "all.q")

    def _last(self) -> list[str]:
        return self.commands.ran[-1].split()

    def _create(self) -> str:
        values = dict(each.split("=", 1) for each in self._last()[2:])
        self.lines.append(NODE.format(values["NodeName"], values["CPUs"], "FUTURE+DYNAMIC_NORM"))
        return ""

    def _delete(self) -> str:
        self.lines = [each for each in self.lines if not each.startswith(self._last()[2] + " ")]
        return ""

    def _update(self) -> str:
        line = self.commands.ran[-1]
        drains = "State=DRAIN" in line
        reason = line.partition("Reason=")[2]
        name = line.split()[2]
        state = "FUTURE" if any("FUTURE" in each for each in self.lines) and "RESUME" not in line else "IDLE"
        self.lines = [
            NODE.format(name[9:], 2, state + "+DRAIN" * drains) + (f" Reason={reason} [root@1]" if drains else "")
            if each.startswith(name + " ")
            else each
            for each in self.lines
        ]
        return ""

    def changes(self) -> list[str]:
        return [each for each in self.commands.ran if each.split()[1] in ("create", "delete", "update")]


async def test_a_node_of_the_configuration_is_never_deleted() -> None:
    nodes = Nodes(NODE.format("n1", 2, "IDLE"))
    assert await nodes.adapter.remove("n1") == Done(is_changed=True)
    assert not any("delete" in each for each in nodes.changes())
    assert await nodes.adapter.remove("n1") == Done(is_changed=False)
    drained = await nodes.adapter.undrain("n1")
    assert isinstance(drained, Refused), "only add brings it back"
    assert await nodes.adapter.add(NewHost("n1", 2)) == Done(is_changed=True)
    assert nodes.changes()[-1] == "scontrol update NodeName=n1 State=RESUME"


async def test_a_node_that_is_expected_takes_other_slots() -> None:
    nodes = Nodes()
    assert await nodes.adapter.add(NewHost("n9", 2, 1 << 30)) == Done(is_changed=True)
    assert nodes.changes() == ["scontrol create NodeName=n9 CPUs=2 RealMemory=1024 State=FUTURE"]
    assert await nodes.adapter.add(NewHost("n9", 3)) == Done(is_changed=True)
    assert node_in(nodes.lines[0]) == node_in(NODE.format("n9", 3, "FUTURE+DYNAMIC_NORM"))


async def test_a_node_that_is_expected_is_drained() -> None:
    """With State=RESUME Slurm would take it for one that has come."""
    nodes = Nodes(NODE.format("n9", 2, "FUTURE+DYNAMIC_NORM"))
    assert [await nodes.adapter.drain("n9") for _ in range(2)] == [Done(is_changed=True), Done(is_changed=False)]
    assert [await nodes.adapter.undrain("n9") for _ in range(2)] == [Done(is_changed=True), Done(is_changed=False)]
    assert nodes.changes()[-1] == "scontrol update NodeName=n9 State=UNDRAIN"


async def test_what_does_not_fit_is_refused() -> None:
    nodes = Nodes(NODE.format("n1", 2, "IDLE"), NODE.format("n2", 2, "IDLE").replace("all.q", "other"))
    refused = await nodes.adapter.add(NewHost("n1", 8))
    assert isinstance(refused, Refused)
    assert "n1 has 2 CPUs in Slurm, not 8; nothing was changed: change slurm.conf" in refused.reason
    refused = await nodes.adapter.add(NewHost("n2", 2))
    assert isinstance(refused, Refused)
    assert "not in the partition all.q" in refused.reason
    assert nodes.changes() == []


async def test_a_job_that_starts_while_the_host_is_drained_stays() -> None:
    nodes = Nodes(NODE.format("h3", 3, "IDLE+DYNAMIC_NORM"))
    nodes.commands.answers["squeue"] = iter((recorded("squeue-empty.json"), recorded("squeue.json"))).__next__
    refused = await nodes.adapter.remove("h3")
    assert isinstance(refused, Refused)
    assert "jobs 13, 7; the host stays drained" in refused.reason
    assert len(nodes.changes()) == 1


async def test_too_many_nodes_are_named() -> None:
    nodes = Nodes()
    nodes.commands.answers["scontrol create"] = Ran(1, b"", "Error creating the node(s): No room for more nodes\n")
    outcome = await nodes.adapter.add(NewHost("n9", 2))
    assert isinstance(outcome, Unavailable)
    assert "set MaxNodeCount in slurm.conf" in outcome.reason
