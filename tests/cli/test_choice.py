"""The nodes that the words of a command name, from the command line to the addresses."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
import trio
from loops import over

from subord.api.http.server import Call, Response
from subord.cli import main
from subord.cli.changes import forget
from subord.client import exit_codes, naming
from subord.client.node_sets import choice
from subord.config.resolve import ResolveError
from tests.api.fake_node_api import PAPER, World
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.test_cluster_wide import SOME, member, serving

NAMES = {f"10.0.0.{number}": f"node{number:02}" for number in PAPER}
HOSTS = """\
127.0.0.1 localhost
127.0.1.1 here
# 10.0.0.99 node99
10.0.0.10   ten.example.org ten  # in the rack
10.0.0.11 eleven
192.0.2.9 nine
10.0.0.9 nine
10.0.0.7 both
10.0.0.8 both
192.0.2.1 elsewhere
FD00::0:7 seven6
10.0.0.9 bad$name
nonsense
"""
GROUPS = """\
front: node[01-03]
back: 10.0.0.[4-11]!10.0.0.6
some: @front,ten,@members:gone
"""


@pytest.fixture
def _of_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host list, /etc/hosts and groups."""
    (tmp_path / "hosts").write_text(HOSTS)
    (tmp_path / "groups").write_text(GROUPS)
    monkeypatch.setattr(naming, "HOSTS_FILE", str(tmp_path / "hosts"))
    monkeypatch.setenv(choice.FILE_VARIABLE, str(tmp_path / "groups"))
    monkeypatch.setattr(socket, "gethostname", lambda: "Own.example.org")


def world() -> World:
    world = World()
    world.names = {**NAMES, "10.0.0.20": "Head.example.org."}
    return world


@over(
    ("text", "expected"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("FD00::0:7", "fd00::7"),
        ("10.0.0.77", "10.0.0.77"),
        ("node07", "10.0.0.7"),
        ("Node07.", "10.0.0.7"),
        ("node[01-03,07]", "10.0.0.[1-3,7]"),
        ("ten", "10.0.0.10"),
        ("head.example.org", "10.0.0.20"),
        ("ten.example.org", "10.0.0.10"),
        ("seven6", "fd00::7"),
        ("elsewhere", "192.0.2.1"),
        ("nine", "10.0.0.9"),  # of two addresses that of the network
        ("own", "10.0.0.7"),
        ("own.example.org", "10.0.0.7"),
        ("@front", "10.0.0.[1-3]"),
        ("@subord:back", "10.0.0.[4-5,7-11]"),
        ("@front,@back!ten&node[01-09]", "10.0.0.[1-5,7-9]"),
        ("node07&10.0.0.7", "10.0.0.7"),
        ("@some", "10.0.0.[1-3,10]"),
        ("@members:live!@back", "10.0.0.[1,3]"),
        ("@members:missing", "10.0.0.2"),
        ("@members:root", "10.0.0.1"),
        ("@members:*", "10.0.0.[1-3,9-10]"),
    ],
)
@pytest.mark.usefixtures("_of_files")
def test_what_a_set_stands_for(capsys: pytest.CaptureFixture[str], text: str, expected: str) -> None:
    members = [member(1) | {"place": "root"}, member(2, "missing"), member(3), member(9), member(10)]
    answer = {"asked": "10.0.0.1", "complete": True, "note": None, "members": members}
    with fake_daemon(world().node(7), {"/v1/members": fixed_answer(json.dumps(answer).encode())}) as path:
        assert main(["nodeset", text, "--socket", path]) == exit_codes.OK
    assert capsys.readouterr() == (f"{expected}\n", "")


@over(
    ("text", "exit_code", "line"),
    [
        ("node99", 68, "no address for node99: not in the host list, not in /etc/hosts, not known to the resolver"),
        ("node[01-03,77-79]", 68, "no address for node[77-79]: not in"),
        ("both", 2, "both has 2 addresses (10.0.0.[7-8]): write that of the node"),
        ("node01!node01", 68, "'node01!node01' names no node"),
        ("@members:gone", 68, "'@members:gone' names no node"),
        ("@front!", 2, "'!' in '@front!' lacks its right side"),
        ("@nothing", 2, "there is no group @subord:nothing"),
        ("@x:y", 2, "there is no source 'x' of groups, only: members, subord"),
    ],
)
@pytest.mark.usefixtures("_of_files")
def test_what_names_no_node(capsys: pytest.CaptureFixture[str], text: str, exit_code: int, line: str) -> None:
    with fake_daemon(world().node(7)) as path:
        assert main(["nodeset", text, "--socket", path]) == exit_code
    found = capsys.readouterr()
    assert found.err.startswith(f"subord: {line}")
    assert found.out == ""


