"""Names of the host list instead of addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.client.daemon import NOTHING_HERE
from subord.client.naming import renamed
from subord.config.load import load, taken_over
from subord.core.view import Refusal
from tests.api.fake_node_api import PAPER, World
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.test_events import answer, change

NAMES = {f"10.0.0.{number}": f"node{number:02}" for number in [*PAPER, 30, 70, 71, 72]}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("10.0.0.2", "node02"),
        ("lost its leader 10.0.0.2: closed", "lost its leader node02: closed"),
        ("10.0.0.200 and 110.0.0.2, 10.0.0.2.", "10.0.0.200 and 110.0.0.2, node02."),
        ("fd00::2 is fd00::22's", "node06 is fd00::22's"),
        ({"address": "10.0.0.2", "leader": None, "below": ["10.0.0.4", 4, "a face"]}, None),
    ],
)
def test_addresses_are_replaced_whole(document: object, text: object) -> None:
    names = {**NAMES, "fd00::2": "node06"}
    expected = {"address": "node02", "leader": None, "below": ["node04", 4, "a face"]}
    assert renamed(document, names) == (expected if text is None else text)
    assert renamed(document, {}) == document


@pytest.fixture
def world() -> World:
    world = World()
    world.names = NAMES
    world.refusals = tuple(
        Refusal(address=f"10.0.0.{number}", by="us", reason="fan-out 8, we use 4", ago_s=2.0, times=3)
        for number in (30, 70, 71, 72)
    )
    return world


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("errors", ["11 nodes answered, 1 problem", "node[30,70-72]: refused: fan-out 8, we use 4 (last 2.0 s ago)"]),
        ("members --fold", ["node[01-11]"]),
        ("tree --from node03", ["node03", "├─ node06", "└─ node07"]),
        ("tree --from 10.0.0.3", ["node03", "├─ node06", "└─ node07"]),
        ("events --json", [json.dumps(change(1, "joined", leader="node04") | {"address": "node09"})]),
    ],
)
def test_names_are_shown(world: World, capsys: pytest.CaptureFixture[str], command: str, lines: list[str]) -> None:
    changes = answer([change(1, "joined", leader="10.0.0.4")])
    with fake_daemon(world.node(7), {"/v1/changes": fixed_answer(json.dumps(changes).encode())}) as path:
        assert main([*command.split(), "--names", "--socket", path]) == exit_codes.OK
    out = capsys.readouterr().out.splitlines()
    assert out[-len(lines) :] == lines


def test_a_page_with_names(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(world.node(7)) as path:
        assert main(["top", "--once", "--names", "--socket", path]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "root node01\n" in out
    assert "10.0.0" not in out


def test_names_come_from_the_host_list(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("node[1-2]\n10.0.0.9\n")
    file = tmp_path / "subord.toml"
    file.write_text('[cluster]\nnetwork_file = "nodes"\ninsecure = true\n')
    given = load(str(file), resolve=lambda name, _: (f"10.0.0.{name[-1]}",))
    assert given.names == {"10.0.0.1": "node1", "10.0.0.2": "node2"}
    renamed_since = load(str(file), resolve=lambda name, _: (f"10.0.0.{3 - int(name[-1])}",))
    assert taken_over(given, renamed_since).names == {"10.0.0.2": "node1", "10.0.0.1": "node2"}
    assert load(None, ["cluster.network=10.0.0.0/24", "cluster.insecure=true"]).names == {}


def test_an_older_daemon(capsys: pytest.CaptureFixture[str]) -> None:
    """The answers of a daemon of version 0.1.0, which does not know these questions, and its list of keys."""
    nothing = fixed_answer(json.dumps({"error": f"{NOTHING_HERE}; served: /v1/status"}).encode(), 404)
    keys = {"rings": [{"revision": 0, "keys": ["00000000"], "nodes": 2, "addresses": [], "unsaved": 0}]}
    older = {
        "/v1/members": nothing,
        "/v1/keys": fixed_answer(json.dumps({**keys, "silent": [], "silent_nodes": 0}).encode()),
    }
    with fake_daemon(World().node(1), older) as path:
        assert main(["members", "--socket", path]) == exit_codes.DAEMON_UNREACHABLE
        assert "it runs an older release than this command" in capsys.readouterr().err
        assert main(["key", "list", "--socket", path]) == exit_codes.OK


def test_an_unknown_path_gets_the_expected_answer() -> None:
    with fake_daemon(World().node(1)) as path:
        import http.client
        import socket

        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)
        connection.request("GET", "/v1/future")
        assert json.loads(connection.getresponse().read())["error"].startswith(NOTHING_HERE)
        connection.close()
