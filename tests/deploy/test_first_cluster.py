"""docs/first-cluster.md, typed by an administrator on three machines that boot systemd and are wired together."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from clean_machine import Machine, overlaid, told, until
from machine_room import ADMIN, furnish, typed, wire

pytestmark = pytest.mark.lab
PAGE = Path(__file__).parents[2] / "docs" / "first-cluster.md"
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
COMMANDS_MAX = 40
"""Ten minutes of typing are not many commands."""


class Step(NamedTuple):
    """A block of commands, where it is typed, and what its last command is said to print."""

    where: str
    script: str
    shown: str


def steps() -> list[Step]:
    """Of the page, in its order. What stands before a block says where it is typed; else where the last one was."""
    found, where = [], "first"
    text = PAGE.read_text(encoding="utf-8")
    for before, script, shown in re.findall(
        r"(.*?)^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.DOTALL | re.MULTILINE
    ):
        places = re.findall(r"on (?:the )?(first|second|every) machine", before, re.IGNORECASE)
        where = places[-1] if places else where
        found.append(Step(where, script, shown))
    return found


def test_the_page_is_short() -> None:
    lines = [line for step in steps() for line in step.script.splitlines()]
    assert 10 < len(lines) < COMMANDS_MAX
    assert {step.where for step in steps()} == {"first", "second", "every"}
    assert sum(bool(step.shown) for step in steps()) == 2


@pytest.fixture(scope="module")
def machines(package: Path, base: Path) -> Iterator[list[Machine]]:
    """Booted and wired; on the first one lies the clone's dist/ with the package."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="subord-walk-")))
        told("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id")
        booted = []
        for number in range(len(ADDRESSES)):
            root = stack.enter_context(overlaid(base, folder / f"machine{number}"))
            furnish(root, folder)
            if not booted:
                (root / "home" / ADMIN / "subord" / "dist").mkdir(parents=True)
                shutil.copy(package, root / "home" / ADMIN / "subord" / "dist")
            machine = Machine(root)
            stack.callback(machine.close)
            booted.append(machine)
        wire(booted, ADDRESSES)
        yield booted


def test_whoever_types_the_page_has_a_cluster(machines: list[Machine]) -> None:
    for step in steps():
        script = step.script.removeprefix("./dev deb\n")  # built already, by that very command (conftest.py)
        rooms = {"first": machines[:1], "second": machines[1:2], "every": machines}[step.where]
        folder = f"/home/{ADMIN}/subord" if script != step.script else f"/home/{ADMIN}"
        if step.shown or "query" in script:
            wait_for(rooms[0], script, step.shown.strip() or "{} => 3 @", folder)
        else:
            for room in rooms:
                said = typed(room, script, folder)
    assert "missing" in said
    assert "returned" in said


def wait_for(machine: Machine, script: str, shown: str, folder: str) -> None:
    """Until what is typed prints what the page shows."""
    said = ""

    def is_shown() -> bool:
        nonlocal said
        said = typed(machine, script, folder, check=False)  # Prometheus may not listen yet
        return shown in said

    try:
        until(is_shown, f"{script!r} shows what the page shows")
    except AssertionError as error:
        raise AssertionError(f"{error}; last:\n{said}") from None
