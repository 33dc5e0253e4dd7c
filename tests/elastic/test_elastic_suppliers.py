"""The commands of a supplier of nodes, as real programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from subord.config.schema import ElasticConfig
from subord.services.elastic.suppliers import RUNS_MAX, CommandSupplier, Failed, Started, listed, unsafe


def program(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def supplier(**settings: Any) -> CommandSupplier:
    return CommandSupplier(replace(ElasticConfig(), **settings))


async def failed(found: Any) -> str:
    assert isinstance(found, Failed)
    return found.reason


async def test_an_address_is_written_as_everywhere_else(tmp_path: Path) -> None:
    """So that two nodes with one address are found, and none gets an address that is valid on one node alone."""
    start = program(tmp_path / "start", "echo FD00:0::0001")
    assert await supplier(start=start).start("node001", "") == Started("fd00::1")
    start = program(tmp_path / "start", "echo fe80::1%eth0")
    assert "which is no address" in await failed(await supplier(start=start).start("node001", ""))
    assert listed("node001 FD00:0::1\n") == {"node001": "fd00::1"}


async def test_the_last_line_is_the_address(tmp_path: Path) -> None:
    start = program(tmp_path / "start", 'echo "starting $1 of $2 ($#)" >&2; echo 10.9.9.9; echo 10.0.0.1; echo')
    found = supplier(start=(*start, "word"))
    assert await found.start("node001", "small") == Started("10.0.0.1")
    said = program(tmp_path / "said", 'echo "$@" > "$(dirname "$0")/words"; echo fd00::1')
    assert await supplier(start=said).start("node001", "") == Started("fd00::1")
    assert (tmp_path / "words").read_text() == "node001\n"
    assert await supplier(start=said).start("node001", "small") == Started("fd00::1")
    assert (tmp_path / "words").read_text() == "node001 small\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo starting", "printed 'starting' in its last line, which is no address"),
        ("true", "printed '' in its last line"),
        ("echo no credit >&2; echo 10.0.0.1; exit 3", "elastic.start ended with 3: no credit"),
        ("kill -9 $$", "elastic.start was ended by signal 9"),
    ],
)
async def test_a_start_that_fails_has_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    found = await supplier(start=program(tmp_path / "start", text)).start("node001", "")
    assert reason in await failed(found)


async def test_a_stop_ends_with_0(tmp_path: Path) -> None:
    stop = program(tmp_path / "stop", 'test "$1" = node001 || { echo "no such node" >&2; exit 1; }')
    assert await supplier(stop=stop).stop("node001") is None
    assert await failed(await supplier(stop=stop).stop("node002")) == "elastic.stop ended with 1: no such node"


async def test_the_list_has_names_and_addresses(tmp_path: Path) -> None:
    assert await supplier().list() is None
    some = program(tmp_path / "list", "echo node001 10.0.0.1; echo; echo 'node002  10.0.0.2 '")
    assert await supplier(list=some).list() == {"node001": "10.0.0.1", "node002": "10.0.0.2"}
    none = program(tmp_path / "none", "true")
    assert await supplier(list=none).list() == {}
    fails = program(tmp_path / "fails", "echo node001 10.0.0.1; exit 1")
    assert isinstance(await supplier(list=fails).list(), Failed)


@pytest.mark.parametrize("text", ["node001", "node001 x", "10.0.0.1 node001", "node001 10.0.0.1 x"])
def test_a_list_with_a_wrong_line_does_not_count(text: str) -> None:
    found = listed(f"node007 10.0.0.7\n{text}\n")
    assert isinstance(found, Failed)
    assert found.reason.startswith(f"elastic.list printed {text!r}; its answer is left out")


def test_a_list_that_is_too_long_does_not_count() -> None:
    assert isinstance(listed("".join(f"n{number} 10.0.0.1\n" for number in range(10_001))), Failed)
    assert len(listed("".join(f"n{number} 10.0.0.1\n" for number in range(10_000)))) == 10_000


async def test_commands_that_are_not_set_are_named() -> None:
    assert "elastic.start is not set; nothing was done" in await failed(await supplier().start("node001", ""))
    assert "elastic.stop is not set" in await failed(await supplier().stop("node001"))


@pytest.mark.slow
async def test_a_command_that_hangs_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    text = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    start = program(tmp_path / "start", text)
    found = CommandSupplier(replace(ElasticConfig(), start=start))
    found._commands._time_s = 0.5
    assert "has not ended in 900 s, and was killed" in await failed(await found.start("node001", ""))
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert await trio.to_thread.run_sync(lambda: not status.exists() or " Z " in status.read_text())


@pytest.mark.slow
async def test_a_list_that_prints_too_much_does_not_count(tmp_path: Path) -> None:
    endless = program(tmp_path / "list", "exec yes 'node001 10.0.0.1'")
    assert "printed more than 1048576 bytes, and was killed" in await failed(await supplier(list=endless).list())


@pytest.mark.slow
async def test_at_most_some_commands_run_at_once(tmp_path: Path) -> None:
    run, counts_file = f"{tmp_path}/run", tmp_path / "counts"
    text = f"mkdir {run}.$1; ls -d {run}.* | wc -l >> {counts_file}; sleep 0.3; rmdir {run}.$1"
    found = supplier(stop=program(tmp_path / "stop", text))
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(found.stop, f"node{number}")
    counts = [int(each) for each in counts_file.read_text().split()]
    assert len(counts) == 20
    assert 2 <= max(counts) <= RUNS_MAX


async def test_what_other_users_can_change_is_not_run(tmp_path: Path) -> None:
    start = program(tmp_path / "start", "echo 10.0.0.1")
    assert unsafe(start) == ""
    (tmp_path / "start").chmod(0o777)
    found = await failed(await supplier(start=start).start("node001", ""))
    assert found.startswith(f"elastic.start is not run: {start[0]} is not run: other users can change it")
    assert "other users can change it" in unsafe(("/bin/sh", start[0]))
    assert unsafe(("sh", "-c", "echo 10.0.0.1")) == ""
    assert "was not found in /usr/local/sbin" in unsafe(("no-such-program",))
    missing = await failed(await supplier(start=(str(tmp_path / "missing"),)).start("node001", ""))
    assert "cannot be run: No such file" in missing


async def test_a_program_that_cannot_start_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "start").write_text("echo 10.0.0.1")
    (tmp_path / "start").chmod(0o644)
    found = await failed(await supplier(start=(str(tmp_path / "start"),)).start("node001", ""))
    assert "cannot be started on this node: correct the configuration" in found
