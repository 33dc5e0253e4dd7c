"""`subord transfer status` and `jobs`: what is shown, and the exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from loops import over

from subord.client import exit_codes
from subord.client.daemon import ask
from subord.client.errors import CommandError
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.transfer.state import FAILED, JOBS_MAX, NO_AGENT, OFF, OTHER_NODE, State
from subord.services.transfer.plan import Plan
from subord.services.transfer.telling import answering
from subord.services.transfer.telling.words import JOBS
from tests.api.served_node import fake_daemon
from tests.api.transfer_nodes import COMING, LEAVING, PLAN, STUCK, TransferNodes
from tests.cli.test_json import fitting
from tests.cli.test_transfer_command import LINES
from tests.cli.transfer_stage import Said, TransferStage

pytestmark = pytest.mark.usefixtures("still_clock")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[TransferStage]:
    stage = TransferStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        yield stage


def text_of(lines: list[str]) -> str:
    """In one line."""
    return " ".join(" ".join(lines).split())


# -- status ---------------------------------------------------------------------------------------------------------


def test_the_status(stage: TransferStage, capsys: Said) -> None:
    stage.transfer()
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.OK
    assert lines[0].endswith(": 10.0.0.1 is the transfer host of north")
    assert lines[2:] == [
        *LINES,
        "gridengine was seen 3.0 s ago: jobs that wait here: 1",
        "south has answered 1.5 s ago: jobs that wait there: 2; it takes 3 more",
        "south has asked 2.0 s ago",
        "jobs that leave: 1 abroad, 1 unknown; 2 methods wait for their end",
        "jobs that come: 1 suspended, limit 16; 4 more may come now",
        "permits not used yet: 1 of ours, 0 of the other cluster",
        "in this process: of ours 40 left, 38 ended",
        "state       nodes",
        "transfers       1  10.0.0.1",
        "other node     10  10.0.0.[2-11]",
        "11 of 11 answered in 0 ms",
    ]
    _, lines, _ = stage.type(capsys, "status", "--json")
    found = fitting("transfer-status", lines[0])
    assert found["host"]["link"]["messages"] == {"asked": 12}
    assert found["jobs"] == []


def test_a_transfer_host_that_says_as_the_others(stage: TransferStage, capsys: Said) -> None:
    """The others follow the plan."""
    stage.transfer()
    stage.say(State(word=OTHER_NODE, version=2), 1)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert [each for each in lines if each.startswith("other node")] == [
        "other node      1  10.0.0.1",
        "other node     10  10.0.0.[2-11]",
    ]
    assert "1 node does not follow the plan: other node" in lines


def test_files_of_jobs_stand_in_the_status(stage: TransferStage, capsys: Said) -> None:
    mib = 1 << 20
    stage.transfer(
        waiting={"jobs": 2, "files": 20, "bytes": 5 * mib, "results": 1},
        spool={"bytes": 12 * mib, "free": 30_000 * mib},
        directories=3,
        files={"sent": 120 * mib, "received": mib // 2},
        file_failures={"denied": 1, "disk": 2},
        file_fault="job 12: its files stay: the disk is full",
        file_fault_at=stage.now - 180,
    )
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.OK
    begin = next(number for number, line in enumerate(lines) if line.startswith("files that wait"))
    assert lines[begin : begin + 5] == [
        "files that wait to be fetched: of 2 jobs, 20 files, 5.0 MiB",
        "results that are to come: of 1 job",
        "directories of jobs that came: 3",
        "archives on the disk: 12.0 MiB, room for 30000.0 MiB more",
        "files since the agent has the plan: 120.0 MiB sent, 0.5 MiB received",
    ]
    said = "jobs whose files have not crossed: 1 denied, 2 disk; the last 3 min ago: job 12: its files stay: "
    assert f"{said}the disk is full" in text_of(lines)
    found = fitting("transfer-status", stage.type(capsys, "status", "--json")[1][0])["host"]["files"]
    assert (found["jobs_waiting"], found["spool_free_bytes"], found["fault_s"]) == (2, 30_000 * mib, 180.0)


def test_what_is_wrong_stands_in_the_status(stage: TransferStage, capsys: Said) -> None:
    stage.transfer(
        fault="qstat is silent",
        link_fault="south shows another certificate",
        listening_fault="the port is taken",
        refusals={"stranger": 3},
        refused_last="10.0.9.9: stranger",
        refused_at=stage.now - 180,
        at=0.0,
        heard_at=0.0,
        asked_at=0.0,
        pending=None,
        full=2,
        forged=1,
    )
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    for each in (
        "gridengine does not answer: qstat is silent",
        "gridengine was not seen yet",
        "south does not answer: south shows another certificate",
        "south cannot ask this cluster: the port is taken",
        "south has not answered yet",
        "south has not asked yet",
        "connections that were refused: 3 stranger; the last 3 min ago: 10.0.9.9: stranger",
        "2 jobs went back since there was no room for more records",
        "1 job here with a forged mark of a job of the other cluster: left alone",
    ):
        assert each in lines
    assert any(line.endswith("none may come now") for line in lines)
    link = fitting("transfer-status", stage.type(capsys, "status", "--json")[1][0])["host"]["link"]
    assert link["refused_s"] == 180.0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("sensor_fault", "the load sensor has not asked the agent for 60 s"),
        ("unit_fault", "install subord-agent-transfer.conf, which lacks IPAddressDeny="),
        ("key_fault", "transfer.key cannot be read"),
        ("listening_fault", "the port is taken"),
    ],
)
def test_a_fault_of_the_transfer_host_stands_in_the_status(
    stage: TransferStage, capsys: Said, fault: str, said: str
) -> None:
    stage.transfer(**{fault: said})
    code, lines, _ = stage.type(capsys, "status")
    _, document, _ = stage.type(capsys, "status", "--json")
    assert code == exit_codes.NOT_REACHED
    assert said in text_of(lines)
    host = fitting("transfer-status", document[0])["host"]
    assert (host | host["link"])[fault] == said


def test_a_host_where_no_job_is_to_come_need_not_listen(stage: TransferStage, capsys: Said) -> None:
    stage.transfer(listening_fault="this host does not listen for the other cluster", slots_max=0)
    assert stage.type(capsys, "status")[0] == exit_codes.OK


def test_a_host_that_fails(stage: TransferStage, capsys: Said) -> None:
    found = stage.transfer()
    stage.say(msgspec.structs.replace(found, word=FAILED, detail="the disk is full"), 1)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    text = text_of(lines)
    assert "failed: the agent cannot follow the plan; no job crosses: the disk is full; what follows is from" in text
    assert "1 node does not follow the plan: failed" in lines


def test_a_host_that_is_silent(stage: TransferStage, capsys: Said) -> None:
    stage.transfer()
    stage.world.gone.add(1)
    code, lines, _ = stage.type(capsys, "status", "--timeout", "1")
    assert code == exit_codes.NOT_REACHED
    assert "what crosses is not known: 10.0.0.1 has told nothing" in lines


def test_the_status_of_some_nodes_has_the_host(stage: TransferStage, capsys: Said) -> None:
    stage.transfer()
    code, lines, _ = stage.type(capsys, "status", "10.0.0.4")
    assert code == exit_codes.OK
    assert "gridengine was seen 3.0 s ago: jobs that wait here: 1" in lines
    assert "1 of 1 answered in 0 ms" in lines


def test_without_a_plan(stage: TransferStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[0][:15]) == (exit_codes.OK, "no job crosses:")
    assert "transfer.batch is configured on 10.0.0.1: gridengine" in lines
    stage.hold(3, Plan(host=0))
    stage.say(State(word=OFF, version=3))
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[0].endswith("transfer is off; jobs stay where they are")) == (exit_codes.OK, True)


def test_a_plan_of_another_release(stage: TransferStage, capsys: Said) -> None:
    stage.hold(3, b'{"host": 1, "colour": 2}')
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert "this release cannot follow it: the plan cannot be read" in text_of(lines)


def test_a_host_outside_the_network(stage: TransferStage, capsys: Said) -> None:
    stage.hold(3, msgspec.structs.replace(PLAN, host=100_000))
    _, lines, _ = stage.type(capsys, "status")
    assert "its host is number 100000, outside the network" in text_of(lines)


# -- jobs -----------------------------------------------------------------------------------------------------------


def test_the_jobs(stage: TransferStage, capsys: Said) -> None:
    stage.transfer()
    code, lines, _ = stage.type(capsys, "jobs")
    assert code == exit_codes.OK
    assert [line.split() for line in lines[:5]] == [
        ["way", "job", "user", "state", "there", "seen", "as", "since"],
        ["leaves", "9.3", "bob", "unknown", "990", "-", "33", "min"],
        ["its", "end", "is", "not", "known"],
        ["leaves", "12", "ann", "abroad", "1001", "running", "16", "min"],
        ["comes", "77", "ann", "here,", "to", "be", "suspended", "455", "suspended", "15", "min"],
    ]
    _, lines, _ = stage.type(capsys, "jobs", "--json", "--user", "ann", "--way", "leaves")
    assert [each["job"] for each in fitting("transfer-jobs", lines[0])["jobs"]] == ["12"]


def test_all_of_one_job(stage: TransferStage, capsys: Said) -> None:
    """By its number in this cluster, whatever its way; also when it is over."""
    used = {"host": "run1", "wall_s": 20.04, "cpu_s": 12.46, "memory_bytes": 300 << 20}
    ended = msgspec.structs.replace(LEAVING, job="8", state="ended", being="", end="status 7", is_over=True, **used)
    tasks = tuple(msgspec.structs.replace(ended, job="21", task=each) for each in (1, 2))
    stage.transfer(jobs=(LEAVING, COMING, ended, *tasks))
    code, lines, _ = stage.type(capsys, "jobs", "8")
    assert (code, lines[:-1]) == (
        exit_codes.OK,
        [
            "job 8 of ann leaves: ended, over",
            "  in the other cluster: 1001",
            "  seen as: status 7",
            "  started in the transfer queue: 16 min ago",
            "  ran on: run1",
            "  used: 12.5 s of processor time, 20.0 s from start to end, at most 300 MiB of virtual memory",
        ],
    )
    _, lines, _ = stage.type(capsys, "jobs", "455")
    assert lines[:2] == ["job 77 of ann comes: here, to be suspended", "  in this cluster: 455"]
    code, lines, _ = stage.type(capsys, "jobs", "77")
    assert (code, lines[0]) == (
        exit_codes.NOT_REACHED,
        "job 77 does not cross, and is none of the last ones that have: qstat -j 77, qacct -j 77",
    )
    _, lines, _ = stage.type(capsys, "jobs", "21.2", "--json")
    (found,) = fitting("transfer-jobs", lines[0])["jobs"]
    assert (found["job"], found["task"], found["cpu_s"], found["over"]) == ("21", 2, 12.46, True)
    _, lines, _ = stage.type(capsys, "jobs", "--json")
    assert [each["job"] for each in fitting("transfer-jobs", lines[0])["jobs"]] == ["12", "77"]
    _, lines, _ = stage.type(capsys, "jobs", "--ended", "--json")
    assert [each["job"] for each in fitting("transfer-jobs", lines[0])["jobs"]] == ["12", "77", "8", "21", "21"]


ALONE = "which alone are known by their numbers"
SHOWS = "but nothing of this task, user or way: `subord transfer jobs"


@over(
    ("words", "left_out", "line"),
    [
        (("77",), 0, "job 77 does not cross, and is none of the last ones that have: qstat -j 77, qacct -j 77"),
        (("8.7",), 0, "job 8.7 does not cross, and is none of the last ones that have: qstat -j 8, qacct -j 8 -t 7"),
        (("12", "-u", "bob"), 0, f"job 12 is known, {SHOWS} 12` shows it"),
        (("12", "--way", "comes"), 0, f"job 12 is known, {SHOWS} 12` shows it"),
        (("12.7",), 0, f"job 12 is known, {SHOWS} 12` shows it"),
        (
            ("77",),
            500,
            f"job 77 is none of the first jobs, {ALONE}; 500 jobs more cross",
        ),
    ],
)
def test_a_job_that_is_not_shown_is_not_said_to_be_none(
    words: tuple[str, ...], left_out: int, line: str, capsys: Said, tmp_path: Path
) -> None:
    """Its user would submit it again, and its work would be done twice."""
    stage = TransferStage(tmp_path)
    stage.transfer(left_out=left_out)
    with fake_daemon(stage.node) as stage.path:
        code, lines, _ = stage.type(capsys, "jobs", *words)
        assert (code, text_of(lines[:-1])) == (exit_codes.NOT_REACHED, line)
        assert stage.type(capsys, "jobs", "-u", "eve")[1][0] != "no job crosses now"


def test_a_host_with_slurm_names_its_commands(stage: TransferStage, capsys: Said) -> None:
    stage.transfer(batch="slurm")
    assert stage.type(capsys, "jobs", "8.7")[1][0].endswith("that have: squeue -j 8_7, sacct -j 8_7")


@over("word", [FAILED, NO_AGENT])
def test_a_host_that_does_not_follow_the_plan_denies_no_job(word: str, capsys: Said, tmp_path: Path) -> None:
    """Jobs that are away run on; a user who hears that there is none submits them again."""
    stage = TransferStage(tmp_path)
    found = stage.transfer(jobs=())
    with fake_daemon(stage.node) as stage.path:
        for state, words in (
            (State(word=word, version=2), f"which jobs cross is not known: 10.0.0.1 says: {word}: "),
            (msgspec.structs.replace(found, word=word), f"{word}: "),
            (msgspec.structs.replace(found, word=word, jobs=(STUCK,)), f"{word}: "),
        ):
            stage.say(state, 1)
            for number in ((), ("12",)):
                code, lines, _ = stage.type(capsys, "jobs", *number)
                text = text_of(lines)
                assert (code, text.startswith(words)) == (exit_codes.NOT_REACHED, True), text
                assert "no job crosses now" not in text
                assert "does not cross" not in text
        assert lines[-1] == "1 of 1 answered in 0 ms"
        assert any(line.startswith("leaves  9.3") for line in stage.type(capsys, "jobs")[1])


def test_wrong_questions_for_jobs_are_refused(stage: TransferStage) -> None:
    for query, words in (
        ("job=a.b", "?job= must be"),
        ("over=true", "?over= must be 0 or 1"),
        ("job=12&over=1", "?over= is for all jobs"),
    ):
        with pytest.raises(CommandError, match=re.escape(words)):
            ask(stage.path, f"/v1/transfer/jobs?{query}", 5.0)


@pytest.mark.parametrize("word", ["", "12.", "1-3", "12.x", "1" * 21, "\u0661", "7.\u0661"])
def test_what_is_no_number_of_a_job_is_refused(stage: TransferStage, capsys: Said, word: str) -> None:
    code, _, err = stage.type(capsys, "jobs", word)
    assert (code, "must be the number of a job, such as 4711 or 4711.3" in err) == (exit_codes.USAGE, True)


def test_no_jobs(stage: TransferStage, capsys: Said) -> None:
    assert stage.type(capsys, "jobs")[1][0].startswith("no job crosses: no plan was published")
    stage.transfer(jobs=())
    assert stage.type(capsys, "jobs")[1][0] == "no job crosses now"
    stage.world.gone.add(1)
    assert stage.type(capsys, "jobs", "--timeout", "1")[0] == exit_codes.NOT_REACHED


def test_what_has_no_room_is_counted() -> None:
    nodes = TransferNodes()
    jobs = tuple(msgspec.structs.replace(LEAVING, job=str(each), reason="x" * 200) for each in range(JOBS_MAX))
    nodes.transfer(jobs=jobs, left_out=5)
    host = nodes.world.known[1]
    told = answering.told(host, JOBS)  # type: ignore[arg-type]
    assert told.host is not None
    assert 0 < len(told.jobs) < JOBS_MAX
    assert told.host.left_out == 5 + JOBS_MAX - len(told.jobs)
    assert len(answering.encode(told)) <= RESULT_BYTES_MAX
    bare = answering.told(host)  # type: ignore[arg-type]
    assert bare.host is not None
    assert (bare.jobs, bare.host.left_out) == ((), 5 + JOBS_MAX)
    other = answering.told(nodes.world.known[2])  # type: ignore[arg-type]
    assert (other.word, other.host) == (OTHER_NODE, None)
