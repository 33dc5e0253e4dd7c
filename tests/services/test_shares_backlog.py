"""Whether a class needs more: pressure of its groups, runnable tasks, and the queue of its service."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fake_cgroups import FakeNode
from loops import over

from subord.services.shares.actuators import tasks
from subord.services.shares.actuators.programs import ProgramError, run
from subord.services.shares.actuators.queues import RUN_S_MAX, QueueError, length_of
from subord.services.shares.actuators.tasks import Budget, runnable


def needy(node: FakeNode, used: float = 0.0, waited: float | None = None, queue: str = "") -> tuple[bool, str]:
    """Whether the class `web` needs more after a second in which its group used and waited so much; and the note."""
    group = "/apps/web-1"
    actuator = node.actuator("web=/apps/web-1", queues=(f"web={queue}",) if queue else ())
    node.used(group, 5, None if waited is None else 7)
    assert actuator.read(1.0) is None
    node.used(group, 5 + used, None if waited is None else 7 + waited)
    reading = actuator.read(2.0)
    assert reading is not None
    return reading.loads["web"].is_needy, " ".join(reading.notes)


def made(tmp_path: Path, version: int) -> FakeNode:
    node = FakeNode(tmp_path, version)
    node.group("/apps/web-1/inner")
    return node


def program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def living(group: int) -> list[str]:
    """The processes of a process group that have not ended; those that nobody has reaped have."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, number, *_ = path.read_text(errors="replace").rpartition(") ")[2].split()
            if int(number) == group and state not in "ZX":
                found.append(str(path))
    return found


# -- the kernel -----------------------------------------------------------------------------------------------------


