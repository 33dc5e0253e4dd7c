"""Names instead of addresses: of the host list, of /etc/hosts, and with --names of the resolver."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest
from loops import over

from subord import __version__
from subord.cli import main
from subord.client import exit_codes, lookups, naming
from subord.client.daemon import NOTHING_HERE
from subord.client.naming import renamed
from subord.config.load import load, taken_over
from subord.core.address.network import Network
from subord.core.members.membership import REGISTER
from subord.core.members.register import Record, Run, State
from subord.core.settings import Settings
from subord.core.view import Refusal
from tests.api.fake_node_api import PAPER, World
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.test_events import answer, change

NAMES = {f"10.0.0.{number}": f"node{number:02}" for number in [*PAPER, 30, 70, 71, 72]}

NAMED = re.compile(r"node[0-9\[]")


@over(
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


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("errors", "node[30,70-72]: refused: fan-out 8, we use 4 (last 2.0 s ago)"),
        ("tree --from 10.0.0.3", "├─ node06"),
        ("members", f"node07  10.0.0.7   live      1 min  home   {__version__}    node03"),
        ("members", f"-       10.0.0.11  live      1 min  home   {__version__}    node05"),
        ("status", "node07 (10.0.0.7)  position 7 of 65534, level 2, offset 3"),
        ("status", "  path        node01 > node03 > node07"),
        ("status", "  settings    10.0.0.0/16, fan-out 2, 2 guest slots, ip mapping, complete numbering, lan timing"),
        ("why node04", "node04 (10.0.0.4)  home, leader node02"),
        ("why node04", "    node01   1         0      0       not asked"),
        ("top --once", "11 nodes, depth 3, all at home, root node01"),
    ],
)
def test_people_read_names(world: World, capsys: pytest.CaptureFixture[str], command: str, line: str) -> None:
    world.names = {address: name for address, name in NAMES.items() if name != "node11"}
    with fake_daemon(world.node(7)) as path:
        assert main([*command.split(), "--socket", path]) == exit_codes.OK
        assert line in capsys.readouterr().out.splitlines()
        assert main([*command.split(), "--addresses", "--socket", path]) == exit_codes.OK
        assert not NAMED.search(capsys.readouterr().out)


@pytest.mark.parametrize(
    "command",
    [
        "errors --json",
        "tree --json",
        "tree --dot",
        "members --json",
        "members --fold",
        "members --list",
        "status --json",
        "why 10.0.0.4 --json",
        "events --json",
        "nodeset 10.0.0.[1-4]",
    ],
)
def test_programs_read_addresses(world: World, capsys: pytest.CaptureFixture[str], command: str) -> None:
    changes = answer([change(1, "joined", leader="10.0.0.4")])
    with fake_daemon(world.node(7), {"/v1/changes": fixed_answer(json.dumps(changes).encode())}) as path:
        assert main([*command.split(), "--socket", path]) == exit_codes.OK
        out = capsys.readouterr().out
        assert not NAMED.search(out)
        assert "10.0.0." in out
        assert main([*command.split(), "--names", "--socket", path]) == exit_codes.OK
        assert NAMED.search(capsys.readouterr().out)


def test_names_of_etc_hosts(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first name of a line counts, the host list counts more, and no control characters come from a file."""
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.1.1 own\n10.0.0.2 two.example.org two\n10.0.0.3 \x1b[2J three\n10.0.0.4 four\n# 10.0.0.5 x\n"
    )
    monkeypatch.setattr(naming, "HOSTS_FILE", str(hosts))
    world.names = {"10.0.0.4": "node04"}
    with fake_daemon(world.node(7)) as path:
        assert main(["tree", "--depth", "1", "--socket", path]) == exit_codes.OK
        shown = capsys.readouterr().out
        assert "two.example.org" in shown
        assert "three" in shown
        assert "10.0.0.1\n" in shown
        assert main(["tree", "--from", "two", "--socket", path]) == exit_codes.OK
        assert capsys.readouterr().out.splitlines()[1:3] == ["two.example.org", "├─ node04"]


