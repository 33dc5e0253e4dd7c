"""The end of a command: exit codes, one plain line, no traceback for a user's mistake, a fast start."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loops import over

import subord
from subord.cli import COMMANDS, main
from subord.client import exit_codes, options
from subord.client.errors import CommandError, guarded
from subord.config import load
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(subord.__file__).parents[1])}
SUBORD = [sys.executable, "-m", "subord"]
POSITION = [*SUBORD, "position", "10.0.0.6", "--network", "10.0.0.0/24"]
HEAVY = {"shtab", "msgspec", "trio", "rich", "netifaces", "hypercorn", "starlette", "prometheus_client", "tomllib"}


def failing(error: BaseException) -> int:
    def work() -> int:
        raise error

    return guarded(work)


def test_the_exit_codes_are_an_interface() -> None:
    """Scripts depend on these numbers."""
    assert list(exit_codes.MEANINGS) == [0, 1, 2, 68, 69, 70, 74, 75, 77, 78, 130, 141]
    assert (exit_codes.NOT_REACHED, exit_codes.NO_SUCH_NODE, exit_codes.DAEMON_UNREACHABLE) == (1, 68, 69)
    assert (exit_codes.TRY_AGAIN, exit_codes.PERMISSION, exit_codes.CONFIGURATION) == (75, 77, 78)


def test_help_lists_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert exit_codes.table() in text
    assert all(re.search(rf"\n    {command}\s+\w", text) for command in COMMANDS)


@over("command", COMMANDS)
def test_every_command_has_its_own_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: subord {command}" in capsys.readouterr().out
    assert callable(importlib.import_module(COMMANDS[command]).run)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"subord {subord.__version__}\n"


@over(
    ("words", "line"),
    [
        ([], "the following arguments are required: COMMAND; see subord --help"),
        (["tre"], "argument COMMAND: invalid choice: 'tre'"),
        (["config"], "the following arguments are required: ACTION; see subord config --help"),
        (["config", "check"], "the following arguments are required: FILE; see subord config check --help"),
        (["position"], "the following arguments are required: ADDRESS; see subord position --help"),
        (["position", "10.0.0.1", "--netw", "x"], "unrecognized arguments: --netw x; see subord position --help"),
        (["position", "10.0.0.1", "a\nb"], "unrecognized arguments: a b; see subord position --help"),
        (["key", "list", "--bogus"], "unrecognized arguments: --bogus; see subord key list --help"),
        (["run", "--set"], "argument --set: expected one argument; see subord run --help"),
    ],
)
def test_a_wrong_command_line_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == exit_codes.USAGE
    captured = capsys.readouterr()
    assert captured.err.startswith(f"subord: {line}")
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_an_expected_failure_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(CommandError("not\nthere", exit_codes.NO_SUCH_NODE)) == exit_codes.NO_SUCH_NODE
    assert capsys.readouterr().err == "subord: not there\n"


def test_a_bug_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyError("position")) == exit_codes.INTERNAL
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "subord: this is a bug in subord (KeyError); please report it with the lines above"


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (KeyboardInterrupt(), 130),
        (BaseExceptionGroup("nursery", [BaseExceptionGroup("inner", [KeyboardInterrupt()])]), 130),
        (BaseExceptionGroup("nursery", [KeyboardInterrupt(), ValueError()]), 70),
        (OSError(28, "No space left on device"), 74),
        (OSError(28, "No space left on device", "/some/file"), 70),
        (MemoryError(), 70),
    ],
)
def test_exit_codes_of_other_exceptions(
    capfd: pytest.CaptureFixture[str], error: BaseException, exit_code: int
) -> None:
    # In its own process, because the rest of the output is discarded for good.
    if (child := os.fork()) == 0:
        os._exit(failing(error))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == exit_code
    quiet = exit_code == exit_codes.INTERRUPTED
    assert (capfd.readouterr().err == "") is quiet


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    fifo = tmp_path / "subord.toml"
    os.mkfifo(fifo)
    command = [*SUBORD, "config", "check", str(fifo)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        with fifo.open("wb"):  # returns when the command has opened it and waits for the text
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=30) == (b"", b"")
        assert child.returncode == exit_codes.INTERRUPTED


@over("unbuffered", ["", "1"])
@over("command", [POSITION, [*SUBORD, "--help"], [*SUBORD, "--version"]])
def test_a_closed_pipe_is_quiet(command: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, env=environment, stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False)
    os.close(writer)
    assert (done.stderr, done.returncode) == (b"", exit_codes.PIPE_CLOSED)


@pytest.mark.slow
@over("unbuffered", ["", "1"])
@over("command", [POSITION, [*SUBORD, "--help"], [*SUBORD, "tree", "--help"], [*SUBORD, "--version"]])
def test_a_full_disk_is_a_plain_error(command: list[str], unbuffered: str) -> None:
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    assert done.stderr == b"subord: cannot write the output: No space left on device\n"
    assert done.returncode == exit_codes.OUTPUT


@pytest.mark.slow
def test_a_closed_output_is_no_failure() -> None:
    with fake_daemon(World().node(3)) as path:
        for words in (POSITION, *([*SUBORD, name, "--socket", path] for name in ("tree", "members", "errors"))):
            command = ["sh", "-c", 'exec "$@" >&-', "sh", *words]
            done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=30, check=False)
            assert (done.stderr, done.returncode) == (b"", exit_codes.OK), words


FAILURES = {
    exit_codes.DAEMON_UNREACHABLE: [*SUBORD, "tree", "--socket", "/nonexistent/c"],
    exit_codes.USAGE: [*SUBORD, "tree", "--no-such-option"],
    exit_codes.NO_SUCH_NODE: [*SUBORD, "position", "10.1.0.1", "--network", "10.0.0.0/24"],
    exit_codes.INTERNAL: [
        sys.executable,
        "-c",
        "from subord.client.errors import guarded; exit(guarded(lambda: {}[1]))",
    ],
}


@pytest.mark.parametrize("exit_code", FAILURES)
def test_a_closed_standard_error_gets_nothing_and_the_output_neither(exit_code: int) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *FAILURES[exit_code]]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=30, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", exit_code)


@pytest.mark.slow
@over("exit_code", FAILURES)
@over("unbuffered", ["", "1"])
def test_a_standard_error_that_takes_nothing_keeps_the_exit_code(exit_code: int, unbuffered: str) -> None:
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            FAILURES[exit_code], env=environment, stdout=subprocess.PIPE, stderr=full, timeout=30, check=False
        )
    assert (done.stdout, done.returncode) == (b"", exit_code)


def test_what_is_opened_later_does_not_become_a_standard_stream() -> None:
    """Otherwise the next socket would get the descriptor, and its peer the output of the stream."""
    code = (
        "from subord.client.errors import guarded; import os; print(guarded(lambda: os.open('/', os.O_RDONLY)) > 2)"
    )
    command = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, timeout=30, check=True)
    assert done.stdout == b"True\n"


@pytest.mark.parametrize(
    ("option", "variable", "path"),
    [
        (None, None, "/run/subord/control.sock"),
        (None, "", "/run/subord/control.sock"),
        (None, "/from/variable", "/from/variable"),
        ("", "/from/variable", "/from/variable"),
        ("/from/option", "/from/variable", "/from/option"),
    ],
)
def test_the_socket_path_is_option_variable_or_default(
    monkeypatch: pytest.MonkeyPatch, option: str | None, variable: str | None, path: str
) -> None:
    monkeypatch.delenv(options.SOCKET_VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(options.SOCKET_VARIABLE, variable)
    parser = argparse.ArgumentParser()
    options.add_asking(parser)
    words = [] if option is None else [f"--socket={option}"]
    assert options.socket_path(parser.parse_args(words)) == path


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_path_too_long_for_a_socket_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """In bytes, as the kernel counts them."""
    longest = "/nonexistent/" + "ä" * 47
    too_long = f"{longest}a"
    assert len(os.fsencode(longest)) == options.PATH_BYTES_MAX == load.UNIX_PATH_BYTES_MAX
    for command in ("status", "tree", "wait"):
        monkeypatch.setenv(options.SOCKET_VARIABLE, too_long)
        words = ["--socket", too_long] if way == "option" else []
        assert main([command, *words]) == exit_codes.USAGE
        assert capsys.readouterr().err.startswith(
            f"subord: the path {too_long} is too long for a socket: 108 bytes, not at most 107; choose another with"
        )
    assert main(["status", "--socket", longest]) == exit_codes.DAEMON_UNREACHABLE


def modules_after(code: str) -> set[str]:
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_parsing_imports_nothing_heavy() -> None:
    assert not HEAVY & modules_after("from subord.cli import parser; parser()")


def test_position_imports_nothing_heavy() -> None:
    words = POSITION[len(SUBORD) :]
    modules = modules_after(f"from subord.cli import main; main({words!r})")
    assert not HEAVY & modules
    assert not set(COMMANDS.values()) & modules - {"subord.cli.position"}


@pytest.mark.parametrize(("words", "most"), [(POSITION[len(SUBORD) :], 100), (["--help"], 170), (["--version"], 170)])
def test_a_start_imports_little(words: list[str], most: int) -> None:
    """The imports determine the cost of a start; their time depends on the machine."""
    run = f"import contextlib; from subord.cli import main\nwith contextlib.suppress(SystemExit): main({words!r})"
    imported = modules_after(run) - modules_after("")
    assert not HEAVY & imported
    assert 50 < len(imported) < most, sorted(imported)