@pytest.mark.usefixtures("_of_files")
def test_a_set_needs_no_daemon(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nowhere = str(tmp_path / "socket")
    assert main(["nodeset", "ten,10.0.0.[1-2]", "--socket", nowhere]) == exit_codes.OK
    assert capsys.readouterr().out == "10.0.0.[1-2,10]\n"
    assert main(["nodeset", "@members:live", "--socket", nowhere]) == exit_codes.TRY_AGAIN
    assert "no subord daemon answers" in capsys.readouterr().err


def test_a_resolver_that_hangs_delays_a_command_by_its_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = threading.Event()

    def hanging(*_: object) -> tuple[str, ...]:
        hang.wait(30)
        raise ResolveError("temporary failure", passing=True)

    monkeypatch.setattr(choice, "addresses_of", hanging)
    monkeypatch.setattr(choice, "LOOKUP_S", 0.2)
    began = time.monotonic()
    with fake_daemon(world().node(7)) as path:
        assert main(["nodeset", "far[1-40]", "--socket", path]) == exit_codes.TRY_AGAIN
    hang.set()
    assert time.monotonic() - began < 5
    assert "the resolver does not answer for far[1-40]: write addresses" in capsys.readouterr().err


@pytest.mark.parametrize("answers", [("10.0.0.9", "192.0.2.9"), ("127.0.1.1", "10.0.0.9")])
def test_the_resolver_is_asked_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answers: tuple[str, ...]
) -> None:
    asked: list[str] = []

    def resolving(name: str, _: object) -> tuple[str, ...]:
        asked.append(name)
        return answers

    monkeypatch.setattr(choice, "addresses_of", resolving)
    with fake_daemon(world().node(7)) as path:
        assert main(["nodeset", "node01,far,10.0.0.4", "--socket", path]) == exit_codes.OK
    assert capsys.readouterr().out == "10.0.0.[1,4,9]\n"
    assert asked == ["far"]


# -- commands -------------------------------------------------------------------------------------------------------


