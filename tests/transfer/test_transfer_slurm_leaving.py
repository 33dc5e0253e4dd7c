"""Jobs of Slurm that leave: what looks show, what a job needs, how it goes back, and the files of setup."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from said_commands import SaidCommands

from subord.services.batch.records import Refused, Unavailable
from subord.services.batch.running import Ran
from subord.services.transfer.cells.interface import Back, Being, Leaving, Look, Submitted
from subord.services.transfer.cells.slurm import adapter
from subord.services.transfer.cells.slurm.adapter import SlurmCell
from subord.services.transfer.cells.slurm.describing import specs_in
from subord.services.transfer.cells.slurm.looking import ENDING_S, seen_in
from subord.services.transfer.cells.slurm.settings import Settings, cell_lines, files, printed
from subord.services.transfer.home import ABSENT_S
from subord.services.transfer.jobs import Spec, Wanted
from subord.services.transfer.methods import of_slurm
from subord.services.transfer.states import HomeState
from tests.transfer.test_transfer_sides import Pair, abroad

NOW = 1_795_718_000
OWN = Settings("head", "/run/agent", ("/usr/bin/python3", "-I"), ("transfer", "big"), slots=12)


def job(**changed: Any) -> dict[str, Any]:
    plain = {"job_id": 7, "job_state": "RUNNING", "user_name": "ann", "partition": "transfer", "nodes": "transfer"}
    return plain | {"submit_time": NOW, "start_time": NOW, "restart_cnt": 0} | changed


def text(*jobs: dict[str, Any]) -> str:
    return json.dumps({"jobs": jobs, "errors": []})


def look(*jobs: dict[str, Any]) -> Look:
    return seen_in(text(*jobs), ("transfer",), float(NOW)).look


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({}, Leaving("7", 0, user="ann")),
        ({"job_state": "SUSPENDED"}, Leaving("7", 0, is_suspended=True, user="ann")),
        ({"array_job_id": 5, "array_task_id": 3}, Leaving("5", 3, user="ann")),
        ({"job_state": "COMPLETING"}, Leaving("7", 0, is_ending=True, user="ann")),
        ({"job_state": "COMPLETING", "restart_cnt": 1}, None),
        ({"job_state": "CANCELLED", "end_time": NOW - 1}, Leaving("7", 0, is_ending=True, user="ann")),
        ({"job_state": "NODE_FAIL", "end_time": NOW - 1}, Leaving("7", 0, is_ending=True, user="ann")),
        ({"job_state": "CANCELLED", "end_time": NOW - ENDING_S}, None),
        ({"job_state": "CANCELLED", "end_time": NOW - 1, "nodes": ""}, None),
        ({"job_state": "PENDING", "nodes": ""}, None),
        ({"partition": "batch"}, None),
        ({"comment": "sb.home.7.0.1"}, None),
    ],
)
def test_what_a_look_shows_of_jobs_that_leave(changed: dict[str, Any], shown: Leaving | None) -> None:
    assert look(job(**changed)).leaving == (() if shown is None else (shown,))


@pytest.mark.parametrize(
    ("changed", "is_again", "is_bound"),
    [
        ({"restart_cnt": 1, "state_reason": "JobHeldAdmin"}, True, True),
        ({"restart_cnt": 1, "state_reason": "JobHeldUser"}, True, False),
        ({"restart_cnt": 0, "state_reason": "JobHeldAdmin"}, False, False),
        ({"restart_cnt": 1, "state_reason": "JobHeldAdmin", "partition": "batch"}, False, False),
        ({"restart_cnt": 1, "state_reason": "JobHeldAdmin", "job_state": "COMPLETING"}, True, False),
    ],
)
def test_jobs_that_start_again(changed: dict[str, Any], is_again: bool, is_bound: bool) -> None:
    found = look(job(**({"job_state": "PENDING", "partition": "batch,transfer", "nodes": ""} | changed)))
    assert (found.restarting, found.bound) == ((("7", 0),) * is_again, (("7", 0),) * is_bound)


@pytest.mark.parametrize(
    ("changed", "is_loose"),
    [
        ({"priority": 0, "state_reason": "JobHeldAdmin"}, False),
        ({"priority": 4294901755}, True),
        ({"priority": 4294901755, "job_state": "SUSPENDED"}, True),
        ({"priority": 4294901755, "job_state": "CANCELLED", "end_time": NOW - 1}, False),
        ({"priority": 4294901755, "partition": "batch"}, False),
        ({}, False),
    ],
)
def test_jobs_that_run_without_a_hold(changed: dict[str, Any], is_loose: bool) -> None:
    assert look(job(**changed)).loose == (("7", 0),) * is_loose


WAITS = {"job_state": "PENDING", "partition": "batch,transfer", "nodes": "", "priority": 9}
"""What slurmctld shows of a job after its own death."""


@pytest.mark.parametrize(("restarts", "wanted"), [(1, Wanted.RUN), (0, Wanted.DELETED)])
def test_the_limit_of_a_start_at_home_that_was_not_written_down(restarts: int, wanted: Wanted) -> None:
    """slurmctld has died within five seconds after the start, with the hold, and slurmd has ended the starter. Such a
    job is like one that has never started: nothing binds it, so it may start in `batch` until the attempt abroad is
    deleted. If the start was written down, its next starter goes on."""
    pair = Pair()
    key = abroad(pair, "7")
    pair.home.leave(key, 10.0)
    for began in (15.0, 10.0 + ABSENT_S):
        seen = look(job(**WAITS, restart_cnt=restarts))
        pair.home.looked(seen.leaving, began, seen.restarting, seen.loose)
        assert pair.home.bonds() == ([], [])
        assert pair.home.desk.records[key].wanted == (Wanted.RUN if began == 15.0 else wanted)


def test_the_limit_of_a_start_abroad_that_was_not_written_down() -> None:
    """slurmctld has died likewise, and starts the job again: the other side only sees that it waits once more, and
    tells the end of the second run."""
    pair = Pair()
    key = abroad(pair, "7")
    pair.away.submitted(key, Submitted("21"), pair.now)
    own = {"job_id": 21, "partition": "batch", "comment": key.mark, "user_name": "ada"}
    for state in ("PENDING", "RUNNING", "PENDING", "RUNNING"):
        pair.now += 5.0
        seen = look(job(**own, job_state=state))
        pair.away.looked(seen, pair.now, pair.now)
        due = pair.away.due(pair.now, 9)
        assert (due.submits, due.deeds, due.searches) == ((), (), ())
        assert pair.away.book.records[key].being == (Being.QUEUED if state == "PENDING" else Being.RUNNING)
    pair.exchange()
    assert pair.home.desk.records[key].state == HomeState.ABROAD


def test_a_job_that_can_only_leave_does_not_wait_for_this_cluster() -> None:
    waits = {"job_state": "PENDING", "state_reason": "Resources", "nodes": ""}
    assert look(job(**waits)).pending == 0
    assert look(job(**waits, partition="batch,transfer")).pending == 1


def test_what_a_job_needs() -> None:
    needs = job(
        name="a b",
        tasks=4,
        max_nodes=1,
        cpus_per_task=2,
        time_limit=90,
        memory_per_cpu=500,
        features="big",
        requeue=True,
    ) | {"tres_per_node": "gres:gpu:2", "current_working_directory": "/d", "licenses": "matlab"}
    other = job(job_id=8, tasks=4, time_limit=365 * 24 * 60, memory_per_node=100)
    found = specs_in(text(needs, other, job(job_id=9)), {"7", "8"})
    asked = (("time", "90"), ("mem-per-cpu", "500M"), ("cpus-per-task", "2"), ("constraint", "big"))
    first = Spec(user="ann", name="a b", script="", directory="/d", parallel="node", slots=4, may_rerun=True)
    second = Spec(user="ann", name="", script="", requests=(("mem", "100M"),), parallel="tasks", slots=4)
    assert found.keys() == {"7", "8"}
    assert found["8"] == second
    spec = found["7"]
    assert isinstance(spec, Spec)
    assert spec.requests == (*asked, ("gres", "gpu:2"), ("licenses", "matlab"))
    assert (spec.directory, spec.parallel, spec.slots, spec.may_rerun) == ("/d", first.parallel, 4, True)


@pytest.mark.parametrize(
    "changed",
    [{"batch_flag": False}, {"het_job_id": 6}, {"resv_name": "r"}, {"comment": "sb.home.7.0.1"}, {"name": "x" * 300}],
)
def test_jobs_that_cannot_be_told_of(changed: dict[str, Any]) -> None:
    assert isinstance(specs_in(text(job(**changed)), {"7"})["7"], Refused)


# -- deeds ----------------------------------------------------------------------------------------------------------


def cell(**answers: Any) -> tuple[SlurmCell, SaidCommands]:
    said = SaidCommands({name.replace("_", " "): answer for name, answer in answers.items()})
    return SlurmCell(said, ("transfer",)), said


async def test_jobs_are_held_while_they_run() -> None:
    harmless = Ran(1, b"", "Job is no longer pending execution for job 7")
    own, said = cell(scontrol_hold=harmless, scontrol_release="", scontrol_update="")
    assert await own.bind([]) is None
    assert await own.bind([("7", 0), ("5", 3)]) is None
    assert await own.unbind([("7", 0)]) is None
    assert await own.recall(["7"], "transfer") is None
    assert said.ran == ["scontrol hold 7,5_3", "scontrol release 7", "scontrol update JobId=7 Partition=transfer"]


@pytest.mark.parametrize(
    ("back", "line"),
    [(Back.AGAIN, "scontrol requeue 7"), (Back.ERROR, "scontrol requeuehold State=SpecialExit 7")],
)
async def test_a_job_is_put_back(back: Back, line: str) -> None:
    own, said = cell(scontrol_requeue="", scontrol_requeuehold="")
    assert await own.put_back("7", 0, back) is None
    assert said.ran == [line]


async def test_a_job_that_stays_waits_for_other_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MOVE_S", 0.0)
    states = iter(("COMPLETING", "PENDING", "PENDING", "CANCELLED"))
    partitions = iter(("batch,transfer", "batch,transfer", "transfer", "transfer"))
    own, said = cell(
        scontrol_requeuehold="",
        scontrol_update="",
        scontrol_release="",
        **{"scontrol --oneliner show job": lambda: f"JobId=7 JobState={next(states)} Partition={next(partitions)}\n"},
        **{"scontrol --oneliner show partition": "PartitionName=transfer\nPartitionName=day Default=YES\n"},
    )
    assert await own.put_back("7", 0, Back.STAY) is None
    assert said.ran[-2:] == ["scontrol update JobId=7 Partition=batch", "scontrol release 7"]
    assert await own.put_back("7", 0, Back.STAY) is None
    assert said.ran[-2:] == ["scontrol update JobId=7 Partition=day", "scontrol release 7"]
    before = len(said.ran)
    assert await own.put_back("7", 0, Back.STAY) is None
    assert len(said.ran) == before + 2, "it has ended"


SILENT = Ran(1, b"", "Unable to contact slurm controller (connect failure)")


@pytest.mark.parametrize("silent", ["--oneliner show job", "--oneliner show partition", "update", "release"])
async def test_a_job_that_stays_is_moved_by_a_controller_that_was_silent(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """It is held, and its starter has ended, so nothing else would move it."""
    monkeypatch.setattr(adapter, "MOVE_S", 0.0)
    told = {"--oneliner show job": "JobId=7 JobState=PENDING Partition=transfer\n", "update": "", "release": ""}
    told |= {"--oneliner show partition": "PartitionName=day Default=YES\n"}
    answers = {word: iter((SILENT,) * (word == silent) + (said,) * 4) for word, said in told.items()}
    own, said = cell(
        scontrol_requeuehold="", **{f"scontrol {word}": lambda word=word: next(answers[word]) for word in answers}
    )
    assert await own.put_back("7", 0, Back.STAY) is None
    assert said.ran[-2:] == ["scontrol update JobId=7 Partition=day", "scontrol release 7"]


async def test_a_job_that_was_moved_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was released by a command whose answer was lost."""
    monkeypatch.setattr(adapter, "MOVE_S", 0.0)
    lines = iter(("JobState=PENDING Partition=transfer,batch\n", "JobState=RUNNING Partition=batch\n"))
    own, said = cell(
        scontrol_requeuehold="",
        scontrol_update="",
        scontrol_release=SILENT,
        **{"scontrol --oneliner show job": lambda: next(lines)},
    )
    assert await own.put_back("7", 0, Back.STAY) is None
    assert said.ran[-1] == "scontrol --oneliner show job 7"


