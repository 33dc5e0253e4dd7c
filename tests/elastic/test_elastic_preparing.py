"""What an added node does for each order, by fake commands; tests/elastic/test_elastic_node.py has real ones."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from fake_machine import Answer, FakeCommands

from subord.config.schema import ElasticConfig
from subord.services.acting import Context
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Mount, Plan, User
from subord.services.elastic.preparing import checks, folders, machine, rights
from subord.services.elastic.preparing.carrying import carry_out
from subord.services.elastic.preparing.faults import DROP_IN, PreparingError
from subord.services.elastic.preparing.rights import Need
from subord.services.elastic.task import Result, Step, Task, decode_result, encode

MASTER, NODE = "10.0.0.1", "10.0.0.7"
NO_DAEMON = ElasticConfig()
ANN = User(name="ann", uid=6001, group="chemists", gid=6100, home="/srv/share/ann")
HOMES = Mount(source="/srv/share", target="/srv/share")
NONE = (2, "")
"""What getent ends with for what it does not find."""
MISSING: dict[str, Answer] = {"getent": NONE}
THERE: dict[str, Answer] = {
    "getent group": (0, "chemists:x:6100:\n"),
    "getent passwd": (0, "ann:x:6001:6100::/srv/share/ann:/bin/sh\n"),
}


def plan(**changes: Any) -> Plan:
    held: dict[str, Any] = {"manager": 1, "options": Options(max_nodes=5), "users": (ANN,), "mounts": (HOMES,)}
    return Plan(**(held | changes))


async def carried_out(
    step: Step,
    commands: FakeCommands,
    of: Plan | None = None,
    *,
    config: ElasticConfig = NO_DAEMON,
    master: str = MASTER,
    left_s: float = 60.0,
    **of_machine: Any,
) -> Result:
    context = Context("root", "elastic@head", b"", left_s, node=NODE)
    done = await carry_out(Task(step, 1, master), of or plan(), config, context, commands.machine(**of_machine))
    assert decode_result(encode(done)) == done
    assert done.slots == len(os.sched_getaffinity(0))
    return done


# -- users ---------------------------------------------------------------------------------------------------------


USERADD = ("--no-user-group", "--no-log-init", "--no-create-home")


async def test_users_and_groups_that_are_missing_are_made_with_their_ids() -> None:
    commands = FakeCommands(MISSING)
    done = await carried_out(Step.USERS, commands)
    assert (done.fault, done.is_changed) == ("", True)
    assert [line for line in commands.ran if not line.startswith("getent")] == [
        "groupadd --gid 6100 chemists",
        f"useradd --uid 6001 --gid 6100 {' '.join(USERADD)} --home-dir /srv/share/ann --shell /bin/sh ann",
    ]


async def test_users_that_are_there_are_left_as_they_are() -> None:
    commands = FakeCommands(THERE)
    assert await carried_out(Step.USERS, commands, lacking="no rights") == Result(slots=len(os.sched_getaffinity(0)))
    assert commands.ran == ["getent group chemists", "getent passwd ann"]


DIFFERENT: dict[str, tuple[dict[str, Answer], str]] = {
    "a group with another id": ({"getent group chemists": (0, "chemists:x:50:\n")}, "chemists 50 6100"),
    "a user with another id": (THERE | {"getent passwd ann": (0, "ann:x:1000:6100::/:/bin/sh\n")}, "ann 1000 6001"),
    "a user of another group": (THERE | {"getent passwd ann": (0, "ann:x:6001:100::/:/bin/sh\n")}, "ann 100 6100"),
    "the id of a group is taken": (MISSING | {"getent group 6100": (0, "staff:x:6100:\n")}, "chemists staff 6100"),
    "the id of a user is taken": (MISSING | {"getent passwd 6001": (0, "bob:x:6001:1::/:/bin/sh\n")}, "ann bob 6001"),
    "a directory service that fails": (MISSING | {"getent passwd ann": (1, "timed out")}, "ann timed /etc/nsswitch"),
}


@pytest.mark.parametrize(("answers", "words"), DIFFERENT.values(), ids=DIFFERENT)
async def test_what_is_there_with_another_id_is_named_and_nothing_is_changed(
    answers: dict[str, Answer], words: str
) -> None:
    commands = FakeCommands(answers)
    done = await carried_out(Step.USERS, commands)
    assert "nothing was changed" in done.fault
    assert all(word in done.fault for word in words.split())
    assert {line.partition(" ")[0] for line in commands.ran} == {"getent"}


async def test_nothing_is_changed_if_the_last_of_the_users_is_a_fault() -> None:
    users = (ANN, User(name="bob", uid=6002, group="staff", gid=50, home="/srv/share/bob"))
    commands = FakeCommands(MISSING | {"getent passwd bob": (0, "bob:x:7:50::/:/bin/sh\n")})
    assert "bob" in (await carried_out(Step.USERS, commands, plan(users=users))).fault
    assert {line.partition(" ")[0] for line in commands.ran} == {"getent"}


async def test_a_user_that_cannot_be_made_is_told_with_the_words_of_the_command() -> None:
    commands = FakeCommands(MISSING | {"useradd": (1, "useradd: cannot lock /etc/passwd; try again later.")})
    done = await carried_out(Step.USERS, commands)
    assert "the user ann" in done.fault
    assert "cannot lock /etc/passwd" in done.fault


@pytest.mark.parametrize(("missing", "package"), [("getent", "libc-bin"), ("useradd", "passwd")])
async def test_a_missing_program_for_users_is_named_with_its_package(missing: str, package: str) -> None:
    done = await carried_out(Step.USERS, FakeCommands(MISSING, missing=[missing]))
    assert done.fault.startswith(f"{missing} is not on this node; nothing was changed: install {package}")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@needs_root
async def test_a_home_is_made_for_all_users_to_reach(tmp_path: Path) -> None:
    home = tmp_path / "far" / "ann"
    users = (ANN, User(name="bob", uid=6002, group="chemists", gid=6100, home=str(home)))
    before = os.umask(0o077)
    try:
        done = await carried_out(Step.USERS, FakeCommands(MISSING), plan(users=users))
        again = await carried_out(Step.USERS, FakeCommands(MISSING), plan(users=users))
    finally:
        os.umask(before)
    assert done.fault == again.fault == ""
    status = home.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (6002, 6100, 0o700)
    assert home.parent.stat().st_mode & 0o777 == 0o755


@needs_root
def test_a_home_that_a_dead_process_has_begun_is_finished(tmp_path: Path) -> None:
    (tmp_path / ".ann.subord-new").mkdir()
    assert folders.make_home(str(tmp_path / "ann"), 6001, 6100)
    assert (tmp_path / "ann").stat().st_uid == 6001
    assert [each.name for each in tmp_path.iterdir()] == ["ann"]


def test_a_home_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ann").symlink_to("elsewhere")
    assert not folders.make_home(str(tmp_path / "ann"), 6001, 6100)


async def test_no_home_is_made_where_a_mount_brings_it() -> None:
    place = Path("/srv/homes of a mount")  # not a temporary one, which may be in /dev
    users = (User(name="ann", uid=6001, group="chemists", gid=6100, home=f"{place}/ann"),)
    one = plan(users=users, mounts=(Mount(source="/srv/share", target=str(place)),))
    assert (await carried_out(Step.USERS, FakeCommands(THERE), one)).fault == ""
    assert not await trio.Path(place).exists()


# -- the batch daemon ----------------------------------------------------------------------------------------------

EXECD = ElasticConfig(
    batch_daemon=("systemctl", "start", "gridengine-exec"),
    batch_daemon_stop=("systemctl", "stop", "gridengine-exec"),
    batch_environment=("SGE_ROOT=/var/lib/gridengine",),
)


async def test_the_batch_daemon_is_started_in_the_environment_of_the_configuration() -> None:
    commands = FakeCommands()
    assert (await carried_out(Step.DAEMON, commands, config=EXECD)).is_changed
    assert commands.ran == ["/nowhere/systemctl start gridengine-exec"]
    assert commands.environments == [("SGE_ROOT=/var/lib/gridengine",)]


async def test_a_batch_daemon_that_starts_by_itself_needs_nothing() -> None:
    commands = FakeCommands()
    done = await carried_out(Step.DAEMON, commands, lacking="no rights")
    assert (done.fault, done.is_changed, commands.ran) == ("", False, [])


@pytest.mark.parametrize("said", ["execd is already running", "Already started.", "slurmd: already up"])
async def test_a_batch_daemon_that_runs_already_is_no_fault(said: str) -> None:
    done = await carried_out(Step.DAEMON, FakeCommands({"/nowhere/systemctl": (1, said)}), config=EXECD)
    assert (done.fault, done.is_changed) == ("", False)


async def test_a_batch_daemon_that_does_not_start_is_told_with_its_words() -> None:
    commands = FakeCommands({"/nowhere/systemctl": (5, "Unit gridengine-exec.service not found.")})
    done = await carried_out(Step.DAEMON, commands, config=EXECD)
    assert "systemctl start gridengine-exec ended with 5" in done.fault
    assert "not found" in done.fault
    assert "elastic.batch_daemon" in done.fault


async def test_a_batch_daemon_that_is_not_there_is_named() -> None:
    done = await carried_out(Step.DAEMON, FakeCommands(missing=["systemctl"]), config=EXECD)
    assert done.fault == (
        "systemctl is not on this node; nothing was changed: install it, or correct elastic.batch_daemon"
    )


@pytest.mark.parametrize("before", [(), ("sh",)], ids=["a program", "a script"])
async def test_what_other_users_can_change_is_not_run(before: tuple[str, ...], tmp_path: Path) -> None:
    program = tmp_path / "execd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o757)
    commands = FakeCommands()
    done = await carried_out(Step.DAEMON, commands, config=ElasticConfig(batch_daemon=(*before, str(program))))
    assert f"{program} of elastic.batch_daemon is not run: other users can change it" in done.fault
    assert commands.ran == []


async def test_a_command_gets_the_environment_that_is_given_and_no_more() -> None:
    ran = await machine.run("env", environment=["SGE_CELL=default"])
    assert {line.partition("=")[0] for line in ran.text.split()} == {"PATH", "LANG", "HOME", "SGE_CELL"}


async def test_a_command_that_hangs_is_killed_and_named() -> None:
    with pytest.raises(PreparingError, match=r"sleep has not ended in 0\.2 s on this node, and was killed"):
        await machine.run("sleep", "600", limit_s=0.2)


async def test_file_systems_that_do_not_answer_hold_up_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FILE_S_MAX", 0.02)
    answers = threading.Event()
    try:
        for _ in range(60):
            with pytest.raises(PreparingError, match="/srv does not answer in"):
                await machine.in_thread(answers.wait, "/srv")
        with trio.fail_after(5):
            assert await trio.to_thread.run_sync(lambda: True)
    finally:
        answers.set()


ABANDONED = threading.Event()


@pytest.mark.parametrize("turn", ["first", "second"])
def test_threads_that_outlive_their_test_take_no_place_of_the_next_one(
    turn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "FILE_S_MAX", 0.02)

    async def abandon() -> None:
        for _ in range(int(machine._THREADS.total_tokens)):
            with pytest.raises(PreparingError, match="/srv does not answer in"):
                await machine.in_thread(lambda: ABANDONED.wait(60), "/srv")

    if turn == "first":
        trio.run(abandon)
        assert machine._THREADS.borrowed_tokens == machine._THREADS.total_tokens
    else:
        assert machine._THREADS.borrowed_tokens == 0
    ABANDONED.set()


# -- orders --------------------------------------------------------------------------------------------------------


async def test_a_look_needs_nothing() -> None:
    commands = FakeCommands()
    done = await carried_out(Step.LOOK, commands, Plan(manager=0), master="", lacking="no rights")
    assert (done.fault, commands.ran) == ("", [])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "off": ({"of": Plan(manager=0)}, "is off"),
    "a trial": ({"of": plan(is_trial=True)}, "is a trial"),
    "no address": ({"master": "-o remount"}, "is no address"),
    "the queue's node": ({"master": NODE}, "has the queue itself"),
    "a bad plan": ({"of": plan(mounts=(Mount(source="/a", target="/etc/x"),))}, "publish a plan without that"),
}


@pytest.mark.parametrize("step", [Step.USERS, Step.MOUNTS, Step.DAEMON, Step.LEAVE])
@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_makes_no_sense_is_refused_before_anything_is_done(
    step: Step, changes: dict[str, Any], words: str
) -> None:
    commands = FakeCommands(MISSING)
    done = await carried_out(step, commands, config=EXECD, **changes)
    assert words in done.fault
    assert commands.ran == []


async def test_the_steps_of_an_added_node_tell_what_its_unit_forbids() -> None:
    for step in (Step.USERS, Step.MOUNTS, Step.DAEMON):
        commands = FakeCommands(MISSING)
        done = await carried_out(step, commands, config=EXECD, lacking="the unit forbids it")
        assert done.fault == "the unit forbids it"
        assert {line.partition(" ")[0] for line in commands.ran} <= {"getent"}


async def test_work_that_outlasts_its_order_is_told_in_time(autojump_clock: trio.testing.MockClock) -> None:
    commands = FakeCommands(MISSING)

    async def hangs(*words: str, **limits: Any) -> Any:
        await trio.sleep_forever()

    context = Context("root", "elastic@head", b"", 30.0, node=NODE)
    hanging = commands.machine()._replace(run=hangs)
    begun = trio.current_time()
    done = await carry_out(Task(Step.USERS, 1, MASTER), plan(), EXECD, context, hanging)
    assert "the step users has not ended in the 30 s of its order" in done.fault
    assert trio.current_time() - begun == pytest.approx(28)


async def test_a_node_that_leaves_unmounts_though_its_daemon_cannot_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text("9 1 0:9 / /srv/share rw - nfs4 10.0.0.1:/srv/share rw\n")
    commands = FakeCommands({"/nowhere/systemctl": (1, "Access denied")})
    done = await carried_out(Step.LEAVE, commands, config=EXECD, proc=tmp_path)
    assert "Access denied" in done.fault
    assert commands.ran == ["/nowhere/systemctl stop gridengine-exec", "umount /srv/share"]
    commands = FakeCommands({"/nowhere/systemctl": (5, "Unit gridengine-exec.service not loaded.")})
    done = await carried_out(Step.LEAVE, commands, config=EXECD, proc=tmp_path)
    assert (done.fault, done.is_changed) == ("", True)


# -- plans ---------------------------------------------------------------------------------------------------------

BOB = User(name="bob", uid=6002, group="chemists", gid=6100, home="/srv/share/bob")
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "good": ({"users": (ANN, BOB)}, ""),
    "a user twice": ({"users": (ANN, ANN)}, "the plan has the user ann twice"),
    "one id": ({"users": (ANN, User(name="bob", uid=6001, group="x", gid=1, home="/b"))}, "the users ann and bob"),
    "two ids": ({"users": (ANN, User(name="bob", uid=2, group="chemists", gid=1, home="/b"))}, "ids 6100 and 1"),
    "two names": ({"users": (ANN, User(name="bob", uid=2, group="x", gid=6100, home="/b"))}, "chemists and x"),
    "a home with ..": ({"users": (User(name="a", uid=2, group="x", gid=1, home="/b/../c"),)}, "/b/../c"),
    "the whole disk": ({"mounts": (Mount(source="/", target="/mnt"),)}, "/ is no plain path"),
    "over everything": ({"mounts": (Mount(source="/a", target="/"),)}, "/ is no plain path"),
    "over the system": ({"mounts": (Mount(source="/a", target="/usr"),)}, "nothing may be mounted on /usr"),
    "in the system": ({"mounts": (Mount(source="/a", target="/etc/a"),)}, "nothing may be mounted on /etc/a"),
    "below the system": ({"mounts": (Mount(source="/a", target="/usr/local"),)}, ""),
    "around": ({"mounts": (Mount(source="/a", target="/opt/../etc"),)}, "/opt/../etc is no plain path"),
    "twice": (
        {
            "mounts": (
                HOMES,
                Mount(source="/a", target="/srv/share"),
            )
        },
        "two directories on /srv/share",
    ),
}


@pytest.mark.parametrize(("changes", "words"), FAULTS.values(), ids=FAULTS)
def test_plans_that_no_node_could_carry_out_are_told(changes: dict[str, Any], words: str) -> None:
    one = plan(**({"users": (), "mounts": ()} | changes))
    found = "; ".join(checks.faults(one.users, one.mounts))
    assert words in found
    assert bool(found) is bool(words)


# -- rights --------------------------------------------------------------------------------------------------------

ALL, NOTHING = "CapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n"
HOST = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
UNIT = "225 190 8:1 / / ro,relatime shared:200 master:1 - ext4 /dev/sda1 rw\n"
CONTAINER = "225 190 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"


def proc(path: Path, capabilities: str, own: str, first: str) -> str:
    for name, text in (("self/status", capabilities), ("self/mountinfo", own), ("1/mountinfo", first)):
        file = path / "proc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text:
            file.write_text(text)
    return str(path / "proc")


LACKING: dict[str, tuple[Need, tuple[str, str, str], str]] = {
    "root of a machine": (Need.MOUNTS, (ALL, HOST, HOST), ""),
    "users": (Need.ACCOUNTS, (ALL, HOST, HOST), ""),
    "no capability to mount": (Need.MOUNTS, (NOTHING, HOST, HOST), "it has no CAP_SYS_ADMIN"),
    "no capability for files": (Need.ACCOUNTS, (NOTHING, HOST, HOST), "no CAP_CHOWN and no CAP_DAC_OVERRIDE"),
    "mounts of its own": (Need.MOUNTS, (ALL, UNIT, HOST), "a name space of its own"),
    "other processes are hidden": (Need.MOUNTS, (ALL, UNIT, ""), "a name space of its own"),
    "users in a unit with mounts of its own": (Need.ACCOUNTS, (ALL, UNIT, HOST), ""),
    "a container": (Need.MOUNTS, (ALL, CONTAINER, HOST), ""),
    "a machine that is a container": (Need.MOUNTS, (ALL, UNIT, UNIT), ""),
    "the daemon": (Need.DAEMON, (NOTHING, UNIT, HOST), ""),
}


@needs_root
@pytest.mark.parametrize(("need", "files", "words"), LACKING.values(), ids=LACKING)
def test_what_a_unit_forbids_is_told_with_the_lines_that_allow_it(
    need: Need, files: tuple[str, str, str], words: str, tmp_path: Path
) -> None:
    found = rights.lacking([need], proc(tmp_path, *files), str(tmp_path))
    assert words in found
    if words:
        assert f"nothing was changed: install {DROP_IN}" in found
    else:
        assert not found


def test_an_agent_without_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "runs as user 1000, which cannot mount directories" in rights.lacking([Need.MOUNTS])