@over(("waited", "found"), [(0.0, False), (0.05, False), (0.1, True), (0.9, True)])
def test_pressure(waited: float, found: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    node = made(tmp_path_factory.mktemp("node"), 2)
    node.tasks("/apps/web-1", "R", "R", "R")
    assert needy(node, 0.5, waited) == (found, "")


@over(
    ("states", "used", "found"),
    [
        ("", 0.0, False),
        ("SSD", 0.0, False),
        ("R", 0.0, True),  # it waits for its first moment
        ("SRS", 0.6, True),
        ("R", 1.0, False),  # it had a processor to itself
        ("RR", 1.0, True),
        ("RR", 2.0, False),
        ("RRR", 2.0, True),
    ],
)
@over("version", [1, 2])
def test_runnable_tasks(
    states: str, used: float, found: bool, version: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node = made(tmp_path_factory.mktemp("node"), version)
    node.tasks("/apps/web-1/inner", *states)
    assert needy(node, used) == (found, "")


def test_runnable_tasks_of_groups_below_count(tmp_path: Path) -> None:
    node = made(tmp_path, 1)
    node.tasks("/apps/web-1", "R", "S", "R")
    node.tasks("/apps/web-1/inner", "R", "Z", first=200)
    group, proc = str(node.cpu / "apps/web-1"), str(node.root / "proc")
    assert runnable(group, "tasks", proc, 99, Budget(99)) == 3
    assert runnable(group, "tasks", proc, 1.1, Budget(99)) == 2, "that is enough"
    (node.root / "proc/100/stat").unlink()
    assert runnable(group, "tasks", proc, 99, Budget(99)) == 2, "one has ended"
    assert runnable(f"{group}/gone", "tasks", proc, 99, Budget(99)) == 0


def test_reading_tasks_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = made(tmp_path, 1)
    node.tasks("/apps/web-1", *"RRRRRRRR")
    group, proc = str(node.cpu / "apps/web-1"), str(node.root / "proc")
    budget = Budget(7)
    assert runnable(group, "tasks", proc, 5, budget) == 5
    assert runnable(group, "tasks", proc, 5, budget) == 2, "the budget is that of all groups of a class"
    monkeypatch.setattr(tasks, "LIST_BYTES_MAX", 10)
    assert runnable(group, "tasks", proc, 99, Budget(99)) == 2, "a number that is cut does not count"
    monkeypatch.setattr(tasks, "GROUPS_MAX", 0)
    assert runnable(group, "tasks", proc, 99, Budget(99)) == 0


# -- queues ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_programs_that_hang_cost_the_time_of_one(tmp_path: Path) -> None:
    """Else the node would seem to have an agent that does not answer."""
    node = FakeNode(tmp_path)
    names = ("web", "batch", "mail", "logs")
    for name in names:
        node.group(f"/apps/{name}")
    hung = program(tmp_path / "hung", "exec sleep 60")
    classes, queues = ([f"{name}=/apps/{name}" for name in names], tuple(f"{name}={hung}" for name in names))
    actuator = node.actuator(*classes, queues=queues)
    actuator.read(1.0)
    began = time.monotonic()
    reading = actuator.read(2.0)
    assert time.monotonic() - began < 3 * RUN_S_MAX
    assert reading is not None
    assert [note.split(",")[0] for note in reading.notes] == [f"the queue of class {name}" for name in names]


@over(("text", "found"), [("0\n", False), ("3\n", True), ("0.5", True), (" 12 \n", True)])
def test_the_queue_of_a_service_counts_before_the_kernel(text: str, found: bool, tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.write_text(text)
    top = tmp_path / text.strip()
    top.mkdir()
    node = made(top, 1)
    node.tasks("/apps/web-1", "R" if not found else "S")
    assert needy(node, queue=str(queue)) == (found, "")


def test_a_program_tells_the_queue(tmp_path: Path) -> None:
    assert length_of(program(tmp_path / "queue", "echo 7")) == 7.0


@over("mode", [0o775, 0o757])
def test_a_program_that_others_can_change_is_not_run(mode: int, tmp_path: Path) -> None:
    with pytest.raises(QueueError, match="is not run: other users can change it"):
        length_of(program(tmp_path / "queue", f"touch {tmp_path}/ran", mode))
    assert not (tmp_path / "ran").exists()


@over(
    ("text", "word"),
    [
        ("", "does not give a number of at least 0"),
        ("many", "does not give a number"),
        ("-1", "does not give a number"),
        ("nan", "does not give a number"),
        ("inf", "does not give a number"),
        ("1" * 100_000, "does not give"),
    ],
)
def test_what_is_no_length(text: str, word: str, tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.write_text(text)
    if text.isdigit():
        assert length_of(str(queue)) == float("1" * 64), "only the begin is read"
        return
    with pytest.raises(QueueError, match=word):
        length_of(str(queue))


def test_a_queue_that_cannot_be_read_is_named_and_the_kernel_counts(tmp_path: Path) -> None:
    node = made(tmp_path, 1)
    node.tasks("/apps/web-1", "R")
    path = tmp_path / "none"
    begin, end = f"the queue of class web, {path},", "; what the kernel says counts instead"
    assert needy(node, queue=str(path)) == (True, f"{begin} cannot be read: No such file or directory{end}")
    os.mkfifo(path)
    assert needy(node, queue=str(path)) == (True, f"{begin} is no regular file{end}")


# -- programs -------------------------------------------------------------------------------------------------------


@over(
    ("line", "word"),
    [
        ("exit 3", "ended with 3: it printed nothing"),
        ("echo no bus >&2; exit 1", "ended with 1: no bus"),
        (r"printf 'a\033b\n'; exit 1", r"ended with 1: a\?b"),
        ("yes", "prints more than 4096 bytes, and was killed"),
        ("kill -9 $$", "ended with -9"),
    ],
)
def test_a_program_that_fails(line: str, word: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=word):
        run([program(tmp_path / "program", line)], 5.0)


@pytest.mark.slow
@over("line", ["sleep 60", "sleep 60 & exec >&- 2>&-; sleep 61", "sleep 60 &"])
def test_a_program_that_does_not_end_is_killed_with_its_group(line: str, tmp_path: Path) -> None:
    path = program(tmp_path / "program", f"echo $$ > {tmp_path}/pid\n{line}")
    began = time.monotonic()
    with pytest.raises(ProgramError, match=r"did not end within 1 s, and was killed"):
        run([path], 1.0)
    assert time.monotonic() - began < 30
    group = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 20
    while living(group):  # the kernel ends a killed process a moment later
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_does_not_end_with_the_unit_of_the_agent() -> None:
    """systemd sends SIGTERM to all processes of a unit that is stopped, and the agent puts back weights then."""
    assert run(["sh", "-c", "kill -TERM $$; echo went on"], 5.0) == "went on"
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ProgramError, match="cannot be run: No such file"):
        run(["/no/such/program"], 1.0)


def test_what_is_no_regular_file_is_not_even_opened(tmp_path: Path) -> None:
    """A service could put a link to a device in place of its queue, and opening some devices has effects. Opening a
    pipe lets its writer go on."""
    pipe, link = tmp_path / "pipe", tmp_path / "queue"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with subprocess.Popen(["sh", "-c", 'exec 3>"$0"', str(pipe)]) as writer:
        try:
            time.sleep(0.2)
            with pytest.raises(QueueError, match="is no regular file"):
                length_of(str(link))
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(0.3)
        finally:
            writer.kill()