async def test_a_job_that_stays_is_not_moved_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MOVE_S", 0.0)
    own, said = cell(scontrol_requeuehold="", scontrol=SILENT)
    assert isinstance(await own.put_back("7", 0, Back.STAY), Unavailable)
    assert len(said.ran) == 1 + adapter.MOVES


async def test_what_cannot_be_put_back() -> None:
    own, _ = cell(scontrol_requeue=Ran(1, b"", "Requested operation is presently disabled for job 7"))
    assert isinstance(await own.put_back("7", 0, Back.AGAIN), Refused)
    own, _ = cell(scontrol_requeue=Ran(1, b"", "Unable to contact slurm controller (connect failure)"))
    assert isinstance(await own.put_back("7", 0, Back.AGAIN), Unavailable)


async def test_a_foreign_job_does_not_go_on() -> None:
    own, said = cell(**{"id -u": "6001\n"})
    refused = await own.submit("sb.home.7.0.1", "ann", Spec(user="ann", name="n", script="", queue="transfer"))
    assert isinstance(refused, Refused)
    assert said.ran == ["id -u -- ann"]


# -- the files of setup, and the starter --------------------------------------------------------------------------


def test_the_lines_of_slurm_conf() -> None:
    assert cell_lines(OWN).splitlines() == [
        "NodeName=transfer NodeHostname=head Port=6830 CPUs=12 State=UNKNOWN",
        "PartitionName=transfer Nodes=transfer MaxNodes=1 PriorityTier=0 State=UP",
        "PartitionName=big Nodes=transfer MaxNodes=1 PriorityTier=0 State=UP",
    ]
    assert all(path in printed(OWN) for path in files(OWN))


