"""The commands of docs/first-cluster.md, on three machines that boot systemd and share a network."""

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
COMMANDS_MAX = 48
"""Ten minutes allow only few commands."""


class Step(NamedTuple):
    """A block of commands, its machine, and the documented output of its last command."""

    where: str
    script: str
    expected: str


def steps() -> list[Step]:
    """The steps of the page in order. The text before a block names its machine; otherwise it is that of the block
    before.
    """
    found, where = [], "first"
    text = PAGE.read_text(encoding="utf-8")
    for before, script, expected in re.findall(
        r"(.*?)^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.DOTALL | re.MULTILINE
    ):
        places = re.findall(r"on (?:the )?(first|second|third|every) machine", before, re.IGNORECASE)
        where = places[-1] if places else where
        found.append(Step(where, script, expected))
    return found


def test_the_page_is_short() -> None:
    lines = [line for step in steps() for line in step.script.splitlines()]
    assert 10 < len(lines) < COMMANDS_MAX
    assert {step.where for step in steps()} == {"first", "second", "third", "every"}
    assert sum(bool(step.expected) for step in steps()) == 5


@pytest.fixture(scope="module")
def machines(package: Path, base: Path) -> Iterator[list[Machine]]:
    """Booted and connected; the first has dist/ with the package in its clone."""
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


def test_the_commands_of_the_page_make_a_cluster(machines: list[Machine]) -> None:
    outputs = []
    for step in steps():
        script = step.script.removeprefix("./dev deb\n")  # built already, by this command (conftest.py)
        rooms = {"first": machines[:1], "second": machines[1:2], "third": machines[2:], "every": machines}[step.where]
        folder = f"/home/{ADMIN}/subord" if script != step.script else f"/home/{ADMIN}"
        if "subord events" in script:  # a return is an event some seconds after it was seen
            wait_for(rooms[0], script, "returned", folder)
            outputs.append(typed(rooms[0], script, folder))
        elif step.expected or "query" in script:
            wait_for(rooms[0], script, step.expected.strip() or "{} => 3 @", folder)
        else:
            outputs += [typed(room, script, folder) for room in rooms]
    assert any("missing" in output and "returned" in output for output in outputs)


def wait_for(machine: Machine, script: str, expected: str, folder: str) -> None:
    """Until the commands print the documented output."""
    output = ""

    def has_expected() -> bool:
        nonlocal output
        output = typed(machine, script, folder, check=False)  # Prometheus may not listen yet
        return expected in output

    try:
        until(has_expected, f"{script!r} prints the documented output")
    except AssertionError as error:
        raise AssertionError(f"{error}; last:\n{output}") from None
