"""The commands of docs/shares.md, "Ten minutes on one machine", on a machine whose systemd sets weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from clean_machine import Machine, overlaid, told, until
from machine_room import ADMIN, furnish, typed
from weighed_machine import count_usage, weighed

pytestmark = pytest.mark.lab
PAGE = Path(__file__).parents[2] / "docs" / "shares.md"
SLICES = ("web.slice", "batch.slice", "rest.slice")
COMMANDS_MAX = 40
USED_WITHIN = 8.0
"""Percent: other tests run on the processors meanwhile, and a round is short."""


def steps() -> list[tuple[str, str]]:
    """The blocks of commands, and what the last command of each prints, or the end of it."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Ten minutes")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.DOTALL | re.MULTILINE)


def test_the_page_is_short() -> None:
    lines = [line for script, _ in steps() for line in script.splitlines()]
    assert 10 < len(lines) < COMMANDS_MAX
    assert sum(bool(expected) for _, expected in steps()) == 4


@pytest.fixture(scope="module")
def machine(package: Path, base: Path) -> Iterator[Machine]:
    with TemporaryDirectory(prefix="subord-shares-") as name:
        folder = Path(name)
        told("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id")
        with overlaid(base, folder / "machine") as root:
            furnish(root, folder)
            (root / "subord.deb").write_bytes(package.read_bytes())
            with weighed(root) as booted:
                booted.run("dpkg", "--install", "/subord.deb")
                yield booted


def test_the_commands_of_the_page_divide_a_machine(machine: Machine) -> None:
    for script, expected in steps():
        if "shares status" in script:
            wait_for(machine, script, partial(has_shares, expected=expected))
            continue
        if script.startswith("systemctl show"):
            wait_for(machine, script, expected.__eq__)
            continue
        output = typed(machine, script, f"/home/{ADMIN}")
        if "systemd-run" in script:
            count_usage(machine, SLICES)
        assert output.endswith(expected), f"{script}:\n{output}"
    assert typed(machine, end_of_the_loops(), f"/home/{ADMIN}") == ""
    assert machine.run("pgrep", "--full", "while :", check=False).stdout == ""
    assert "version 2 of admin is followed" in machine.journal("subord-agent")


def wait_for(machine: Machine, script: str, is_expected: Callable[[str], bool]) -> None:
    """Until a command prints what is expected: the agent works after the command that gives an order. In the first
    round `shares status` ends with exit code 1."""
    output = ""

    def is_there() -> bool:
        nonlocal output
        output = typed(machine, script, f"/home/{ADMIN}", check=False)
        return is_expected(output)

    try:
        until(is_there, f"{script!r} prints what the page shows")
    except AssertionError as error:
        raise AssertionError(f"{error}; last:\n{output}") from None


def has_shares(output: str, expected: str) -> bool:
    """The rows of the page, with what was used within some percent of all that the classes used."""
    found, documented = rows(output), rows(expected)
    if [row[:2] + row[3:] for row in found] != [row[:2] + row[3:] for row in documented]:
        return False
    used, shown = ([float(row[2]) for row in table] for table in (found, documented))
    return sum(used) > 0 and all(
        abs(100 * each / sum(used) - 100 * other / sum(shown)) <= USED_WITHIN
        for each, other in zip(used, shown, strict=True)
    )


def rows(output: str) -> list[list[str]]:
    """Of the classes: wanted, got, used, needy."""
    found = re.findall(r"^(?:web|batch|rest) +(.*)$", output, re.MULTILINE)
    return [each.split() for each in found]


def end_of_the_loops() -> str:
    (found,) = re.findall(r"^End the loops with `(.*)`\.$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)
