"""`subord exec` on real daemons and agents, as an operator types it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from netlab.common.marks import marked
from netlab.common.waiting import wait_until
from netlab.lab import Lab
from netlab.processes.enter import command_in

from .lab_helpers import SUBORD, blocks, prints_as_shown, settled

pytestmark = pytest.mark.lab(few=True)

PAGE = (Path(__file__).parents[2] / "docs" / "exec.md").read_text(encoding="utf-8")
NODES = 9
WAIT_S_MAX = 60.0
END_S_MAX = 10.0
"""On a machine with nothing else to do it is less than 3 s."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        # A node that has only just become root does not know all members yet.
        until(lambda: typed(lab, "--state", "live", "-q", "true").returncode == 0, "all nodes run it")
        yield lab


def until(condition: Any, what: str, seconds: float = WAIT_S_MAX) -> None:
    assert wait_until(condition, seconds, 0.05), what


def typed(lab: Lab, *words: str, at: int = 5) -> subprocess.CompletedProcess[str]:
    return lab.run(at, SUBORD, "exec", "-n", *words)


@contextmanager
def running(lab: Lab, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command, while the nodes carry it out."""
    command = command_in(lab.options.name, "5", (SUBORD, "exec", "-n", *words))
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def shell(lab: Lab, line: str) -> subprocess.CompletedProcess[str]:
    """A line of the document, as a shell reads it."""
    return lab.run(5, "sh", "-c", line)


def test_the_document_shows_what_is_printed(lab: Lab) -> None:
    first, fetching = blocks(PAGE)
    prints_as_shown(first, lambda line: shell(lab, f"{line} 2>&1 </dev/null"))
    cutting, said, fetch = fetching.splitlines()
    done = shell(lab, f"{cutting.removeprefix('$ ')} </dev/null")
    (tag,) = re.findall(r"--fetch (\w+) NODE", done.stderr)
    assert done.stderr.replace(tag, "TAG").splitlines() == [said]
    assert shell(lab, fetch.removeprefix("$ ").replace("TAG", tag)).stdout.endswith("\n100000\n")


def test_the_lines_of_the_document_work(lab: Lab) -> None:
    lines = [each for each in re.findall(r"^(?:echo .*\| )?subord exec .*$", PAGE, re.MULTILINE) if "$ " not in each]
    assert len(lines) == 8
    for line in lines:
        done = shell(lab, line if line.startswith("echo") else f"{line} </dev/null")
        assert done.returncode == 0, (line, done.stderr)


def test_lines_with_the_node(lab: Lab) -> None:
    done = typed(lab, "-a", "--shell", "echo out; echo err >&2; echo $SUBORD_NODE")
    assert done.returncode == 0, done.stderr
    names = [lab.address(each) for each in lab.positions]
    assert sorted(done.stdout.splitlines()) == sorted(f"{each}: {word}" for each in names for word in ("out", each))
    *errors, last = done.stderr.splitlines()
    assert sorted(errors) == sorted(f"{each}: err" for each in names)
    assert last.startswith(f"{NODES} of {NODES} ended in ")


def test_folded_with_the_highest_exit_code(lab: Lab) -> None:
    done = typed(lab, "--below", lab.address(2), "-b", "-S", "--shell", "echo same; exit 3")
    assert done.returncode == 3
    rule = "-" * 15
    assert done.stdout.splitlines() == [rule, "10.0.0.[2,4-5,8-9] (5)", rule, "same"]
    assert "subord: 10.0.0.[2,4-5,8-9]: exit code 3" in done.stderr.splitlines()


def test_every_node_has_a_line_of_the_audit(lab: Lab) -> None:
    assert typed(lab, "-a", "-q", "echo", "audited").returncode == 0
    for each in lab.positions:
        log = (lab.directory.node(each) / "agent.log").read_text()
        assert "exec of operator as root runs echo audited (tag " in log
        assert "exec of operator as root ended, exited (0): echo audited (tag " in log


def test_long_words_and_bytes_that_are_no_text(lab: Lab) -> None:
    done = typed(lab, "-w", "10.0.0.[2,7]", "-b", "printf", "%s", "x" * 5_000)
    assert done.stdout.splitlines()[1:] == ["10.0.0.[2,7] (2)", "-" * 15, "x" * 5_000]
    command = command_in(lab.options.name, "5", (SUBORD, "exec", "-n", "-w", "10.0.0.7", "printf", r"\377\0\33"))
    done_bytes = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done_bytes.stdout == b"10.0.0.7: \xff\0\33\n"


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("no-such-command",), "subord: 10.0.0.[2-3]: command not found (No such file or directory)", 127),
        (("/etc/passwd",), "subord: 10.0.0.[2-3]: the command is not executable (Permission denied)", 126),
        (("--chdir", "/no/such", "true"), "subord: 10.0.0.[2-3]: there is no such directory", 126),
        (("--shell", "kill -9 $$"), "subord: 10.0.0.[2-3]: killed by signal 9", 137),
        (("-t", "0.3", "sleep", "9"), "subord: 10.0.0.[2-3]: ended when its time was over (-t)", 124),
        (("-u", "nobody", "true"), "0 of 2 ended in ", 1),
    ],
)
def test_what_goes_wrong_is_said(lab: Lab, words: tuple[str, ...], said: str, code: int) -> None:
    done = typed(lab, "-w", "10.0.0.[2-3]", "-S", *words)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert ("; missing: 10.0.0.[2-3] denied" in done.stderr) is ("nobody" in words)


def test_nodes_that_are_not_there(lab: Lab) -> None:
    done = typed(lab, "-w", "10.0.0.[3,77]", "echo", "here")
    assert (done.returncode, done.stdout) == (1, "10.0.0.3: here\n")
    assert "; missing: 10.0.0.77 unknown" in done.stderr.splitlines()[-1]
    for words in (("-w", "10.0.0.3", "-x", "10.0.0.3"), ("-w", "192.0.2.1"), ("--below", "10.0.0.77")):
        done = typed(lab, *words, "echo", "here")
        assert (done.returncode, done.stdout) == (68, ""), done.stderr
        assert "nothing was run" in done.stderr


def test_much_output_is_cut_and_can_be_fetched(lab: Lab) -> None:
    done = typed(lab, "-w", lab.address(7), "--json", "seq", "100000")
    node, covered = map(json.loads, done.stdout.splitlines())
    assert covered["complete"]
    assert node["kept"]
    assert len(node["output"]) + node["cut_bytes"] == 588_895
    done = typed(lab, "--fetch", node["tag"], lab.address(7))
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 100_001))
    done = typed(lab, "--fetch", node["tag"], lab.address(6))
    assert done.returncode == 1
    assert "keeps no such output" in done.stderr


def test_input_reaches_all(lab: Lab) -> None:
    command = command_in(lab.options.name, "5", (SUBORD, "exec", "-a", "-b", "cat"))
    done = subprocess.run(command, input=b"from one place\n", capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b"10.0.0.[1-9] (9)\n---------------\nfrom one place\n")


def test_every_node_signs_its_result(lab: Lab) -> None:
    """With as much output as a result takes."""
    words = ("-w", lab.address(3), "--receipts", "-q", "seq", "20000")
    until(lambda: typed(lab, *words).returncode == 0, "the keys of all nodes are known")
    done = typed(lab, *words)
    assert len(done.stdout.replace("10.0.0.3: ", "")) == 31_000 + 1, "a line that is cut in two has two ends"


def test_waves_stop_at_the_first_failure(lab: Lab, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/$SUBORD_NODE; test $SUBORD_NODE != {lab.address(4)}"
    done = typed(lab, "-a", "--batch", "3", "--shell", script)
    assert done.returncode == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == [lab.address(each) for each in range(1, 7)]
    assert "subord: not begun after the failure: 10.0.0.[7-9]" in done.stderr.splitlines()


def test_a_dry_run_says_which_node_would_not(lab: Lab, tmp_path: Path) -> None:
    done = typed(lab, "-a", "--dry-run", "touch", str(tmp_path / "x"))
    assert done.returncode == 0
    assert f"{NODES} of {NODES} answered the dry run" in done.stderr
    assert list(tmp_path.iterdir()) == []
    done = typed(lab, "-a", "--dry-run", "-u", "nobody", "touch", str(tmp_path / "x"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"0 of {NODES} answered the dry run; missing: 10.0.0.[1-9] denied"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_command_ends_all_processes(lab: Lab, tmp_path: Path, number: signal.Signals) -> None:
    mark = str(tmp_path)
    script = "trap '' TERM; (sleep 1000; echo) & timeout 1000 sleep 1000 & sleep 1000; sleep 1000"
    with running(lab, "-a", "--env", f"MARK={mark}", "--shell", script, stderr=subprocess.PIPE) as process:
        until(lambda: len(marked(mark)) >= 5 * NODES, "all run")
        os.killpg(process.pid, number)
        process.wait(END_S_MAX)
        until(lambda: not marked(mark), "all have ended", END_S_MAX)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert ("interrupted" in said) is (number == signal.SIGINT)


def test_a_reader_that_closes_the_pipe_ends_all(lab: Lab, tmp_path: Path) -> None:
    mark = str(tmp_path)
    script = "echo line; test $SUBORD_NODE = 10.0.0.3 || exec sleep 1000"
    words = ("-a", "--env", f"MARK={mark}", "--shell", script)
    with running(lab, *words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"10.0.0.3: line\n"
        process.stdout.close()
        until(lambda: len(marked(mark)) >= NODES - 1, "the others run")
        os.kill(marked(mark)[0], signal.SIGKILL)  # another node ends, so there is a line to write
        assert process.wait(WAIT_S_MAX) == 141
        until(lambda: not marked(mark), "all have ended", END_S_MAX)


def test_an_agent_that_is_told_to_stop_ends_what_it_runs(lab: Lab, tmp_path: Path) -> None:
    """systemd does so when the unit is stopped."""
    mark = str(tmp_path)
    words = ("-w", "10.0.0.[2-3]", "--env", f"MARK={mark}", "--shell", "trap '' TERM; sleep 60 & sleep 60; true")
    with running(lab, *words, stderr=subprocess.PIPE) as process:
        until(lambda: len(marked(mark)) >= 6, "both run")
        lab.kill_agent(3, signal.SIGTERM)
        until(lambda: len(marked(mark)) == 3, "one has ended")
        os.killpg(process.pid, signal.SIGINT)
        until(lambda: not marked(mark), "the other has ended", END_S_MAX)
    until(lambda: typed(lab, "-w", "10.0.0.3", "-q", "true").returncode == 0, "the agent is back")


def test_a_terminal_that_is_resized_meanwhile_shows_all(lab: Lab, tmp_path: Path) -> None:
    mark, (ours, theirs) = str(tmp_path), os.openpty()
    script = f"echo {'x' * 100}; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo last"
    words = ("-w", "10.0.0.[2-3]", "--env", f"MARK={mark}", "--shell", script)
    with running(lab, *words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        until(lambda: len(marked(mark)) >= 2, "both run")
        for size in ((3, 20), (60, 200), (1, 1)):
            termios.tcsetwinsize(theirs, size)
            os.killpg(process.pid, signal.SIGWINCH)
        (tmp_path / "go").touch()
        assert process.wait(WAIT_S_MAX) == 0
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        lines = terminal.read(4_096).decode().splitlines()
    assert sorted(lines[:-1]) == [f"10.0.0.{each}: {text}" for each in (2, 3) for text in ("last", "x" * 100)]
    assert lines[-1].startswith("2 of 2 ended in ")


def test_another_operator_lists_and_ends_a_command(lab: Lab, tmp_path: Path) -> None:
    mark = str(tmp_path)
    script = "echo begun; sleep 1000; true"
    words = ("-w", "10.0.0.[2-8]", "--env", f"MARK={mark}", "-b", "--shell", script)
    with running(lab, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: len(marked(mark)) >= 14, "all run")
        said = f"  operator as root  10.0.0.[2-8]  /bin/sh -c '{script}'"
        listed: list[str] = []

        def is_listed() -> bool:
            listed[:] = typed(lab, "--list", at=3).stdout.splitlines()
            return len(listed) == 1 and listed[0].endswith(said)

        until(is_listed, f"all nodes say what they run: {listed}")
        tag = listed[0].removesuffix(said)
        done = typed(lab, "--cancel", tag, at=3)
        assert done.returncode == 0
        assert "subord: ended on 7 of 9 nodes" in done.stderr.splitlines()
        out, err = process.communicate(timeout=WAIT_S_MAX)
    assert out.endswith(b"10.0.0.[2-8] (7)\n---------------\nbegun\n")
    assert b"subord: 10.0.0.[2-8]: ended by an operator (--cancel)" in err.splitlines()
    until(lambda: not marked(mark), "all have ended", END_S_MAX)


def test_another_terminal_follows_a_command(lab: Lab, tmp_path: Path) -> None:
    """One that is interrupted, and one to the end; the command goes on, and prints the same."""
    script = f"echo first; test $SUBORD_NODE = 10.0.0.3 || while ! test -e {tmp_path}/go; do sleep 0.05; done"
    with running(lab, "-a", "--shell", script, stdout=subprocess.PIPE) as process:
        tags: list[str] = []
        pattern = re.compile(r"^(\w+)  .*echo first", re.MULTILINE)
        until(lambda: tags.extend(pattern.findall(typed(lab, "--list").stdout)) or tags, "it runs")
        tag = tags[0]
        with running(lab, "--attach", tag, stdout=subprocess.PIPE) as gone:
            assert gone.stdout is not None
            assert gone.stdout.readline() == b"10.0.0.3: first\n"
            os.killpg(gone.pid, signal.SIGINT)
            assert gone.wait(WAIT_S_MAX) == 130
        with running(lab, "--attach", tag, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"10.0.0.3: first\n"
            (tmp_path / "go").touch()
            rest, err = follower.communicate(timeout=WAIT_S_MAX)
        out, _ = process.communicate(timeout=WAIT_S_MAX)
    assert (follower.returncode, process.returncode) == (0, 0), err
    assert sorted(out.splitlines()) == sorted([b"10.0.0.3: first", *rest.splitlines()])
    assert len(out.splitlines()) == NODES
    assert typed(lab, "--attach", tag).returncode == 68


def test_a_leader_that_dies_meanwhile_costs_only_itself(lab: Lab, tmp_path: Path) -> None:
    """2 is the leader of 5, where the command is given; each of the others runs it once, and is told."""
    mark, times = str(tmp_path), tmp_path / "times"
    script = f"echo $SUBORD_NODE >> {times}; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo went"
    words = ("-a", "--env", f"MARK={mark}", "-b", "--shell", script)
    with running(lab, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: times.exists() and len(times.read_text().splitlines()) == NODES, "all run")
        lab.kill(2)
        until(lambda: len(lab.document(1, "/v1/tree")["roots"]) == 1, "the root answers")
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode == 1, err
    assert out.splitlines()[1] == b"10.0.0.[1,3-9] (8)"
    assert err.splitlines()[-1].startswith(b"8 of 9 ended in "), err
    assert b"missing: 10.0.0.2 " in err.splitlines()[-1]
    assert sorted(times.read_text().splitlines()) == [lab.address(each) for each in lab.positions]
    lab.start_and_wait(2)
    until(lambda: typed(lab, "-a", "-q", "true").returncode == 0, "all nodes run it again")


def test_a_node_whose_agent_is_killed_is_missing(lab: Lab, tmp_path: Path) -> None:
    """And what it ran has no outcome; the others are not disturbed."""
    mark = str(tmp_path)
    begun = [tmp_path / lab.address(each) for each in (6, 7)]
    script = f"touch {tmp_path}/$SUBORD_NODE; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo went"
    words = ("-w", "10.0.0.[6-7]", "--env", f"MARK={mark}", "--shell", script)
    with running(lab, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: all(each.exists() for each in begun), "both run")
        assert lab.kill_agent(6)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode == 1
    assert out == b"10.0.0.7: went\n"
    assert b"missing: 10.0.0.6 outcome unknown" in err.splitlines()[-1]
    until(lambda: not marked(mark), "the file ends it")
    until(lambda: typed(lab, "-w", "10.0.0.6", "-q", "true").returncode == 0, "the agent is back")


def test_a_node_without_an_agent_is_missing(lab: Lab) -> None:
    """The last test: node 4 has none from now on. It carries orders for others."""
    lab.remove_agent(4)
    done = typed(lab, "--below", lab.address(4), "echo", "ran")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (1, ["10.0.0.8: ran", "10.0.0.9: ran"])
    assert "; missing: 10.0.0.4 no agent" in done.stderr.splitlines()[-1]
