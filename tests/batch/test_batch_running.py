"""How commands of a batch system are run: limits, faults, and what is left of them."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

import pytest
import trio

from subord.services.batch.adapter import NAMES, adapter_of
from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.batch.running import Commands, Kept, Ran
from subord.services.batch.settling import Step, known, settle, wrong_name


async def test_what_a_command_prints() -> None:
    ran = await Commands({"WORD": "here"}).run("sh", "-c", 'cat; echo "$WORD $TZ" >&2; exit 3', given=b"given")
    assert ran == Ran(3, b"given", "here UTC\n")
    assert ran.words == "here UTC"


async def test_what_is_given_can_be_read_twice_by_name() -> None:
    """qconf does so with the file of a host."""
    ran = await Commands({}).run("sh", "-c", "cat /dev/stdin; cat /dev/stdin", given=b"ab")
    assert isinstance(ran, Ran)
    assert ran.output == b"abab"


async def test_without_input_it_waits_for_nothing() -> None:
    assert await Commands({}, time_s=20).run("cat") == Ran(0, b"", "")


async def test_without_a_free_file_no_command_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is raised: other work goes on."""

    def none_free(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", none_free)
    ran = await Commands({}).run("true")
    assert isinstance(ran, Unavailable)
    assert os.strerror(errno.EMFILE) in ran.reason


@pytest.mark.slow
async def test_a_command_that_does_not_end_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = f"trap '' TERM; sleep 1000 & echo $! >{file}; echo $$ >>{file}; wait"
    begin = time.monotonic()
    ran = await Commands({}, time_s=2.0).run("sh", "-c", script)
    assert isinstance(ran, Unavailable)
    assert (ran.fault, "has not ended in 2 s" in ran.reason) == (Fault.SLOW, True)
    assert time.monotonic() - begin < 60
    assert not [each for each in file.read_text().split() if is_there(each)]


def is_there(pid: str) -> bool:
    """A process that has ended may not have been waited for."""
    file = Path(f"/proc/{pid}/stat")
    return file.exists() and " Z " not in file.read_text()


async def test_a_command_that_prints_too_much_is_ended() -> None:
    begin = time.monotonic()
    ran = await Commands({}, time_s=60).run("yes", bytes_max=1 << 16)
    assert isinstance(ran, Unavailable)
    assert ran.fault == Fault.LARGE
    assert "65536 bytes" in ran.reason
    assert time.monotonic() - begin < 30


async def test_the_end_of_a_long_output_is_kept() -> None:
    ran = await Commands({}).run("seq", "200000", bytes_max=1000, keeps_last=True)
    assert isinstance(ran, Ran)
    assert (ran.is_cut, len(ran.output), ran.text.endswith("199999\n200000\n")) == (True, 1000, True)
    ran = await Commands({}).run("seq", "3", bytes_max=6, keeps_last=True)
    assert ran == Ran(0, b"1\n2\n3\n", "")


def test_of_a_long_output_little_is_in_memory() -> None:
    kept = Kept(10, keeps_last=True)
    for each in range(100):
        assert kept.take(b"%07d" % each)
        assert kept.held <= 27
    assert kept.value() == b"0980000099"


async def test_a_process_in_the_background_does_not_hold_up_the_answer() -> None:
    begin = time.monotonic()
    ran = await Commands({}).run("sh", "-c", "sleep 60 & echo done")
    assert isinstance(ran, Ran)
    assert ran.text == "done\n"
    assert time.monotonic() - begin < 30


async def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    ran = await Commands({}).run("qstat-of-nobody", "-xml")
    assert isinstance(ran, Unavailable)
    assert (ran.fault, "qstat-of-nobody is not on this node" in ran.reason) == (Fault.MISSING, True)
    (tmp_path / "squeue").write_text("no program")
    ran = await Commands({}).run(str(tmp_path / "squeue"))
    assert isinstance(ran, Unavailable)
    assert ran.fault == Fault.MISSING


async def test_the_umask_of_the_agent_is_not_that_of_commands() -> None:
    """sbatch gives its own to the job."""
    before = os.umask(0o077)
    try:
        ran = await Commands({}).run("sh", "-c", "umask")
    finally:
        os.umask(before)
    assert isinstance(ran, Ran)
    assert ran.text == "0022\n"


@pytest.mark.parametrize("words", [("echo", "a\0b"), ("echo", "\ud800"), ("env", "\0")], ids=ascii)
async def test_words_that_no_program_can_be_given(words: tuple[str, str]) -> None:
    ran = await Commands({}).run(*words)
    assert isinstance(ran, Unavailable)
    assert ran.fault == Fault.FAILED
    assert f"{words[0]} cannot be given its words" in ran.reason


async def test_words_before_each_command() -> None:
    ran = await Commands({}, ("env", "A=1")).run("sh", "-c", "echo $A")
    assert isinstance(ran, Ran)
    assert ran.text == "1\n"


async def test_commands_that_hang_do_not_pile_up() -> None:
    """Those that wait for others have the same time in all."""
    commands = Commands({}, time_s=1.0)
    answers: list[object] = []

    async def ask() -> None:
        answers.append(await commands.run("sleep", "100"))

    begin = time.monotonic()
    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(ask)
    assert len(answers) == 12
    assert all(isinstance(each, Unavailable) and each.fault == Fault.SLOW for each in answers)
    assert time.monotonic() - begin < 15


# -- effects ----------------------------------------------------------------------------------------------------


async def test_an_effect_that_changes_nothing_ends() -> None:
    async def plan() -> list[Step]:
        return [Step(("true",))]

    outcome = await settle(plan, Commands({}), ())
    assert isinstance(outcome, Unavailable)
    assert outcome.fault == Fault.FAILED
    assert "has not; what was done before stays" in outcome.reason


@pytest.mark.parametrize("name", NAMES)
def test_adapters_have_names(name: str) -> None:
    for method in ("queue", "hosts", "history", "drain", "undrain", "add", "remove"):
        assert callable(getattr(adapter_of(name), method))
    with pytest.raises(ValueError, match="no batch system is called 'torque'"):
        adapter_of("torque")


def test_the_interface_imports_no_adapter() -> None:
    """Their imports are heavy, and few nodes need them."""
    import subprocess

    script = "import sys, subord.services.batch.adapter as a; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert not loaded & {"trio", "xml", "msgspec", "subord.services.batch.running"}


def test_hosts_are_known_with_and_without_their_domain() -> None:
    names = ["n1.site", "n2", "n3.site", "n3.other"]
    assert known(names, "N1.site") == "n1.site"
    assert known(names, "n1") == "n1.site"
    assert known(names, "n2.site") == "n2"
    assert known(names, "n1.other") is None
    assert known(names, "n4") is None
    refused = known(names, "n3")
    assert isinstance(refused, Refused)
    assert "n3.other or n3.site; nothing was changed" in refused.reason


def test_words_that_are_no_names_of_hosts() -> None:
    assert [wrong_name(each) for each in ("n1", "n1.site", "N-1_x", "10.0.0.1")] == [None] * 4
    for each in ("", "-d", "*", "n1,n2", "n[1-2]", "n1 n2", "n1\n", "ALL=x", "ALL", "global", "localhost", "n" * 300):
        assert isinstance(wrong_name(each), Refused)