def test_only_names_asks_the_resolver(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def name_of(address: str) -> str | None:
        asked.append(address)
        return {"10.0.0.2": "two", "10.0.0.3": "thr\x1bee"}.get(address)

    monkeypatch.setattr(lookups, "name_of", name_of)
    world.names = {"10.0.0.1": "node01"}
    with fake_daemon(world.node(7)) as path:
        for words in (["tree"], ["errors"], ["members"], ["status"], ["top", "--once"], ["tree", "--addresses"]):
            assert main([*words, "--socket", path]) == exit_codes.OK
        assert asked == []
        capsys.readouterr()
        assert main(["tree", "--depth", "1", "--names", "--socket", path]) == exit_codes.OK
    assert capsys.readouterr().out.splitlines()[1:3] == ["node01", "├─ two  (6 below)"]
    assert sorted(asked) == sorted({f"10.0.0.{number}" for number in PAPER} - {"10.0.0.1"})


def test_a_resolver_that_hangs_delays_by_its_limit(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = threading.Event()
    monkeypatch.setattr(lookups, "name_of", lambda _: hang.wait(30))
    monkeypatch.setattr(lookups, "LIMIT_S", 0.2)
    world.names = {}
    began = time.monotonic()
    with fake_daemon(world.node(7)) as path:
        assert main(["tree", "--names", "--socket", path]) == exit_codes.OK
    hang.set()
    assert time.monotonic() - began < 5
    assert "10.0.0.7" in capsys.readouterr().out


def test_the_settings_keep_their_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(settings=Settings(network=Network.parse("10.0.0.1-10.0.0.14"), fanout=2, guest_slots=2))
    world.names = NAMES
    with fake_daemon(world.node(7)) as path:
        assert main(["status", "--socket", path]) == exit_codes.OK
        assert "  settings    10.0.0.1-10.0.0.14, fan-out 2" in capsys.readouterr().out
        assert main(["status", "--json", "--names", "--socket", path]) == exit_codes.OK
    document = json.loads(capsys.readouterr().out)
    assert (document["address"], document["settings"]["network"]) == ("node07", "10.0.0.1-10.0.0.14")


def test_a_daemon_that_knows_no_names(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = fixed_answer(json.dumps({"error": f"{NOTHING_HERE}; served: /v1/status"}).encode(), 404)
    with fake_daemon(world.node(7), {"/v1/names": nothing}) as path:
        assert main(["tree", "--socket", path]) == exit_codes.OK
    assert "10.0.0.7" in capsys.readouterr().out


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


def test_names_of_the_daemons_resolver_come_last(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.3 three\n")
    monkeypatch.setattr(naming, "HOSTS_FILE", str(hosts))
    world.names = {"10.0.0.1": "node01"}
    world.resolved = {f"10.0.0.{n}": name for n, name in enumerate(("x", "two", "x", "fo\x1bur"), 1)}
    node = world.node(7)
    node.tracker.spread(REGISTER, [Run(1, 11, Record(1, State.UP))])
    with fake_daemon(node) as path:
        assert main(["members", "--addresses", "--socket", path]) == exit_codes.OK
        assert "two" not in capsys.readouterr().out
        assert main(["members", "--socket", path]) == exit_codes.OK
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert sorted(each for each in names if each != "-") == ["node01", "three", "two"]


@over(
    ("listed", "resolved", "shown"),
    [
        ({}, {}, "own (10.0.0.7)"),
        ({"10.0.0.7": "node07"}, {}, "node07 (10.0.0.7)"),
        ({}, {"10.0.0.7": "seven"}, "seven (10.0.0.7)"),
        ({}, {"10.0.0.2": "own"}, "10.0.0.7"),
        ({"10.0.0.2": "own"}, {}, "10.0.0.7"),
    ],
)
def test_a_node_knows_its_own_host_name(
    capsys: pytest.CaptureFixture[str], listed: dict[str, str], resolved: dict[str, str], shown: str
) -> None:
    world = World()
    world.own_name, world.names, world.resolved = "own", listed, resolved
    node = world.node(7)
    node.tracker.spread(REGISTER, [Run(1, 11, Record(1, State.UP))])
    with fake_daemon(node) as path:
        assert main(["status", "--socket", path]) == exit_codes.OK
        assert capsys.readouterr().out.splitlines()[0].startswith(f"{shown}  position 7")
        for command in ("tree", "errors", "members"):
            assert main([command, "--json", "--socket", path]) == exit_codes.OK
            assert '"own"' not in capsys.readouterr().out
        assert main(["tree", "--socket", path]) == exit_codes.OK
        assert shown.partition(" ")[0] in capsys.readouterr().out
