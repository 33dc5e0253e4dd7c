"""The completion scripts, run by the shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import over

from subord.cli import COMMANDS, main
from subord.cli.completion import SHELLS, script
from subord.client import exit_codes
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon
from tests.cli.test_cli_errors import ENVIRONMENT

CASES = [
    ("subord tre", "tree"),
    ("subord e", "elastic errors events exec"),
    ("subord key re", "remove"),
    ("subord wait --state ", "placed stable"),
    ("subord tree --gh", "--ghosts"),
    ("subord config check sub", "subord.toml"),
    ("subord config check --her", "--here"),
    ("subord run --config sub", "subord.toml"),
    ("subord why 10.0.0.1", "10.0.0.1 10.0.0.10 10.0.0.11"),
    ("subord tree --from 10.0.0.4", "10.0.0.4"),
    ("subord completion ", "bash fish zsh"),
]
BASH = """\
source completion
COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
case $1 in *' ') COMP_WORDS+=(''); COMP_CWORD=$((COMP_CWORD + 1)) ;; esac
_shtab_subord
printf '%s\\n' "${COMPREPLY[@]}"
"""


def installed(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} on this machine: apt-get install {shell}")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a configuration, and a `subord` that asks a daemon of eleven nodes."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "subord.toml").touch()
    (folder / "groups").write_text("front: 10.0.0.1\nback: 10.0.0.2\n")
    program = folder / "bin" / "subord"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m subord "$@"\n')
    program.chmod(0o755)
    with fake_daemon(World().node(1)) as path:
        (folder / "socket").symlink_to(path)
        yield folder


def completed(place: Path, *command: str) -> str:
    """The words that a shell offers, each without its description, sorted."""
    environment = {**ENVIRONMENT, "HOME": str(place), "SUBORD_SOCKET": str(place / "socket"), "TERM": "dumb"}
    environment["SUBORD_GROUPS"] = str(place / "groups")
    environment["PATH"] = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, env=environment, cwd=place, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return " ".join(sorted({line.partition("\t")[0].strip() for line in done.stdout.splitlines()} - {""}))


@pytest.mark.slow
@over(("line", "words"), CASES)
def test_bash_completes(place: Path, line: str, words: str) -> None:
    bash = installed("bash")
    (place / "completion").write_text(script("bash"))
    assert completed(place, bash, "--norc", "-c", BASH, "bash", line) == words


@pytest.mark.slow
@over(
    ("line", "words"),
    [*CASES, ("subord why @f", "@front"), ("subord members @members:g", "@members:gone @members:guest")],
)
def test_fish_completes(place: Path, line: str, words: str) -> None:
    fish = installed("fish")
    (place / "completion").write_text(script("fish"))
    code = f"source completion; complete --do-complete '{line}'"
    assert completed(place, fish, "--no-config", "-c", code) == words


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_parses_it(tmp_path: Path, shell: str) -> None:
    (tmp_path / "completion").write_text(script(shell))
    command = [installed(shell), "-n", str(tmp_path / "completion")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_zsh_script_names_its_command() -> None:
    text = script("zsh")
    assert text.startswith("#compdef subord")
    assert all(f"    {command}:'" in text for command in COMMANDS)


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == exit_codes.OK
    assert capsys.readouterr().out == script("bash")


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["completion", "csh"])
    assert caught.value.code == exit_codes.USAGE
    assert "invalid choice: 'csh'" in capsys.readouterr().err
