"""`subord simulate`: wrong files, wrong options, Ctrl-C, and its output."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loops import over

from subord.cli import main
from subord.sim import campaign
from subord.sim.campaign import SEEDS_AT_ONCE, Verdict
from subord.sim.draw.aim import ANY, Aim
from subord.sim.scenario import file as scenario_file
from subord.sim.scenario.definition import ScenarioError

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
SUBORD = (sys.executable, "-m", "subord")
STARTS_WITHIN_S = 60.0
FAILING = """
title = "No tree is whole so soon"
cluster = { nodes = 3 }
steps = [{ do = "start" }, { do = "expect", within_s = 0 }]
"""


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/dev/zero", "no regular file"),
        (".", "Is a directory"),
        ("missing.toml", "No such file"),
        ("", "No such file"),
    ],
)
def test_unreadable_files(path: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path]) == 2
    output = capsys.readouterr().err
    assert complaint in output
    assert output.endswith(". Nothing was started.\n")


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = subprocess.run([*SUBORD, "simulate", tmp_path / "pipe"], capture_output=True, timeout=30, check=False)
    assert (ran.returncode, b"no regular file" in ran.stderr) == (2, True)


def test_of_a_large_file_only_a_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * 100)
    monkeypatch.setattr(scenario_file, "FILE_BYTES_MAX", 10)
    assert scenario_file._bytes_of(path) == b"#" * 11
    with pytest.raises(ScenarioError, match="another file"):
        scenario_file.load(path)


def test_bytes_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# a\ntitle = '\xe9'\n")
    assert main(["simulate", str(tmp_path / "latin.toml")]) == 2
    assert "line 2 is no text in UTF-8. Nothing was started." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plain.toml", "with space.toml", "it's; rm.toml", "-dash.toml"])
def test_the_printed_command_repeats_the_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(FAILING)
    assert main(["simulate", "--", name]) == 1
    output = capsys.readouterr().out
    command = shlex.split(output.partition("to see it: ")[2])
    assert main(command[1:]) == 1
    assert "step 2: expect" in capsys.readouterr().out


def test_an_unprintable_name_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\x1b[31m.toml").write_text(FAILING)
    assert main(["simulate", "a\x1b[31m.toml"]) == 1
    assert "to see it: the same command with --trace" in capsys.readouterr().out
    Path("a\x1b[31m.toml").write_text("title = 1")
    assert main(["simulate", "a\x1b[31m.toml"]) == 2
    assert "\x1b" not in capsys.readouterr().err


# -- options --------------------------------------------------------------------------------------------------------


@over(
    ("words", "complaint"),
    [
        ("--seeds 5 --trace", "--trace is for one scenario"),
        ("--seeds 5 --write", "--write is for one scenario"),
        ("--seed 5 --trace --write", "give one of them"),
        ("some.toml --mapping ip", "--mapping goes with --seed or --seeds: a file has `mapping` in its cluster"),
        ("some.toml --mapping latency --trace", "--mapping goes with --seed or --seeds"),
        ("some.toml --fanout 3", "--fanout goes with --seed or --seeds: a file has all settings itself"),
        ("some.toml --kinds kill", "--kinds goes with --seed or --seeds"),
        ("--seed 5 --fanout 1", "--fanout 1: 2 to 1024"),
        ("--seeds 5 --guest-slots 1025", "--guest-slots 1025: 1 to 1024"),
        ("--seeds 5 --nodes 20-10", "--nodes 20-10: 2 to 10000, the lower end first"),
        ("--seeds 5 --nodes 10001", "--nodes 10001-10001: 2 to 10000"),
        ("--seed 5 --kinds kill,fire", '--kinds: no kind "fire"; kinds: kill, vanish'),
        ("--seed 5 --first 0", "--first belongs to a campaign"),
        ("--seed 5 --jobs 1", "--jobs belongs to a campaign"),
        ("--seeds 0", "1 to 1000000 seeds"),
        ("--seeds 1000001", "1 to 1000000 seeds"),
        ("--seeds 5 --jobs 0", "1 to 256 processes"),
        ("--seeds 5 --jobs 257", "1 to 256 processes"),
        ("--seeds 2 --first 999999999999999999", "the last seed would be above 999999999999999999"),
    ],
)
def test_contradicting_options(words: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *words.split()]) == 2
    output = capsys.readouterr()
    assert complaint in output.err
    assert output.err.endswith(". Nothing was started.\n")
    assert output.out == ""


@pytest.mark.parametrize("word", ["speed", "IP", "latenc", ""])
def test_an_unknown_mapping(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--seeds", "1", "--mapping", word])
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert all(name in output.err for name in ("--mapping", "ip", "performance", "latency"))
    assert output.out == ""


@pytest.mark.parametrize("name", ["ip", "performance", "latency"])
def test_the_mapping_is_played_and_written(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that repeats a failure names it, too."""
    assert main(["simulate", "--seed", "3", "--mapping", name, "--write"]) == 0
    written = capsys.readouterr().out
    assert (f'mapping = "{name}"' in written) is (name != "ip")
    mappings: list[str] = []

    def note(seed: int, mapping: str, _aim: Aim) -> Verdict:
        mappings.append(mapping)
        return broken(seed, mapping)

    monkeypatch.setattr(campaign, "try_seed", note)
    assert main(["simulate", "--seeds", "1", "--jobs", "1", "--mapping", name]) == 1
    assert mappings == [name]
    again = "" if name == "ip" else f" --mapping {name}"
    assert f"  subord simulate --seed 0{again} --trace\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "complaint"),
    [
        ("1000000000000000000", "is too large: at most 999999999999999999"),
        ("9" * 5000, "is too large: at most 999999999999999999"),
        ("-1", "--first"),
        ("x", "x is no natural number"),
    ],
)
def test_numbers_beyond_the_bounds(number: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--seeds", "1", "--first", number])
    assert ended.value.code == 2
    output = capsys.readouterr().err
    assert complaint in output
    assert len(output) < 300


def test_the_exit_codes_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    output = capsys.readouterr().out
    page = (REPOSITORY / "docs" / "scenarios.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2].strip() for line in page.partition("## Exit codes")[2].splitlines() if "| " in line]
    for code in ("0", "1", "2", "130"):
        assert f"\n{code:>5}  " in output
        assert code in rows


# -- campaigns ------------------------------------------------------------------------------------------------------


@over(
    ("wanted", "seeds", "jobs"),
    [(200, 3, 1), (200, SEEDS_AT_ONCE + 1, 2), (4, 1000, 4), (1000, 100_000, campaign.JOBS_MAX), (1, 1000, 1)],
)
def test_processes_are_bounded_by_the_work(wanted: int, seeds: int, jobs: int) -> None:
    assert campaign._jobs(wanted, seeds) == jobs


def test_into_a_file_no_line_is_overwritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "try_seed", broken)
    assert main(["simulate", "--seeds", "9", "--jobs", "1"]) == 1
    output = capsys.readouterr()
    assert output.err == "9 of 9 seeds, 9 failed\n"
    assert output.out.startswith("seed 0: planted\n  subord simulate --seed 0 --trace\nseed 1: ")
    assert "\r" not in output.out + output.err
    assert "\x1b" not in output.out + output.err


def test_interrupted_after_failures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(seed: int, mapping: str, _aim: Aim) -> Verdict:
        if seed == 2 * SEEDS_AT_ONCE:
            raise KeyboardInterrupt
        return broken(seed, mapping) if seed in (3, 11) else Verdict(seed=seed, nodes=1)

    monkeypatch.setattr(campaign, "try_seed", interrupted)
    assert main(["simulate", "--seeds", "100", "--jobs", "1"]) == 130
    assert "Stopped: 16 of 100 seeds done, 2 failed: 3 11\n" in capsys.readouterr().out


def broken(seed: int, _mapping: str, _aim: Aim = ANY) -> Verdict:
    return Verdict(seed=seed, nodes=1, broken="S1", text="planted")


ENDLESS = """
import sys
from subord.cli import main
from subord.sim import campaign

played = campaign.try_seed

def play(seed, mapping, aim):
    while seed >= campaign.SEEDS_AT_ONCE:
        pass
    return played(seed, mapping, aim)

campaign.try_seed = play
sys.exit(main(["simulate", "--seeds", "1000000", "--jobs", sys.argv[1]]))
"""


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("whole_group", [False, True])
def test_interrupted(jobs: int, whole_group: bool) -> None:
    """Ctrl-C of a terminal signals the whole group, `kill -INT` only the first process. From the second piece on no
    seed ends.
    """
    command = [sys.executable, "-c", ENDLESS, str(jobs)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as ran:
        try:
            wait_until_busy(ran.pid, jobs)
            (os.killpg if whole_group else os.kill)(ran.pid, signal.SIGINT)
            output, complaint = ran.communicate(timeout=60)
        except BaseException:
            os.killpg(ran.pid, signal.SIGKILL)
            raise
    assert ran.returncode == 130
    assert output.startswith("Stopped: ")
    assert "of 1000000 seeds done, 0 failed" in output
    assert complaint == ""
    with pytest.raises(ProcessLookupError):
        os.killpg(ran.pid, 0)


def wait_until_busy(pid: int, jobs: int) -> None:
    """Until the first process, or each of the others, has computed for a while."""
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        others = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        busy = [each for each in others if ticks(each) > 20] if jobs > 1 else [pid] * (ticks(pid) > 150)
        if len(busy) >= jobs:
            return
        assert time.monotonic() < until
        time.sleep(0.02)


def ticks(pid: int | str) -> int:
    """Processor time so far, in hundredths of a second."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
