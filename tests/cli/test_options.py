"""What all commands have in common: the options for questions, colours, and speed."""

from __future__ import annotations

import argparse
import json
import os
import pty
import resource
import subprocess
from collections.abc import Iterator

import pytest
from loops import over

from subord.cli import parser
from subord.client import exit_codes
from subord.services import METHODS
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.test_cli_errors import ENVIRONMENT, SUBORD
from tests.cli.test_cluster_wide import member
from tests.cli.test_events import SOME, answer

COLOURED = ("tree", "errors", "members", "events", "top --once")
ASKING = (*COLOURED, "status", "why", "wait --state placed", "tree --ghosts --down", "members --fold", "key list")
SPENT_S_MAX = 0.4
LARGE = World({1: None, **{number: max(1, number // 8) for number in range(2, 501)}})


def options(of: argparse.ArgumentParser, words: str = "subord") -> Iterator[tuple[str, set[str]]]:
    """The options of every command and action."""
    below = [each for each in of._actions if isinstance(each, argparse._SubParsersAction)]
    for sub in below:
        for name, each in sub.choices.items():
            yield from options(each, f"{words} {name}")
    if not below:
        yield words, {name for action in of._actions for name in action.option_strings}


@over(("command", "names"), [*options(parser())])
def test_commands_that_ask_have_timeouts_and_coloured_ones_no_color(command: str, names: set[str]) -> None:
    """A method of a batch system waits for as long as its job does."""
    if tuple(command.split()[1:]) not in METHODS:
        assert ("--socket" in names) == ("--timeout" in names)
    if command.partition(" ")[2] in {words.partition(" ")[0] for words in COLOURED}:
        assert {"--socket", "--no-color"} <= names


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    """The socket of a daemon in a cluster of 500."""
    members = [member(number, "gone" if number % 9 == 0 else "live") for number in range(1, 501)]
    for each in members:
        each["address"] = LARGE.settings.network.address_text_of(each["position"])
    found = {"asked": "10.0.0.1", "complete": True, "note": None, "members": members}
    changes = [{**SOME[2], "number": number} for number in range(256)]
    errors = {"asked": "10.0.0.1", "complete": True, "note": None, "nodes": 500, "more": 0, "older": []}
    problem = {"kind": "lost", "text": "lost its leader", "nodes": 250, "ago_s": 3.0}
    problem["addresses"] = [each["address"] for each in members[::2]]
    errors |= {"problems": [problem] * 40, "silent": [], "silent_nodes": 0, "older_nodes": 0}
    rings = {**errors, "rings": [{"revision": 1, "keys": ["00000000"], "nodes": 500, "addresses": [], "unsaved": 0}]}
    answers = {"/v1/members": found, "/v1/changes": answer(changes), "/v1/errors": errors, "/v1/keys": rings}
    with fake_daemon(
        LARGE.node(1), {page: fixed_answer(json.dumps(text).encode()) for page, text in answers.items()}
    ) as path:
        yield path


@pytest.mark.slow
@over("command", ASKING)
def test_500_nodes_take_little_time(large: str, command: str) -> None:
    """Processor time of the whole command, one time of three, because the machine may be busy."""
    spent_s: list[float] = []
    while len(spent_s) < 3 and min(spent_s, default=SPENT_S_MAX) >= SPENT_S_MAX:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [*SUBORD, *command.split(), "--socket", large]
        done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (exit_codes.OK, b"")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent_s) < SPENT_S_MAX


@pytest.mark.slow
@over(
    ("command", "words", "variables", "is_coloured"),
    [
        *((command, (), {}, True) for command in COLOURED),
        *((command, ("--no-color",), {}, False) for command in COLOURED),
        ("tree", (), {"NO_COLOR": "1"}, False),
        ("tree", (), {"NO_COLOR": ""}, True),
        ("tree", (), {"TERM": "dumb"}, False),
    ],
)
def test_colours(command: str, words: tuple[str, ...], variables: dict[str, str], is_coloured: bool) -> None:
    changes = json.dumps(answer(SOME)).encode()
    members = json.dumps({"asked": "10.0.0.1", "complete": True, "note": None, "members": [member(1)]}).encode()
    with fake_daemon(
        World().node(3), {"/v1/changes": fixed_answer(changes), "/v1/members": fixed_answer(members)}
    ) as path:
        environment = {**ENVIRONMENT, "TERM": "xterm-256color", **variables}
        master, slave = pty.openpty()
        run = [*SUBORD, *command.split(), *words, "--socket", path]
        child = subprocess.Popen(run, env=environment, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
        os.close(slave)
        shown = b""
        while True:
            try:
                shown += os.read(master, 65536)
            except OSError:  # EIO: its other end is closed
                break
        os.close(master)
        assert child.wait(30) == exit_codes.OK
    assert (b"\x1b[" in shown) == is_coloured


@pytest.mark.slow
@over("command", ASKING)
def test_a_reader_of_one_line_is_quiet(large: str, command: str) -> None:
    line = f'"$@" --socket {large} | head -n 1'
    words = ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}", "bash", *SUBORD, *command.split()]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode in {exit_codes.OK, exit_codes.PIPE_CLOSED}
    assert done.stdout.count("\n") <= 1
