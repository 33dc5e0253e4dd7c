"""The manual pages contain everything that --help prints, and the formatters report no errors."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from loops import over

from subord.cli import COMMANDS
from subord.client import exit_codes
from subord.config.schema import TABLES
from subord.config.validate import keys_of
from tests.helpers.documents import imported

build = imported("build_man")


@functools.cache
def pages() -> dict[str, str]:
    return build.pages()  # type: ignore[no-any-return]


def shown(tmp_path: Path, name: str) -> str:
    """The formatted page, on a wide terminal, as one line."""
    formatter = shutil.which("mandoc")
    if formatter is None:
        pytest.skip("no mandoc on this machine: apt-get install mandoc")
    (tmp_path / name).write_text(pages()[name], encoding="utf-8")
    command = [formatter, "-Tutf8", "-Owidth=1000", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return " ".join(re.sub(".\b", "", done.stdout).split())


def test_every_command_has_a_page() -> None:
    assert set(pages()) == {
        "subord.1",
        "subord.toml.5",
        "subord-agent.8",
        *(f"subord-{command}.1" for command in COMMANDS),
    }


@pytest.mark.slow
@over("command", COMMANDS)
def test_a_page_says_what_help_says(tmp_path: Path, command: str) -> None:
    text = shown(tmp_path, f"subord-{command}.1")
    _, parser, purpose = next(each for each in build.commands() if each[0][1] == command)
    assert f"NAME subord-{command} - {purpose}" in text
    below = [each for sub in build._below(parser) for each in sub.choices.values()]
    for each in below or [parser]:
        assert " ".join((each.description or "").split()) in text
        for action in each._actions:
            assert all(f"{name}" in text for name in action.option_strings)
            assert " ".join((action.help or "").split()).replace("%%", "%").partition("%(")[0].strip() in text


def test_the_overview_names_all(tmp_path: Path) -> None:
    text = shown(tmp_path, "subord.1")
    for command in COMMANDS:
        assert f" subord-{command}(1) " in text
    for code, meaning in exit_codes.MEANINGS.items():
        assert f" {code} {meaning}" in text


def test_the_configuration_has_every_key(tmp_path: Path) -> None:
    text = shown(tmp_path, "subord.toml.5")
    for table, kind in TABLES.items():
        assert f" [{table}] " in text
        assert all(f" {key} " in text for key in keys_of(kind))
    assert '[cluster] network = "10.0.0.0/24"' in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formatter", "package"), [("mandoc -Tlint -Wwarning", "mandoc"), ("groff -t -man -ww -z -Tutf8", "groff-base")]
)
def test_formatters_do_not_complain(tmp_path: Path, formatter: str, package: str) -> None:
    program, *options = formatter.split()
    if shutil.which(program) is None:
        pytest.skip(f"no {program} on this machine: apt-get install {package}")
    for name, text in pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [program, *options, str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False
        )
        output = (done.stdout + done.stderr).splitlines()
        assert [
            line for line in output if "missing date" not in line
        ] == []  # pages have no date, so that builds are reproducible


@pytest.mark.slow
def test_it_is_written_where_packages_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build.main(tmp_path)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"man/subord.1", "man/subord.toml.5", "completions/bash/subord", "completions/zsh/_subord"} <= written
    assert "completions/fish/subord.fish" in written
    assert (tmp_path / "man" / "subord.1").read_text(encoding="utf-8") == pages()["subord.1"]


@pytest.mark.parametrize("text", [".TH x", "'br", "a\\fBb", "--all", "it's `that` ^ ~"])
def test_nothing_in_a_text_is_a_request(tmp_path: Path, text: str) -> None:
    formatter = shutil.which("mandoc")
    if formatter is None:
        pytest.skip("no mandoc on this machine: apt-get install mandoc")
    page = tmp_path / "page.1"
    page.write_text(".TH X 1\n.SH NAME\nx \\- y\n.SH Z\n" + build._text(text) + "\n", encoding="utf-8")
    done = subprocess.run([formatter, "-Tascii", str(page)], capture_output=True, text=True, timeout=60, check=True)
    assert f"     {text}\n" in re.sub(".\b", "", done.stdout)
