"""A command that is asked for a node which does not answer: an unknown address and a dead node are told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from subord.cli import main
from subord.client import exit_codes
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.test_cluster_wide import member

UNKNOWN, DEAD = exit_codes.NO_SUCH_NODE, exit_codes.TRY_AGAIN
UNDONE = {"why": "no reasons are shown", "tree --from": "nothing is drawn"}
START = "Start its daemon or mend its network, and try again"
GOODBYE = "it said goodbye or was forgotten, and is stopped or in another tree"


def failure(
    command: str, address: str, capsys: pytest.CaptureFixture[str], note: str | None = None, *, parted: str = ""
) -> tuple[int, str]:
    """The exit code and the message, for nodes 1 to 11 and two that vanished."""
    members = [*map(member, range(1, 12)), {**member(12, "missing"), "since_s": 70.0}, member(13, "gone")]
    answer: dict[str, Any] = {"asked": "10.0.0.1", "complete": note is None, "note": note, "members": members}
    answer["parted"] = [parted] if parted else []
    with fake_daemon(World().node(4), {"/v1/members": fixed_answer(json.dumps(answer).encode())}) as path:
        code = main([*command.split(), address, "--socket", path])
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return code, err.removeprefix("subord: ").rstrip()


@pytest.mark.parametrize("command", UNDONE)
def test_an_unknown_address_and_a_dead_node(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    undone = UNDONE[command]
    code, line = failure(command, "10.0.0.77", capsys)
    assert (code, line.partition(":")[0]) == (UNKNOWN, "10.0.0.77 is unknown")
    assert line.endswith(f"the root knows no node there; `subord members` lists those that it knows; {undone}")
    assert failure(command, "10.0.0.12", capsys) == (
        DEAD,
        f"10.0.0.12 is dead or cut off: it vanished without goodbye 1 min ago; {undone}. {START}",
    )
    assert failure(command, "10.0.0.13", capsys)[0] == DEAD
    assert failure(command, "10.0.0.77", capsys, parted="10.0.0.77") == (
        DEAD,
        f"10.0.0.77 left the tree: {GOODBYE}; {undone}. Start its daemon, or see `subord status` there",
    )
    code, line = failure(command, "10.0.0.77", capsys, "10.0.0.1 (root) does not answer")
    assert (code, line.partition(",")[0]) == (DEAD, "10.0.0.77 is not known just now")


@pytest.mark.parametrize("address", ["192.0.2.1", "fd00::1"])
def test_an_address_outside_the_network(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failure("tree --from", address, capsys) == (
        UNKNOWN,
        f"{address} is unknown: it is not an address of the network 10.0.0.0/16; nothing is drawn",
    )


def test_a_node_that_hangs_is_neither(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.hung = {9}
    with fake_daemon(world.node(4)) as path:
        assert main(["why", "10.0.0.9", "--socket", path]) == DEAD
    assert "10.0.0.9 does not answer, but the list of nodes has it as live" in capsys.readouterr().err


def test_a_dead_node_may_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.names = {"10.0.0.13": "node13"}
    answer = {"asked": "10.0.0.1", "complete": True, "note": None, "members": [member(13, "gone")]}
    with fake_daemon(world.node(4), {"/v1/members": fixed_answer(json.dumps(answer).encode())}) as path:
        assert main(["tree", "--names", "--from", "node13", "--socket", path]) == DEAD
    assert "10.0.0.13 is dead or cut off" in capsys.readouterr().err


def test_a_listed_node_that_the_tree_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    """`tree` does not ask the node, and does not call it silent."""
    world = World()
    answer = {"asked": "10.0.0.1", "complete": False, "note": "an old list", "members": [member(20)]}
    with fake_daemon(world.node(4), {"/v1/members": fixed_answer(json.dumps(answer).encode())}) as path:
        assert main(["tree", "--from", "10.0.0.20", "--socket", path]) == DEAD
    sentence = "10.0.0.20 is not in the tree just now, but the list of nodes has it as live (an old list); "
    assert sentence in capsys.readouterr().err