def lines(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(list(words)) == exit_codes.OK
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("_of_files")
def test_every_command_that_takes_nodes_reads_sets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = "@front!node[01-02]"
    with fake_daemon(world().node(7)) as path:
        assert lines(capsys, "tree", "--from", one, "--addresses", "--socket", path)[-3:] == [
            "10.0.0.3",
            "├─ 10.0.0.6",
            "└─ 10.0.0.7",
        ]
        assert lines(capsys, "why", one, "--addresses", "--socket", path)[0] == "10.0.0.3  home, leader 10.0.0.1"
        for command in (["tree", "--from"], ["why"]):
            assert main([*command, "@front", "--socket", path]) == exit_codes.USAGE
            assert "'@front' names 3 nodes (10.0.0.[1-3]), not one" in capsys.readouterr().err
    assert lines(capsys, "position", "@back&ten", "--network", "10.0.0.0/24")[1] == "  position  10"
    (tmp_path / "list").write_text("10.0.0.9\n10.0.0.20\n")
    config = tmp_path / "subord.toml"
    config.write_text('[cluster]\nnetwork_file = "list"\ninsecure = true\n')
    assert lines(capsys, "position", "nine", "--config", str(config))[1] == "  position  1"


@pytest.mark.usefixtures("_of_files")
def test_members_of_a_set(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(world(), SOME) as path:
        assert lines(capsys, "members", "@back", "10.0.0.1", "--fold", "--socket", path) == ["10.0.0.[1,9-10]"]
        assert main(["members", "@back", "10.0.0.1", "!ten", "--list", "--socket", path]) == exit_codes.OK
        assert capsys.readouterr() == ("10.0.0.1\n10.0.0.9\n", "subord: no member: 10.0.0.[4-5,7-8,11]\n")
        assert main(["members", "10.0.0.[4-8]", "--socket", path]) == exit_codes.NO_SUCH_NODE
        assert "no member: 10.0.0.[4-8]; `subord members` lists all" in capsys.readouterr().err
        assert lines(capsys, "members", "@front", "--standing", "gone", "--fold", "--socket", path) == ["10.0.0.2"]


@pytest.mark.usefixtures("_of_files")
def test_maintain_and_forget_take_sets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "WAIT_S", 0.1)
    said: list[str] = []

    async def preparing(call: Call) -> Response:
        await trio.lowlevel.checkpoint()
        said.append(call.query["nodes"])
        prepared = {"schema_version": 1, "orders": [], "nodes": 2, "addresses": ["10.0.0.2", "10.0.0.3"]}
        return Response(json.dumps(prepared).encode())

    answer = {"asked": "10.0.0.1", "complete": True, "note": None, "members": SOME}
    fixed = {"/v1/members": fixed_answer(json.dumps(answer).encode())}
    with fake_daemon(world().node(7), fixed, {"/v1/orders/prepare": preparing}) as path:
        words = ["--reason", "x", "--socket", path]
        assert lines(capsys, "maintain", "@front!node01", *words) == ["2 nodes under maintenance: node[02-03]"]
        assert lines(capsys, "maintain", "@front!node01", "--addresses", *words)[0].endswith(" 10.0.0.[2-3]")
        assert (
            json.loads(lines(capsys, "maintain", "@members:gone", "--json", *words)[0])["addresses"][0] == "10.0.0.2"
        )
        latin = ["--reason", os.fsdecode(b"Stra\xdfe"), "--socket", path]
        for command in ("maintain", "forget"):
            assert main([command, "@members:gone", *latin]) == exit_codes.USAGE
            assert "--reason has characters that do not print" in capsys.readouterr().err
        monkeypatch.setenv("SUDO_USER", os.fsdecode(b"\xdf"))
        assert main(["maintain", "@members:gone", *words]) == exit_codes.OK
        said.pop()
        capsys.readouterr()
        assert main(["forget", "@members:gone,node03", *words]) == exit_codes.NOT_REACHED
        assert capsys.readouterr().out.startswith("2 nodes forgotten: node[02-03]; said on this node")
        for command, wrong, code, text in (
            ("forget", "@front!", exit_codes.USAGE, "its right side: write node[1-4]!node[3-7]; nothing was changed"),
            (
                "maintain",
                "@back",
                exit_codes.NO_SUCH_NODE,
                "no member: 10.0.0.[4-5,7-8,11]; `subord members` lists all, and noth",
            ),
        ):
            assert main([command, wrong, *words]) == code
            assert text in capsys.readouterr().err
    with fake_daemon(world().node(7), fixed) as path:
        words = ["--reason", "x", "--socket", path]
        assert main(["forget", "@back!node[09-10]", *words]) == exit_codes.NO_SUCH_NODE
        refusal = "no member, and no key is pinned to its address: 10.0.0.4 and 4 more; `subord members` lists all"
        assert refusal in capsys.readouterr().err
    assert said == ["2-3", "2-3", "2-2", "2-3"]


@pytest.mark.usefixtures("_of_files")
def test_a_forgotten_node_that_returns_at_once_is_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    """The pinned key was all that kept these nodes out, so they are members again before the command looks."""
    returned: list[str] = []

    async def preparing(call: Call) -> Response:
        await trio.lowlevel.checkpoint()
        returned.append(call.query["nodes"])
        prepared = {"schema_version": 1, "orders": [], "nodes": 2, "addresses": ["10.0.0.2", "10.0.0.3"]}
        return Response(json.dumps(prepared).encode())

    async def listing(_: object) -> Response:
        await trio.lowlevel.checkpoint()
        now = [member(1, leader=None), member(2), member(3)] if returned else SOME
        return Response(json.dumps({"asked": "10.0.0.1", "complete": True, "note": None, "members": now}).encode())

    with fake_daemon(world().node(7), {"/v1/members": listing}, {"/v1/orders/prepare": preparing}) as path:
        said = lines(capsys, "forget", "@members:gone,node03", "--reason", "x", "--socket", path)
    assert said == ["2 nodes forgotten: node[02-03]"]


@pytest.mark.usefixtures("_of_files")
def test_forms_of_a_set(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(world().node(7)) as path:
        words = ["nodeset", "@front", "ten", "--socket", path]
        assert lines(capsys, *words, "--list") == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.10"]
        assert lines(capsys, *words, "--count") == ["4"]
        assert lines(capsys, *words, "--names") == ["node[01-03,10]"]
        assert json.loads(lines(capsys, *words, "--json")[0]) == {
            "schema_version": 1,
            "addresses": [f"10.0.0.{n}" for n in (1, 2, 3, 10)],
        }
        assert lines(capsys, "nodeset", "--groups", "--socket", path)[:4] == [
            "@back",
            "@front",
            "@some",
            "@members:down",
        ]
        for wrong in ([], ["--groups", "x"]):
            assert main(["nodeset", *wrong, "--socket", path]) == exit_codes.USAGE
            assert "give either NODES or --groups" in capsys.readouterr().err


def test_an_address_is_taken_without_any_question(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    for name in ("asked", "hosts_file", "listed_names", "steps_of"):
        monkeypatch.setattr(choice, name, never)
    assert main(["nodeset", "10.0.0.7", "--socket", os.devnull]) == exit_codes.OK
    assert capsys.readouterr().out == "10.0.0.7\n"
