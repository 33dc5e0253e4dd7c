"""`subord machines status`, `list`, `why` and `drain`: what is shown, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from subord.client import exit_codes
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.machines.state import (
    ACTIONS_MAX,
    DONE,
    FAILED,
    JOBS_MAX,
    MACHINES_MAX,
    NO_AGENT,
    NOTES_MAX,
    OFF,
    OTHER_NODE,
    REFUSED,
    SERVERS_MAX,
    SERVES,
    Action,
    Amount,
    JobState,
    KindCount,
    MachineState,
    SeenServer,
    State,
    Totals,
)
from subord.services.machines.commands import draining
from subord.services.machines.plan import Plan
from subord.services.machines.task import Results, encode
from subord.services.machines.telling import answering
from subord.services.serving import signed_handlers
from tests.api.machines_nodes import SERVERS, TEMPLATES, MachinesNodes
from tests.api.served_node import fake_daemon
from tests.cli.machines_stage import MachinesStage, Said
from tests.cli.test_json import fitting

HEADING = "version 2 published by ann at 2026-11-26 08:33:20 UTC: 10.0.0.1 has the queues"
NEVER = "no machines are managed: no plan was published; `subord machines plan FILE` publishes one"
STOPPED = "the image of alma-4 is in no storage pool; nothing was started: define the pool"


pytestmark = pytest.mark.usefixtures("still_clock")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MachinesStage]:
    stage = MachinesStage(tmp_path)
    with fake_daemon(stage.node, orders=signed_handlers(stage.node)) as stage.path:
        yield stage


def work(stage: MachinesNodes) -> None:
    """Machines that run, come and stop; a job that gets none."""
    now = stage.now
    have, used = Amount(16, 30_720, 0, 64), Amount(12, 24_576, 0, 3)
    stage.manage(
        waiting=3,
        running=2,
        unmet=1,
        jobs=(
            JobState(id="4711", queue="long", type="alma", slots=4, why="the machine alma-2 is coming up"),
            JobState(id="4712", queue="long", type="alma", slots=1, tasks=8, why="the machine alma-1 is open for it"),
            JobState(id="4713", queue="debian", type="deb", why="waits until 1 core is free on 10.0.0.3"),
        ),
        actions=(
            Action(at=now - 34, kind="start", machine="alma-2", server="10.0.0.3", source="10.0.0.2", job="4711",
                   why="the machine alma-2 is started on 10.0.0.3"),
            Action(at=now - 64, kind="clone", machine="deb-1", server="10.0.0.2", job="4713", result=REFUSED,
                   why="the machine deb-1 is cloned from debian-12 on 10.0.0.2", reason="the storage is full"),
            Action(at=now - 94, kind="open", machine="alma-1", job="4712", result=DONE, why="a job waits for it"),
        ),
        pending=1,
        store=61_440,
        store_most=204_800,
        headroom=Amount(4, 8192, 0, 0),
        free=Amount(4, 6144, 0, 61),
        have=Amount(32, 61_440, 0, 128),
        used=Amount(20, 40_960, 0, 5),
        kinds=(
            KindCount(type="alma", on=2, off=1, open=1, busy=1, coming=1, cores=12, memory=24_576),
            KindCount(type="", on=1, cores=2, memory=4096),
        ),
        servers_all=2,
        unreachable=1,
        servers=(
            SeenServer(name="10.0.0.3", have=have, used=used, fault="it has not answered for 45 s"),
            SeenServer(name="10.0.0.2", have=have, used=used),
        ),
        notes=("the machine alma-9x on 10.0.0.2 is paused: it is left alone",),
        totals=Totals(rounds=12, started=3, refused=1, lost=2),
    )  # fmt: skip
    stage.has(
        2,
        MachineState(name="alma-1", type="alma", state="on", cores=4, memory=8192, since=now - 7300),
        MachineState(name="alma-4", type="alma", cores=4, memory=8192, since=now - 100, fault=STOPPED),
        MachineState(name="alma-2", type="alma", doing="moving", peer="10.0.0.3", cores=4, memory=8192),
        MachineState(name="ldap", state="on", cores=2, memory=4096, since=now - 900_000),
        *TEMPLATES,
    )
    stage.has(3, MachineState(name="big", state="paused", cores=24, memory=40_000), is_drained=True)


# -- status ---------------------------------------------------------------------------------------------------------


def test_a_queue_at_work(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    code, lines, err = stage.type(capsys, "status")
    assert (code, err) == (exit_codes.OK, "")
    assert lines[:-1] == [
        HEADING,
        "round 12 of gridengine, 4.2 s ago, the next in 26 s: 3 jobs wait, 1 of them gets nothing now; 2 run",
        "2 servers, 1 does not answer; 20 of 32 cores, 40 GiB of 60 GiB of memory, 5 of 128 slots are used; 4",
        "  cores, 8 GiB of memory are to stay free",
        "type    on  off  open  busy  coming  left alone  cores  memory",
        "alma     2    1     1     1       1           0     12  24 GiB",
        "others   1    0     0     0       0           0      2   4 GiB",
        "images take 60 GiB of 200 GiB",
        "10.0.0.3: it has not answered for 45 s",
        "note: the machine alma-9x on 10.0.0.2 is paused: it is left alone",
        "when       action                                   job   result",
        "34 s ago   start alma-2 on 10.0.0.3, from 10.0.0.2  4711  given",
        "  the machine alma-2 is started on 10.0.0.3",
        "1 min ago  clone deb-1 on 10.0.0.2                  4713  refused",
        "  the machine deb-1 is cloned from debian-12 on 10.0.0.2; the storage is full",
        "1 min ago  open alma-1                              4712  done",
        "in 12 rounds of this process: 3 started; 1 refused, 2 lost",
        "state       nodes",
        "manages         1  10.0.0.1",
        "serves          2  10.0.0.[2-3]",
        "other node      8  10.0.0.[4-11]",
    ]
    assert lines[-1].startswith("11 of 11 answered in ")


def test_the_json_of_status_fits(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    code, lines, _ = stage.type(capsys, "status", "--json")
    found = fitting("machines-status", lines[0])
    assert (code, found["servers"], found["round"]["unmet"], found["round"]["seen_s"]) == (exit_codes.OK, 2, 1, 4.2)
    assert [each["age_s"] for each in found["round"]["actions"]] == [34, 64, 94]


def test_before_there_was_a_plan(stage: MachinesStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[0]) == (exit_codes.OK, NEVER)
    assert lines[1:-1] == [
        "machines.batch is configured on 10.0.0.1: gridengine",
        "machines.uri is configured on 2 nodes",
        "state  nodes",
        "none      11  10.0.0.[1-11]",
    ]
    code, lines, _ = stage.type(capsys, "why", "4711")
    assert (code, lines) == (exit_codes.NOT_REACHED, [NEVER])
    code, lines, _ = stage.type(capsys, "list")
    assert code == exit_codes.NOT_REACHED
    assert lines[:-1] == ["10.0.0.[2-3]: what is on it is not known: no machines are managed: no plan was published"]


def test_a_plan_that_is_off(stage: MachinesStage, capsys: Said) -> None:
    stage.hold(3, Plan(manager=0))
    stage.say(State(word=OFF, version=3))
    stage.have_templates()
    off = "version 3 published by ann at 2026-11-26 08:33:20 UTC: it ends the plan; machines stay as they are"
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[0]) == (exit_codes.OK, off)
    assert lines[-2].split() == ["plan", "ended", "11", "10.0.0.[1-11]"], "machines may be on"
    assert stage.type(capsys, "list")[0] == exit_codes.OK


def test_a_plan_of_a_later_release(stage: MachinesStage, capsys: Said) -> None:
    stage.hold(3, b"{}")
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert "this release cannot follow it: the plan cannot be read: " in " ".join(line.strip() for line in lines[:3])


def test_nodes_that_do_not_follow_are_named_first(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    stage.say(State(word=NO_AGENT, version=2), 7)
    stage.say(State(word=SERVES, version=1), 3)
    stage.say(State(word=FAILED, version=2, detail="the disk is full\x1b"), 9)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    first = lines.index("state       nodes")
    assert lines[first + 1 : first + 7] == [
        "failed          1  10.0.0.9",
        "  the agent cannot follow the plan; no machine is started or stopped: the disk is full?",
        "no agent        1  10.0.0.7",
        "  there is no agent on the node, or it cannot be reached: start subord-agent.socket",
        "serves          1  10.0.0.3",
        "  the node starts and stops machines as the queue's node says",
    ]
    assert "3 nodes do not follow the plan: failed, no agent, serves" in lines


def test_a_node_without_machines_is_not_to_serve(stage: MachinesStage, capsys: Said) -> None:
    """Nor is a server another node."""
    stage.manage()
    stage.is_server(2, "")
    stage.is_server(4)
    code, lines, _ = stage.type(capsys, "status", "10.0.0.[2,4]")
    assert code == exit_codes.NOT_REACHED
    assert "2 nodes do not follow the plan: serves, other node" in lines


def test_a_queues_node_that_says_as_the_others(stage: MachinesStage, capsys: Said) -> None:
    """The others follow the plan."""
    stage.manage()
    stage.say(State(word=OTHER_NODE, version=2), 1)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert [each for each in lines if each.startswith("other node")] == [
        "other node      1  10.0.0.1",
        "other node      8  10.0.0.[4-11]",
    ]
    assert "1 node does not follow the plan: other node" in lines


def test_a_queues_node_that_decides_nothing(stage: MachinesStage, capsys: Said) -> None:
    stage.manage(hindrance="no server has answered for 45 s; nothing is done", fault="qstat: no qmaster")
    _, lines, _ = stage.type(capsys, "status")
    assert "nothing is decided now: no server has answered for 45 s; nothing is done" in lines
    assert "the batch system does not answer: qstat: no qmaster" in lines
    stage.manage(at=0.0)
    _, lines, _ = stage.type(capsys, "status")
    assert lines[1] == "nothing has been looked at yet: the first round of the queue's node has not ended"


def test_servers_that_have_never_answered(stage: MachinesStage, capsys: Said) -> None:
    """As just after a plan, which they do not have yet."""
    faults = tuple(SeenServer(name=f"10.0.0.{each}", fault="this node has no plan yet") for each in SERVERS)
    stage.manage(servers_all=2, unreachable=2, servers=faults)
    _, lines, _ = stage.type(capsys, "status")
    assert lines[2] == "2 servers, 2 do not answer; what they have is not known yet"


def test_a_queue_that_was_not_read_yet(stage: MachinesStage, capsys: Said) -> None:
    """No number is shown that only the batch system can give."""
    kinds = (KindCount(type="alma", on=2, off=1, coming=2, cores=8, memory=16_384),)
    stage.manage(is_unread=True, round=1, kinds=kinds, fault="qstat: no qmaster")
    _, lines, _ = stage.type(capsys, "status")
    assert "the queues were not read yet, so jobs are not known" in lines[1]
    assert "run" not in lines[1].replace("round", "")
    assert lines[4:6] == [
        "type  on  off  open  busy  coming  left alone  cores  memory",
        "alma   2    1     -     -       -           0      8  16 GiB",
    ]


@pytest.mark.parametrize(
    ("number", "pending", "words"),
    [
        (11, 0, "1 more action is not shown; no action is under way"),
        (24, 1, "14 more actions are not shown; of all actions 1 is under way"),
        (24, 12, "14 more actions are not shown; of all actions 12 are under way"),
    ],
    ids=["none", "one", "several"],
)
def test_actions_that_are_not_shown(
    stage: MachinesStage, capsys: Said, number: int, pending: int, words: str
) -> None:
    actions = (Action(at=stage.now - 34, kind="open", machine="alma-2", result=DONE),) * number
    stage.manage(actions=actions, pending=pending)
    assert words in stage.type(capsys, "status")[1]


def test_what_the_plan_names_and_nobody_has(stage: MachinesStage, capsys: Said) -> None:
    stage.manage(lacking=("deb",), queues=("all.q", "long", "debian"))
    _, lines, _ = stage.type(capsys, "status")
    text = " ".join(lines)
    assert "the template debian-12 of the type deb is on no server that answers: no machine of it is cloned" in text
    assert "the batch system has no queue short, which the type alma serves: make it there" in text


def test_an_agent_that_has_gone_leaves_its_last_round(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    last = stage.world.known[1].machines.state
    stage.manage()
    stage.say(State(**{**{name: getattr(last, name) for name in last.__struct_fields__}, "word": NO_AGENT}), 1)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[1].startswith("no agent: there is no agent on the node, or it cannot be reached")
    assert lines[2] == "  follows is from before"


@pytest.mark.slow
def test_a_queues_node_that_does_not_answer(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    stage.world.gone.add(1)
    code, lines, _ = stage.type(capsys, "status", "10.0.0.[2-3]", "--timeout", "1")
    assert code == exit_codes.NOT_REACHED
    assert lines[1] == "the last round is not known: 10.0.0.1 has reported nothing"


# -- list -----------------------------------------------------------------------------------------------------------


def test_servers_and_machines(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    code, lines, _ = stage.type(capsys, "list")
    assert code == exit_codes.OK
    assert lines[:-1] == [
        "server    cores       memory  slots   mhz  on  off      as of  state",
        "10.0.0.2   6/16  12.0/30 GiB   2/64  3000   2    4  5.0 s ago  serves",
        f"  alma-4: {STOPPED}",
        "10.0.0.3  24/16  39.1/30 GiB   1/64  3000   1    0  5.0 s ago  overbooked",
        "  overbooked by 8 cores and 9.1 GiB of memory; idle machines are stopped first",
        "",
        "machine    server    type  state              since  cores    memory",
        "alma-1     10.0.0.2  alma  on                   2 h      4     8 GiB",
        "alma-4     10.0.0.2  alma  off                1 min      4     8 GiB",
        "alma-2     10.0.0.2  alma  moving (10.0.0.3)      -      4     8 GiB",
        "ldap       10.0.0.2  -     on                  10 d      2     4 GiB",
        "alma-9     10.0.0.2  -     off                    -      4     8 GiB",
        "debian-12  10.0.0.2  -     off                    -      1     2 GiB",
        "big        10.0.0.3  -     paused                 -     24  39.1 GiB",
    ]
    code, lines, _ = stage.type(capsys, "list", "--servers", "10.0.0.3")
    assert [line.split()[0] for line in lines[:-1]] == ["server", "10.0.0.3", "overbooked"]
    code, lines, _ = stage.type(capsys, "list", "10.0.0.4")
    assert lines[:-1] == [
        HEADING,
        "no node that has answered is a server: set machines.uri in the configuration of servers",
    ]


def test_nodes_that_are_not_there(stage: MachinesStage, capsys: Said) -> None:
    """A question changes nothing, so this is not said."""
    work(stage)
    code, lines, _ = stage.type(capsys, "list", "10.0.0.99")
    assert code == exit_codes.NOT_REACHED
    assert lines[:-1] == ["10.0.0.99: no member has this address; `subord members` lists all"]
    for node in ("nosuchhost", "11.0.0.1"):
        code, lines, err = stage.type(capsys, "list", node)
        assert (code, lines, err.endswith("; no node was asked\n")) == (exit_codes.NO_SUCH_NODE, [], True), err
        assert stage.type(capsys, "drain", node)[2].endswith("; nothing was changed\n")


def test_the_json_of_list_fits(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    code, lines, _ = stage.type(capsys, "list", "--json")
    found = fitting("machines-list", lines[0])
    assert (code, found["others"], found["silent"]) == (exit_codes.OK, 9, [])
    first, second = found["servers"]
    assert (first["address"], first["used"]["cores"], first["pools"][0]["free_mb"]) == ("10.0.0.2", 6, 256_000)
    assert (second["drained"], second["excess"]["cores"]) == (True, 8)
    assert [each["ours"] for each in first["machines"]] == [True, True, True, False, False, False]


def test_a_server_without_libvirt(stage: MachinesStage, capsys: Said) -> None:
    stage.manage()
    stage.has(2, at=0.0, have=Amount(), fault="libvirt at qemu:///system cannot be reached: start libvirtd there")
    stage.has(3, *TEMPLATES, is_drained=True, at=stage.now - 1000)
    code, lines, _ = stage.type(capsys, "list", "--servers")
    assert code == exit_codes.NOT_REACHED
    assert lines[:-1] == [
        "server    cores      memory  slots   mhz  on  off       as of  state",
        "10.0.0.2      -           -      -     -   -    -           -  no libvirt",
        "  libvirt at qemu:///system cannot be reached: start libvirtd there",
        "10.0.0.3   0/16  0.0/30 GiB   0/64  3000   0    2  16 min ago  drained",
        "  its agent has reported nothing new for 16 min",
    ]


def test_a_server_with_more_machines_than_have_room(stage: MachinesStage, capsys: Said) -> None:
    stage.manage()
    names = [f"{'m' * 100}-{number}" for number in range(MACHINES_MAX)]
    stage.has(2, *(MachineState(name=each, type="alma", fault="x" * 300) for each in names))
    result = encode_server(stage, 2)
    assert RESULT_BYTES_MAX - 700 < len(result) <= RESULT_BYTES_MAX
    _, lines, _ = stage.type(capsys, "list", "10.0.0.2")
    assert any(line.endswith("machines more had no room in the answer") for line in lines)


def encode_server(stage: MachinesNodes, position: int) -> bytes:
    from subord.services.machines.telling.words import encode as packed

    return packed(answering.told_server(stage.world.known[position].machines, stage.now))


# -- why ------------------------------------------------------------------------------------------------------------


def test_why_a_job_waits(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    code, lines, _ = stage.type(capsys, "why", "4711")
    assert code == exit_codes.OK
    assert lines[:-1] == [
        HEADING,
        "as of the round 4.2 s ago, with 3 waiting jobs:",
        "job 4711: number 1 of 3, 4 slots, in the queue long, for machines of the type alma",
        "  the machine alma-2 is coming up",
        "  34 s ago: start alma-2 on 10.0.0.3, from 10.0.0.2: given",
    ]
    assert lines[-1].startswith("1 of 1 answered in ")
    _, lines, _ = stage.type(capsys, "why", "4713")
    assert lines[-2] == "  1 min ago: clone deb-1 on 10.0.0.2: refused: the storage is full"
    _, lines, _ = stage.type(capsys, "why", "4712")
    assert lines[2] == "job 4712: number 2 of 3, 8 tasks of 1 slot, in the queue long, for machines of the type alma"
    code, lines, _ = stage.type(capsys, "why", "4711", "--json")
    found = fitting("machines-why", lines[0])
    assert (code, found["jobs"][0]["place"], found["waiting"], found["known"]) == (exit_codes.OK, 1, 3, True)


def test_tasks_of_an_array(stage: MachinesStage, capsys: Said) -> None:
    jobs = tuple(JobState(id=each, queue="long", why="x") for each in ("17", "17_3", "17.9", "170", "171_3"))
    stage.manage(waiting=5, jobs=jobs)
    _, lines, _ = stage.type(capsys, "why", "17", "--json")
    assert [each["job"] for each in fitting("machines-why", lines[0])["jobs"]] == ["17", "17_3", "17.9"]


def test_a_job_that_does_not_wait(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    code, lines, _ = stage.type(capsys, "why", "9")
    assert code == exit_codes.NOT_REACHED
    assert lines[2:4] == [
        "no job 9 waits in the queues of the plan: it runs, has ended, was never submitted, or waits in",
        "  another queue; `qstat -j 9` of Grid Engine or `scontrol show job 9` of Slurm tells which",
    ]
    stage.manage(waiting=1200, jobs_left_out=200)
    _, lines, _ = stage.type(capsys, "why", "9")
    assert "job 9 is not among the first that wait; the reasons of 200 jobs that come later had no room" in lines
    stage.manage(is_unread=True)
    _, lines, _ = stage.type(capsys, "why", "9")
    assert "whether job 9 waits is not known: the queues were not read yet" in lines
    stage.manage(at=0.0)
    _, lines, _ = stage.type(capsys, "why", "9")
    assert lines[1].startswith("nothing has been looked at yet")


@pytest.mark.parametrize("job", ["abc", "-1", "", "4711 4712", "9" * 200])
def test_what_is_no_number_of_a_job(stage: MachinesStage, capsys: Said, job: str) -> None:
    work(stage)
    code, lines, err = stage.type(capsys, "why", job)
    assert (code, lines, len(err.splitlines())) == (exit_codes.USAGE, [], 1)
    assert "JOB is the number of a job as the batch system shows it, such as 4711 or 17_3, not " in err
    assert err.endswith("; no node was asked\n")
    assert not stage.node.orders.given


def test_why_of_a_queues_node_that_does_not_answer(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    stage.world.gone.add(1)
    code, lines, _ = stage.type(capsys, "why", "4711", "--timeout", "1")
    assert code == exit_codes.NOT_REACHED
    assert lines[1] == "the last round is not known: 10.0.0.1 has reported nothing"


# -- bounds ---------------------------------------------------------------------------------------------------------


def test_answers_have_room(stage: MachinesStage, capsys: Said) -> None:
    from subord.services.machines.telling.words import encode as packed

    text = "x" * 390
    stage.manage(
        jobs=tuple(JobState(id=f"7.{number}", queue="q", why=text) for number in range(JOBS_MAX)),
        actions=tuple(Action(at=1.0, kind="open", machine="m", job="7", why=text) for _ in range(ACTIONS_MAX)),
        notes=(text,) * NOTES_MAX,
        servers=tuple(SeenServer(name=f"10.0.0.{number}", fault=text) for number in range(SERVERS_MAX)),
        waiting=JOBS_MAX,
    )
    own = stage.world.known[1].machines
    for said in (answering.told(own, stage.now), answering.told_job(own, "7", stage.now)):
        assert RESULT_BYTES_MAX - 1000 < len(packed(said)) <= RESULT_BYTES_MAX
    _, lines, _ = stage.type(capsys, "status", "--json")
    told = fitting("machines-status", lines[0])["round"]
    for name, most in (("actions", ACTIONS_MAX), ("notes", NOTES_MAX), ("servers", SERVERS_MAX)):
        assert told[name]
        assert len(told[name]) + told[f"{name}_left_out"] == most


def test_nodes_that_are_no_servers_say_the_same(stage: MachinesStage) -> None:
    from subord.services.machines.telling.words import encode as packed

    stage.manage()
    said = {packed(answering.told_server(stage.world.known[each].machines, float(each))) for each in range(4, 12)}
    assert len(said) == 1
    said = {packed(answering.told(stage.world.known[each].machines, float(each))) for each in range(4, 12)}
    assert len(said) == 1


# -- drain ----------------------------------------------------------------------------------------------------------


def test_servers_are_drained(stage: MachinesStage, capsys: Said) -> None:
    for each in SERVERS:
        stage.world.lying[each] = encode(Results())
    code, lines, err = stage.type(capsys, "drain", "10.0.0.[2-3]")
    assert (code, err) == (exit_codes.OK, "")
    assert lines[0] == "10.0.0.[2-3]: no machine starts there; idle machines are stopped"
    assert lines[1].startswith("2 of 2 answered in ")
    assert [each["authority"] != b"" for each in stage.node.orders.signed] == [True]
    code, lines, _ = stage.type(capsys, "drain", "10.0.0.2", "--undo")
    assert (code, lines[0]) == (exit_codes.OK, "10.0.0.2: machines may start there again")
    code, lines, _ = stage.type(capsys, "drain", "10.0.0.2", "--json")
    assert fitting("machines-drain", lines[0])["results"][0]["addresses"] == ["10.0.0.2"]


def test_a_node_that_cannot_be_drained(stage: MachinesStage, capsys: Said) -> None:
    stage.world.lying[2] = encode(
        Results("machines.uri of this node is empty, so it is no server; nothing was changed")
    )
    stage.world.lying[3] = b"\xff"
    code, lines, _ = stage.type(capsys, "drain", "10.0.0.[2-3]")
    assert code == exit_codes.NOT_REACHED
    assert lines[:2] == [
        "10.0.0.2: machines.uri of this node is empty, so it is no server; nothing was changed",
        "the answers of 1 node cannot be read: they are of another release",
    ]


def test_a_server_that_an_operator_may_not_drain(stage: MachinesStage, capsys: Said) -> None:
    """The reason stands there, and not only its word."""
    stage.world.lying[2] = encode(Results())
    code, lines, _ = stage.type(capsys, "drain", "10.0.0.[2,99]", "--user", "nobody")
    assert code == exit_codes.NOT_REACHED
    assert lines[1] == "10.0.0.99: no member has this address; `subord members` lists all"


def test_a_server_is_drained_as_root_only() -> None:
    text = "the policy of the node does not allow the operator to use the service as this user"
    missing = [{"nodes": "10.0.0.3", "addresses": ["10.0.0.3"], "count": 1, "cause": "denied", "text": text}]
    found = {"results": [], "missing": missing, "unread": 0}
    assert list(draining.lines_of(found, {}, "done", "nobody")) == [
        f"10.0.0.3: {text}",
        "a server is drained as root only: leave out --user nobody",
    ]
    assert list(draining.lines_of(found, {}, "done", "root")) == [f"10.0.0.3: {text}"]
