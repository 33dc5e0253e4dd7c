"""Which queues a batch system has."""

from __future__ import annotations

from pathlib import Path

import pytest

from subord.services.batch.queues import WORDS, queues_of
from subord.services.batch.records import Fault, Unavailable


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """A program in the place of each command, which prints `out` and `err`, and ends with `code`."""
    for name in ("out", "err", "code"):
        (tmp_path / name).write_text("")
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ncd {tmp_path}\necho "$@" >words\ncat out\ncat err >&2\nexit $(cat code)\n')
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("name", WORDS)
async def test_names_are_listed_once(said: Path, name: str) -> None:
    (said / "out").write_text("short\nlong\nshort\n")
    assert await queues_of(name, prefix=(str(said / "program"),)) == ("long", "short")
    assert tuple((said / "words").read_text().split()) == WORDS[name]


@pytest.mark.parametrize(
    ("name", "words", "fault"),
    [
        ("gridengine", "error: commlib error: got select error (Connection refused)", Fault.SILENT),
        ("slurm", "sinfo: error: Unable to contact slurm controller (connect failure)", Fault.SILENT),
    ],
)
@pytest.mark.parametrize("code", ["0", "1"])
async def test_a_silent_batch_system_is_not_one_without_queues(
    said: Path, name: str, words: str, fault: Fault, code: str
) -> None:
    (said / "err").write_text(words)
    (said / "code").write_text(code)
    found = await queues_of(name, prefix=(str(said / "program"),))
    assert isinstance(found, Unavailable)
    assert found.fault == fault


async def test_without_the_command() -> None:
    found = await queues_of("gridengine", {"PATH": "/nowhere"})
    assert isinstance(found, Unavailable)
