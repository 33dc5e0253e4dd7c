"""The answers of Slurm 22.05, as recorded from a real one, what a cell makes of others, and a real one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from batch_labs import SLOTS, Lab, slurm_lab
from said_commands import Answer, SaidCommands

from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.batch.running import Commands, Ran
from subord.services.batch.slurm.adapter import ENVIRONMENT
from subord.services.transfer.cells.choosing import cell_of
from subord.services.transfer.cells.interface import Being, Deed, Look, Sought, Submitted
from subord.services.transfer.cells.slurm import submitting
from subord.services.transfer.cells.slurm.adapter import SlurmCell
from subord.services.transfer.jobs import Key, Spec

RECORDED = Path(__file__).parent / "recorded"
SPEC = Spec(user="ann", name="n", script="exit 0\n", output="/dev/null", directory="/tmp")
MARK = "sb.home.7.0.1795715165000"
SILENT = Ran(1, b"", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
WAIT_S_MAX = 120.0


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def cell(answers: dict[str, Answer], *, is_verified: bool = False) -> tuple[SlurmCell, SaidCommands]:
    said = SaidCommands({"id -u": "6001\n"} | answers)
    return SlurmCell(said, is_verified=is_verified), said


def changed(job: int, **fields: object) -> str:
    """The recorded answer with other fields of one job."""
    found = json.loads(recorded("squeue-away.json"))
    for each in found["jobs"]:
        if each["job_id"] == job:
            each.update(fields)
    return json.dumps(found)


# -- recorded -----------------------------------------------------------------------------------------------------


async def test_foreign_jobs_are_found_by_their_comments() -> None:
    own, said = cell({"squeue": recorded("squeue-away.json")})
    look = await own.look()
    assert isinstance(look, Look)
    assert [(each.id, each.being, each.is_unstarted) for each in look.foreign] == [
        ("10", Being.SUSPENDED, False),
        ("16", Being.SUSPENDED, False),
    ]
    assert {each.owner for each in look.foreign} == {"ann"}
    assert said.ran == ["squeue --json"]


@pytest.mark.parametrize(
    ("fields", "being", "is_unstarted", "pending"),
    [
        ({"job_state": "PENDING", "state_reason": "JobHeldUser"}, Being.HELD, True, 0),
        ({"job_state": "PENDING", "state_reason": "Resources"}, Being.QUEUED, True, 1),
        ({"job_state": "PENDING", "state_reason": "Resources", "restart_cnt": 1}, Being.QUEUED, False, 1),
        ({"job_state": "PENDING", "state_reason": "BadConstraints"}, Being.ERROR, True, 0),
        ({"job_state": "COMPLETING"}, Being.ENDING, False, 0),
        ({"job_state": "NEW_STATE"}, Being.ERROR, False, 0),
    ],
)
async def test_states(fields: dict[str, object], being: Being, is_unstarted: bool, pending: int) -> None:
    own, _ = cell({"squeue": changed(10, **fields)})
    look = await own.look()
    assert isinstance(look, Look)
    (first,) = (each for each in look.foreign if each.id == "10")
    assert (first.being, first.is_unstarted, look.pending) == (being, is_unstarted, pending)
    assert bool(first.reason) == (being == Being.ERROR)


async def test_ends_are_those_that_the_controller_remembers() -> None:
    """A job that was cancelled before it started has the status 0 in Slurm."""
    text = recorded("squeue-ended.json")
    marks = {str(each["job_id"]): each["comment"] for each in json.loads(text)["jobs"]}
    own, said = cell({"squeue": text})
    found = await own.ended([Sought(mark, job) for job, mark in marks.items()])
    assert not isinstance(found, Unavailable)
    assert said.ran == ["squeue --json"]
    ends = {each.id: (each.end.status, each.end.signal, bool(each.end.failed), each.has_run) for each in found}
    assert ends == {
        "6": (5, 0, False, True),
        "8": (137, 9, False, True),
        "10": (137, 9, False, True),
        "12": (137, 9, False, False),
        "14": (1, 0, True, True),
        "16": (137, 9, False, True),
    }
    assert {each.owner for each in found} == {"ann"}
    (by_mark,) = await own.ended([Sought(marks["6"])])  # type: ignore[misc]
    assert by_mark.id == "6"


async def test_an_end_is_one_that_can_be_told() -> None:
    """The other side would heed no answer with it."""
    lines = "30|ann|all.q|h1|1|1795718100|1795718101|1795718102|300:0\n"
    lines += "31|ann|all.q|h1|1|1795718100|1795718101|1795718102|0:65\n"
    empty = json.dumps(json.loads(recorded("squeue-ended.json")) | {"jobs": []})
    own, said = cell({"squeue": empty, "sacct": lambda: "" if said.ran[-1].count("CANCELLED") else lines})
    found = await own.ended([Sought(MARK, "30"), Sought(MARK, "31")])
    assert not isinstance(found, Unavailable)
    assert [(each.end.status, each.end.signal) for each in found] == [(255, 0), (137, 9)]


async def test_ends_that_the_controller_has_forgotten_are_in_the_accounting() -> None:
    line = "30|ann|all.q|h1|1|1795718100|1795718101|1795718102|3:0\n"
    gone = "31|ann|all.q|None assigned|1|1795718100|Unknown|1795718102|0:0\n"
    empty = json.dumps(json.loads(recorded("squeue-ended.json")) | {"jobs": []})

    def told() -> str:
        return gone if said.ran[-1].count("CANCELLED") else line

    own, said = cell({"squeue": empty, "sacct": told})
    found = await own.ended([Sought(MARK, "30"), Sought(MARK, "31"), Sought(MARK)])
    assert not isinstance(found, Unavailable)
    assert [(each.id, each.end.status, each.end.signal, each.has_run) for each in found] == [
        ("30", 3, 0, True),
        ("31", 137, 9, False),
    ]
    said.answers["sacct"] = Ran(1, b"", "Slurm accounting storage is disabled")
    assert await own.ended([Sought(MARK, "30")]) == []


def test_the_words_of_a_submission() -> None:
    spec = Spec(
        user="ann",
        name="3 a",
        script="#SBATCH --mem=1\necho\n",
        arguments=("-h",),
        environment=(("A", "b"), ("B", "x,y"), ("SLURM_CONF", "/x")),
        directory="/d",
        output="/o%j",
        errors="/e",
        requests=(("mem", "1G"), ("time", "60")),
        queue="long",
        parallel="node",
        slots=4,
        may_rerun=True,
    )
    words = submitting.words_for("sb.home.7.5.1795715165000", spec)
    assert words == (
        *("env", "B=x,y", "sbatch", "--parsable", "--hold", "--ignore-pbs", "--comment=sb.home.7.5.1795715165000"),
        *("--job-name=3 a", "--requeue", "--chdir=/d", "--output=/o%%j", "--error=/e", "--partition=long"),
        *("--ntasks=4", "--nodes=1", "--mem=1G", "--time=60", "--array=5"),
        *("--export=PATH,HOME,USER,LOGNAME,SHELL,LANG,TZ,A=b,B", "/dev/stdin", "-h"),
    )
    assert submitting.script_of(spec) == "#!/bin/sh\n# SBATCH --mem=1\necho\n"
    assert submitting.script_of(Spec(user="a", name="n", script="#!/usr/bin/python3\n")) == "#!/usr/bin/python3\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", "Invalid partition"),
        ("allocation failure: Requested node configuration is not available", "node configuration"),
        ("runuser: user zoe does not exist or the user entry does not contain all the required fields", "zoe"),
    ],
)
async def test_what_can_never_run_here_is_refused(said: str, why: str) -> None:
    own, commands = cell({"runuser": Ran(1, b"", said)}, is_verified=True)
    refused = await own.submit(MARK, "zoe", SPEC)
    assert isinstance(refused, Refused)
    assert why in refused.reason
    assert "nothing was submitted" in refused.reason
    assert ["--test-only" in each for each in commands.ran] == [False, True]
    unknown = await own.submit(MARK, "zoe", Spec(user="z", name="n", script="", requests=(("h_rt", "1"),)))
    assert isinstance(unknown, Refused)
    assert "map it to one of" in unknown.reason


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (SILENT, Fault.SILENT),
        (Unavailable(Fault.MISSING, "squeue is not on this node"), Fault.MISSING),
        ("{", Fault.GARBLED),
        (json.dumps({"jobs": [], "errors": [{"description": "no"}]}), Fault.SILENT),
        (json.dumps({"jobs": [{"job_id": 1}]}), Fault.GARBLED),
    ],
    ids=["silent", "missing", "garbled", "empty", "other"],
)
async def test_what_is_no_answer_says_why(answer: Answer, fault: Fault) -> None:
    own, _ = cell({"squeue": answer, "scontrol": SILENT, "scancel": SILENT, "runuser": SILENT})
    for outcome in (await own.look(), await own.ended([Sought(MARK, "1")])):
        assert isinstance(outcome, Unavailable)
        assert outcome.fault == fault
    for deed in Deed:
        silent = await own.act(deed, ["1"])
        assert isinstance(silent, Unavailable)
        assert silent.fault == Fault.SILENT
    assert isinstance(await own.submit(MARK, "ann", SPEC), Unavailable)


@pytest.mark.parametrize("number", ["0\n", "999\n"])
async def test_nothing_is_submitted_as_an_account_of_the_system(number: str) -> None:
    own, said = cell({"id -u": number, "runuser": "17\n"}, is_verified=True)
    assert isinstance(await own.submit(MARK, "slurm", SPEC), Refused)
    assert said.ran == ["id -u -- slurm"]


def test_a_cell_has_the_name_of_its_batch_system() -> None:
    assert isinstance(cell_of("slurm"), SlurmCell)
    with pytest.raises(ValueError, match="no batch system is called 'torque'"):
        cell_of("torque")


# -- a real one ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with slurm_lab() as found:
        for host in SLOTS:
            found.serve(host)
        yield found


@pytest.fixture
def umask(lab: Lab) -> Iterator[None]:
    """As the unit of the agent has it. The daemons of the lab have another one."""
    before = os.umask(0o077)
    yield
    os.umask(before)


async def until(condition: Callable[[], Awaitable[object]], facts: list[Any]) -> None:
    with trio.move_on_after(WAIT_S_MAX):
        while not await condition():  # noqa: ASYNC110 - other processes make it true
            await trio.sleep(0.5)
        return
    pytest.fail(f"it never happened: {facts}")


@pytest.mark.slow
async def test_foreign_jobs_of_a_real_cell(lab: Lab, umask: None) -> None:
    own = SlurmCell(Commands(ENVIRONMENT, tuple(lab.room.words())))
    last: list[Any] = [None]

    async def beings() -> dict[str, Being]:
        look = await own.look()
        last[:] = [look]
        return {} if isinstance(look, Unavailable) else {each.id: each.being for each in look.foreign}

    async def submit(number: int, script: str, task: int = 0, **fields: Any) -> Sought:
        mark = Key("home", str(number), task, time.time_ns() // 1_000_000).mark
        submitted = await own.submit(
            mark, "ann", Spec(user="x", name="a b", script=script, directory="/tmp", **fields)
        )
        assert isinstance(submitted, Submitted), submitted
        return Sought(mark, submitted.id)

    output = lab.room.make("out", owner="ann") / "o%"
    array = await submit(
        1,
        '#SBATCH --partition=nosuch\necho "$SLURM_ARRAY_TASK_ID [$1][$A] $(umask)"; exit 5\n',
        task=5,
        arguments=("a b",),
        environment=(("A", "x,y'\""),),
        output=str(output),
    )
    killed = await submit(2, "kill -9 $$", output="/dev/null")
    long = await submit(3, "sleep 1000", output="/dev/null")
    waiting = await submit(4, "sleep 1000", output="/dev/null")
    for requests in ((("mem", "900G"),), (("constraint", "nosuch"),)):
        refused = await own.submit(MARK, "ann", Spec(user="x", name="n", script="", requests=requests))
        assert isinstance(refused, Refused), refused
    assert await beings() == dict.fromkeys([array.id, killed.id, long.id, waiting.id], Being.HELD)
    for _ in range(2):
        assert await own.act(Deed.RELEASE, [array.id, killed.id, long.id, "9999"]) is None
        assert await own.act(Deed.DELETE, [waiting.id, "9999"]) is None

    async def is_alone() -> bool:
        return await beings() == {long.id: Being.RUNNING}

    await until(is_alone, last)
    for deed, being in (
        (Deed.SUSPEND, Being.SUSPENDED),
        (Deed.RESUME, Being.RUNNING),
        (Deed.SUSPEND, Being.SUSPENDED),
    ):
        for _ in range(2):
            assert await own.act(deed, [long.id, array.id]) is None
        assert await beings() == {long.id: being}
    assert await own.act(Deed.DELETE, [long.id]) is None

    async def is_empty() -> bool:
        return await beings() == {}

    await until(is_empty, last)
    found = await own.ended([array, killed, long, waiting])
    assert not isinstance(found, Unavailable)
    assert {each.id: (each.end.status, each.end.signal, each.has_run) for each in found} == {
        array.id: (5, 0, True),
        killed.id: (137, 9, True),
        long.id: (137, 9, True),
        waiting.id: (137, 9, False),
    }
    assert output.read_text() == "5 [a b][x,y'\"] 0022\n"