@pytest.fixture
def own(tmp_path: Path) -> Settings:
    """With a job 7 in the directory of slurmd, whose starter prints what it is given."""
    (tmp_path / "job00007").mkdir()
    own = OWN._replace(folder=str(tmp_path), spool=str(tmp_path), program=("/bin/echo", "said"))
    for path, (content, mode) in files(own).items():
        Path(path).write_text(content)
        Path(path).chmod(mode)
    return own


def prolog(own: Settings, number: str) -> int:
    done = subprocess.run([f"{own.folder}/prolog"], env={"SLURM_JOB_ID": number}, check=False, timeout=60)
    return done.returncode


def test_the_prolog_puts_the_starter_before_the_script(own: Settings) -> None:
    script = Path(own.spool) / "job00007" / of_slurm.SCRIPT
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o700)
    assert prolog(own, "7") == 0
    assert script.read_text() == f"#!{own.folder}/start\n#!/bin/sh\nexit 7\n"
    done = subprocess.run([str(script), "a b"], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == f"said start --socket /run/agent {script} a b\n"
    assert prolog(own, "8") == 1, "a job without a script"
    (Path(own.folder) / "start").unlink()
    assert prolog(own, "7") != 0


def test_what_the_starter_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, output = tmp_path / of_slurm.SCRIPT, tmp_path / "out"
    script.write_text("#!/start\n#!/bin/sh\nexit 7\n")
    monkeypatch.setattr(of_slurm, "_path", lambda _: str(output))
    environment = {"SLURM_JOB_ID": "9", "SLURM_JOB_PARTITION": "transfer", "SLURM_NTASKS": "4", "MINE": "x,y"}
    environment |= {"SUBORD_JOB_LD_LIBRARY_PATH": "/l", "SLURM_RESTART_COUNT": "1", "HOSTNAME": "h", "a-b": "c"}
    assert of_slurm.is_of_slurm([str(script)], environment)
    assert not of_slurm.is_of_slurm(["/spool/job_scripts/9"], environment)
    found = of_slurm.request_of([str(script), "a b"], environment, None)
    assert (found.job, found.task, found.queue, found.slots, found.may_have_run) == ("9", 0, "transfer", 4, True)
    assert (found.script, found.arguments) == ("#!/bin/sh\nexit 7\n", ("a b",))
    assert (found.output, found.errors, found.obstacle) == (str(output), "", "")
    assert found.environment == (("MINE", "x,y"), ("LD_LIBRARY_PATH", "/l"))
    task = of_slurm.request_of(
        [str(script)], environment | {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}, None
    )
    assert (task.job, task.task, task.obstacle) == ("5", 3, "")


@pytest.mark.parametrize(
    "changed",
    [
        {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "0"},
        {"MINE": "x" * (16 * 1024 + 1)},
        {f"V{number}": "x" * 1000 for number in range(600)},
        {"MINE": "\udcff"},
    ],
    ids=["task 0", "a word", "all", "no UTF-8"],
)
def test_what_has_no_room_in_a_message_stays(changed: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / of_slurm.SCRIPT
    script.write_text("#!/start\nexit 7\n")
    found = of_slurm.request_of([str(script)], {"SLURM_JOB_ID": "9"} | changed, None)
    assert found.obstacle
    assert (found.script, found.environment) == ("", ())
