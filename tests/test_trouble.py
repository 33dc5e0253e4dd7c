"""The table of docs/trouble.md: commands that the program accepts, and texts that it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from loops import over

from subord import cli

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "trouble.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.partition("\n\n## ")[0].splitlines()
    if line.startswith("| [")
]
PROGRAM = "\n".join(path.read_text(encoding="utf-8") for path in sorted(REPOSITORY.glob("subord/**/*.py")))
OF_OTHERS = ("systemctl", "journalctl", "id", "date", "curl", "promtool")


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def is_command(text: str) -> bool:
    return text.startswith("subord ") or text.split(maxsplit=1)[0] in OF_OTHERS


def test_the_table_is_read() -> None:
    assert len(ROWS) >= 14
    assert {len(row) for row in ROWS} == {3}


@over("row", ROWS)
def test_a_row_names_one_command_and_leads_to_more(row: tuple[str, str, str]) -> None:
    seen, typed, _ = row
    (command,) = quoted(typed)
    assert is_command(command)
    assert re.search(r"\]\((?:\w+\.md)?#[\w-]+\)$", seen)


@pytest.mark.slow
@over("row", ROWS)
def test_its_commands_can_be_typed(row: tuple[str, str, str]) -> None:
    for command in (each for cell in row for each in quoted(cell) if each.startswith("subord ")):
        cli.parser().parse_args(shlex.split(command)[1:])


@over("row", ROWS)
def test_its_texts_are_those_of_the_program(row: tuple[str, str, str]) -> None:
    for words in (each for cell in row for each in quoted(cell) if not is_command(each)):
        known = words.strip("[]").removeprefix("node.").removeprefix("cluster.")
        assert known in PROGRAM or known == "subord" or re.fullmatch(r"\d+ nodes?", known), words
