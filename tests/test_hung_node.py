"""A hanging node delays no command: real daemons, of which one is stopped (SIGSTOP).

Only the order is checked, not the time: the answer comes before the hanging node is given up, which takes `wan` nodes
7.5 s or more.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from subord.cli import main
from subord.client import exit_codes
from tests.test_daemon import ENVIRONMENT, SINGLE, Started, inside, until

pytestmark = pytest.mark.slow

__all__ = ["inside"]  # a fixture

NODES = 5
OPTIONS = ("cluster.fanout=2", "cluster.timing=wan", f"cluster.network={SINGLE}.[1-9]")
PAGES = ("tree?form=rows", "errors", "members", "changes", "keys", "why", "status")
COMMANDS = {
    "tree": "incomplete: ",
    "tree --ghosts": "incomplete: ",
    "tree --down": "incomplete: ",
    "errors": "incomplete: ",
    "members": "incomplete: ",
    "status --addresses": f"{SINGLE}.5  position 5",
    "why --addresses": f"{SINGLE}.5  home",
    "events": "joined",
    "key list": "incomplete: ",
    "top --once": "incomplete: ",
}


class Answer(NamedTuple):
    exit_code: int
    text: str


@pytest.fixture(scope="module")
def cluster(inside: list[str]) -> Iterator[dict[int, Started]]:
    """Five daemons with fan-out 2: 2 and 3 below 1, 4 and 5 below 2."""
    nodes: dict[int, Started] = {}
    with TemporaryDirectory(prefix="s") as name:
        try:
            for number in range(1, NODES + 1):
                folder = Path(name) / str(number)
                folder.mkdir()
                nodes[number] = Started(inside, folder, f"{SINGLE}.{number}", *OPTIONS)
            until(lambda: all(each.is_ready() for each in nodes.values()), "all are ready")
            root = nodes[1]
            until(lambda: [row["level"] for row in rows(root)] == [0, 1, 2, 2, 1], "all are at home")
            yield nodes
        finally:
            for each in nodes.values():
                each.process.kill()
                each.process.wait()


def rows(node: Started) -> list[dict[str, object]]:
    found: list[dict[str, object]] = node.show("tree?form=rows")["rows"]
    return found


def run(node: Started, *commands: str) -> dict[str, Answer]:
    """Run the commands at the same time."""
    children = {}
    for command in commands:
        words = [sys.executable, "-m", "subord", *command.split(), "--socket", str(node.control)]
        children[command] = subprocess.Popen(
            words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    answers = {}
    for command, child in children.items():
        text, _ = child.communicate(timeout=60)
        answers[command] = Answer(child.returncode, text)
    return answers


def is_whole(node: Started, command: str) -> bool:
    """Whether the answer is complete; on a busy machine a node may be late."""
    (answer,) = run(node, command).values()
    assert answer.exit_code == 0, answer
    return "incomplete" not in answer.text


@contextmanager
def hung(cluster: dict[int, Started], what: str) -> Iterator[None]:
    """Stop the root meanwhile, and check that no node gave it up."""
    before = losses(cluster)
    cluster[1].tell(signal.SIGSTOP)
    try:
        yield
        assert losses(cluster) == before, f"{what}: not answered before the root was given up"
    finally:
        cluster[1].tell(signal.SIGCONT)
    until(lambda: cluster[5].show("tree?form=rows")["complete"], "the root answers again")


def losses(cluster: dict[int, Started]) -> int:
    return sum(event["event"] == "lost" for number in (2, 3) for event in cluster[number].events)


def test_all_commands_answer_while_the_root_hangs(cluster: dict[int, Started]) -> None:
    node = cluster[5]
    for command in COMMANDS:
        until(partial(is_whole, node, command), f"the answer to {command} is complete")
    for page in PAGES:
        with hung(cluster, page):
            node.show(page)
    for command, piece in COMMANDS.items():
        with hung(cluster, command):
            (answer,) = run(node, command).values()
        assert answer.exit_code == 0, (command, answer)
        assert piece in answer.text, (command, answer)
    with hung(cluster, "why"):
        assert main(["why", f"{SINGLE}.1", "--socket", str(node.control)]) == exit_codes.TRY_AGAIN
    assert f"{SINGLE}.[1-5]" in main_output(cluster[1], "members", "--fold")


def test_a_hanging_node_is_named_at_the_root(cluster: dict[int, Started]) -> None:
    until(lambda: len(json.loads(main_output(cluster[1], "members", "--json"))["members"]) == NODES, "all are there")
    cluster[2].tell(signal.SIGSTOP)
    try:
        answers = run(cluster[1], "errors", "errors --json", "key list")
    finally:
        cluster[2].tell(signal.SIGCONT)
    for command, answer in answers.items():
        assert answer.exit_code == 0, (command, answer)
    found = json.loads(answers["errors --json"].text.splitlines()[-1])
    assert (found["nodes"], found["silent"], found["silent_nodes"]) == (NODES - 1, [f"{SINGLE}.2"], 1)
    assert (found["coverage"]["asked"], found["coverage"]["told"]) == (NODES, NODES - 1)
    assert f"{SINGLE}.2: no answer (silent)" in answers["errors"].text
    assert f"no answer from 1 node: {SINGLE}.2 (silent)" in answers["key list"].text


def test_the_asked_daemon_hangs(cluster: dict[int, Started]) -> None:
    node = cluster[3]
    node.tell(signal.SIGSTOP)
    try:
        answers = run(node, "status --timeout 2", "members --timeout 2", "errors --timeout 2", "wait --timeout 2")
    finally:
        node.tell(signal.SIGCONT)
    for command, answer in answers.items():
        assert answer.exit_code == exit_codes.TRY_AGAIN, (command, answer)
        assert f"the daemon at {node.control} has not answered for 1 s; waiting up to" in answer.text


def main_output(node: Started, *words: str) -> str:
    (answer,) = run(node, " ".join(words)).values()
    assert answer.exit_code == 0, answer
    return answer.text


def test_following_events_survives_a_restart(cluster: dict[int, Started], inside: list[str]) -> None:
    node = cluster[4]
    command = [sys.executable, "-m", "subord", "events", "--follow", "--json", "--socket", str(node.control)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            assert json.loads(child.stdout.readline())["kind"]
            node.tell(signal.SIGTERM)
            assert node.ended() == 0
            assert child.stderr.readline().startswith("subord: waiting: ")
            cluster[4] = Started(inside, node.folder, f"{SINGLE}.4", *OPTIONS)
            assert child.stderr.readline() == "subord: continuing\n"
            returned = (json.loads(line) for line in child.stdout)
            assert any(each["address"] == f"{SINGLE}.4" and each["kind"] != "left" for each in returned)
        finally:
            child.kill()


def refused(node: Started) -> list[tuple[str, list[str]]]:
    """(reason, addresses) of the refusals that this node reports."""
    found = node.show("errors")["problems"]
    return [
        (each["text"].removeprefix("refused: "), each["addresses"]) for each in found if each["kind"] == "refused"
    ]


def test_other_settings_are_a_problem_of_their_node(cluster: dict[int, Started], inside: list[str]) -> None:
    folder = cluster[1].folder.parent / "6"
    folder.mkdir()
    stranger = Started(inside, folder, f"{SINGLE}.6", *OPTIONS, "cluster.fanout=3", "cluster.guest_slots=2")
    try:
        until(stranger.is_ready, "it is root of its own")
        until(lambda: ("fan-out 3, we use 2", [f"{SINGLE}.6"]) in refused(cluster[5]), "it is refused")
        until(lambda: any(text == "fan-out 2, we use 3" for text, _ in refused(stranger)), "it refuses the others")
        assert f"{SINGLE}.6: refused: fan-out 3, we use 2" in main_output(cluster[5], "errors")
    finally:
        stranger.process.kill()
        stranger.process.wait()
