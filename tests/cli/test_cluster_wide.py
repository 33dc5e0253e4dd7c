"""`subord errors`, `members` and `tree --down --ghosts`, from the command line to the output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from loops import over

from subord import __version__
from subord.cli import main
from subord.cli.members import table, version_of
from subord.client import exit_codes
from subord.client.daemon import change
from subord.client.drawing import colourless
from subord.client.errors import CommandError
from subord.client.problem_lines import lines as problem_lines
from subord.client.tree_parts import never_came
from subord.core.address.network import Network
from subord.core.members.membership import REGISTER
from subord.core.members.register import Record, Run, State
from subord.core.settings import Settings
from subord.core.view import Liveness, Refusal
from tests.api.fake_node_api import PAPER, FakeNode, World
from tests.api.served_node import fake_daemon, fixed_answer


@contextmanager
def serving(world: World, members: list[dict[str, Any]], note: str | None = None) -> Iterator[str]:
    answer = {"asked": "10.0.0.1", "complete": note is None, "note": note, "members": members}
    with fake_daemon(world.node(7), {"/v1/members": fixed_answer(json.dumps(answer).encode())}) as path:
        yield path


def member(number: int, standing: str = "live", leader: int | None = 1) -> dict[str, Any]:
    return {
        "address": f"10.0.0.{number}",
        "position": number,
        "level": 1,
        "standing": standing,
        "leader": None if leader is None else f"10.0.0.{leader}",
        "place": "home",
        "since_s": 300.0,
        "maintenance": None,
    }


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(list(words)) == exit_codes.OK
    return capsys.readouterr().out.splitlines()


# -- errors ---------------------------------------------------------------------------------------------------------


def test_errors_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.refusals = tuple(
        Refusal(address=f"10.0.0.{number}", by="us", reason="fan-out 8, we use 4", ago_s=2.0, times=3)
        for number in (30, 70, 71, 72)
    )
    with fake_daemon(world.node(9)) as path:
        lines = printed(capsys, "errors", "--socket", path)
        assert lines == [
            "11 nodes answered, 1 problem",
            "10.0.0.[30,70-72]: refused: fan-out 8, we use 4 (last 2.0 s ago)",
        ]
        assert main(["errors", "--check", "--socket", path]) == exit_codes.NOT_REACHED


def test_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(1)) as path:
        assert printed(capsys, "errors", "--check", "--socket", path) == ["11 nodes answered, no problems"]


def test_errors_names_nodes_without_an_answer_by_cause(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.hung, world.older, world.gone = {2, 9}, {3}, {11}
    with fake_daemon(world.node(4)) as path:
        lines = printed(capsys, "errors", "--socket", path)
        assert lines == [
            "7 nodes answered, 1 down, 2 problems",
            "10.0.0.11: down: ended or vanished without goodbye",
            "10.0.0.[2,9]: no answer (silent)",
            "10.0.0.3: older release: its problems are not known",
        ]


def test_errors_of_a_daemon_of_the_last_release() -> None:
    """It counts the nodes below a silent one, and has no coverage."""
    found = found_of("10.0.0.1", nodes=1) | {"silent": ["10.0.0.2"], "silent_nodes": 7}
    assert "10.0.0.2: no answer; 6 below could not be asked" in colourless(problem_lines(found)).splitlines()


@pytest.mark.slow
def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.hung = {1}
    with fake_daemon(world.node(4)) as path:
        assert main(["errors", "--json", "--check", "--socket", path]) == exit_codes.NOT_REACHED
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["complete"], found["asked"]) == (7, False, "10.0.0.4")
    coverage = found["coverage"]
    assert (coverage["asked"], coverage["told"], coverage["complete"]) == (11, 7, False)
    assert [(each["cause"], each["count"]) for each in coverage["missing"]] == [("no coordinator", 4)]


def found_of(*addresses: str, nodes: int) -> dict[str, Any]:
    """An answer in which `nodes` nodes share a problem, and some run an older daemon."""
    problem = {
        "kind": "lost",
        "text": "lost its leader\x1b[2J",
        "nodes": nodes,
        "addresses": addresses,
        "ago_s": None,
    }
    found: dict[str, Any] = {"asked": "10.0.0.1", "complete": True, "note": None, "nodes": 9, "problems": [problem]}
    return found | {"more": 3, "silent": [], "silent_nodes": 0, "older": ["10.0.0.8"], "older_nodes": 3}


def test_long_sets_are_shortened_and_control_characters_removed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = found_of(*(f"10.0.0.{number}" for number in range(1, 101, 2)), nodes=120)
    with fake_daemon(World().node(1), {"/v1/errors": fixed_answer(json.dumps(answer).encode())}) as path:
        short = printed(capsys, "errors", "--socket", path)
        full = printed(capsys, "errors", "--full", "--socket", path)
    assert short[0] == "9 nodes answered, 4 problems"
    assert short[1].endswith(" more: lost its leader?[2J")
    assert len(short[1]) < 120
    assert full[1].endswith(",95,97,99] and 70 more: lost its leader?[2J")
    assert short[2:] == [
        "10.0.0.8: older release: its problems are not known, nor those of 2 below",
        "and 3 more problems, for which there was no room",
    ]


# -- members --------------------------------------------------------------------------------------------------------

SOME = [member(1, leader=None), member(10), member(9), member(2, "gone"), member(3, "missing")]


def test_members(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(World(), SOME) as path:
        lines = printed(capsys, "members", "--socket", path)
        assert lines == [
            f"5 members: 3 live, 2 down; version {__version__}",
            "address    standing  since  place  version  leader",
            f"10.0.0.1   live      5 min  home   {__version__}    -",
            f"10.0.0.2   down      5 min  home   {__version__}    10.0.0.1",
            f"10.0.0.3   down      5 min  home   {__version__}    10.0.0.1",
            f"10.0.0.9   live      5 min  home   {__version__}    10.0.0.1",
            f"10.0.0.10  live      5 min  home   {__version__}    10.0.0.1",
        ]
        assert printed(capsys, "members", "--fold", "--standing", "missing,gone", "--socket", path) == [
            "10.0.0.[2-3]"
        ]
        assert printed(capsys, "members", "--fold", "--standing", "held", "--socket", path) == []
        (document,) = printed(capsys, "members", "--json", "--standing", "gone", "--socket", path)
        assert [each["address"] for each in json.loads(document)["members"]] == ["10.0.0.2"]


def of_version(version: str, *numbers: int, nodes: int | None = None) -> dict[str, Any]:
    addresses = [f"10.0.0.{number}" for number in numbers]
    return {"version": version, "nodes": len(numbers) if nodes is None else nodes, "addresses": addresses}


@over(
    ("versions", "silent", "words", "column"),
    [
        ([], [], "", "-----"),
        ([of_version("7", 1, 9, 10)], [], "; version 7", "7--77"),
        ([of_version("7", 1, 9), of_version("6", 10)], [], "; 2 versions: 2 with 7, 1 with 6", "7--76"),
        ([of_version("7", 1, nodes=3)], [], "; version 7", "7--77"),  # the unnamed ones are all that are left
        ([of_version("7", 1, nodes=2)], [10], "; version 7", "7--7-"),
        ([of_version("7", 1, nodes=2)], [], "; version 7", "7----"),
        ([of_version("7", 1, nodes=2), of_version("6", 9)], [], "; 2 versions: 2 with 7, 1 with 6", "7--67"),
        ([of_version("7", 1), of_version("6", 9)], [10], "; 2 versions: 1 with 7, 1 with 6, 1 not known", "7--6-"),
        ([of_version("\x1b", 1, 9, 10)], [], "; version ?", "?--??"),
    ],
)
def test_the_versions_of_members(versions: list[Any], silent: list[int], words: str, column: str) -> None:
    """Nodes 2 and 3 are down."""
    found = {"versions": versions, "silent": [f"10.0.0.{number}" for number in silent]}
    some = sorted(SOME, key=lambda each: each["position"])
    known = version_of(found, [each["address"] for each in some if each["standing"] == "live"])
    head, _, *rows = (line[0][0] for line in table({"note": None}, some, known))
    assert head == f"5 members: 3 live, 2 down{words}"
    assert "".join(row.split()[5] for row in rows) == column


def test_without_versions_members_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"asked": "10.0.0.1", "complete": True, "note": None, "members": SOME}
    fixed = {"/v1/members": fixed_answer(json.dumps(answer).encode()), "/v1/errors": fixed_answer(b"{}", 504)}
    with fake_daemon(World().node(7), fixed) as path:
        lines = printed(capsys, "members", "--socket", path)
    assert lines[0] == "5 members: 3 live, 2 down"
    assert lines[2].split() == ["10.0.0.1", "live", "5", "min", "home", "-", "-"]


def test_members_that_are_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(World(), SOME, note="10.0.0.1 (root) does not answer") as path:
        assert printed(capsys, "members", "--socket", path)[1] == "incomplete: 10.0.0.1 (root) does not answer"
        assert main(["members", "--fold", "--socket", path]) == exit_codes.OK
        assert capsys.readouterr() == ("10.0.0.[1-3,9-10]\n", "subord: incomplete: 10.0.0.1 (root) does not answer\n")


def test_an_unknown_standing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["members", "--standing", "live,dead"])
    assert caught.value.code == exit_codes.USAGE
    assert "'dead' is none of live, held, stale, missing, gone" in capsys.readouterr().err


# -- tree -----------------------------------------------------------------------------------------------------------

WITH_GONE = """\
10 nodes, 5 down, depth 3, all at home, root 10.0.0.1
10.0.0.1
├─ 10.0.0.2
│  ├─ 10.0.0.4
│  │  ├─ 10.0.0.8
│  │  └─ 10.0.0.9
│  │     └─ 10.0.0.20  down for 5 min
│  │        └─ 10.0.0.21  down for 5 min
│  └─ 10.0.0.5
│     ├─ 10.0.0.10  down
│     └─ 10.0.0.11
├─ 10.0.0.3
│  ├─ 10.0.0.6
│  └─ 10.0.0.7
└─ 10.0.0.23  down for 5 min
10.0.0.22  down for 5 min  (last below 10.0.0.99)
""".splitlines()
DOWN = """\
10 nodes, 5 down, depth 3, all at home, root 10.0.0.1
10.0.0.1
├─ 10.0.0.2
│  ├─ 10.0.0.4
│  │  └─ 10.0.0.9
│  │     └─ 10.0.0.20  down for 5 min
│  │        └─ 10.0.0.21  down for 5 min
│  └─ 10.0.0.5
│     └─ 10.0.0.10  down
└─ 10.0.0.23  down for 5 min
10.0.0.22  down for 5 min  (last below 10.0.0.99)
""".splitlines()
GONE = {21: 20, 20: 9, 22: 99, 23: 1}  # by last leader


def with_gone(node: FakeNode) -> FakeNode:
    since_ms = node.tracker.wall_ms - 300_000
    runs = [Run(p, p, Record(1, State.DOWN, since_ms, leader)) for p, leader in GONE.items()]
    node.tracker.membership.exchange.spread(REGISTER, runs)
    return node


def test_gone_nodes_are_drawn_where_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.liveness[10] = Liveness.MISSING
    with fake_daemon(with_gone(world.node(7))) as path:
        assert printed(capsys, "tree", "--socket", path) == WITH_GONE
        assert printed(capsys, "tree", "--down", "--socket", path) == DOWN
        (document,) = printed(capsys, "tree", "--ghosts", "--down", "--json", "--socket", path)
        assert json.loads(document)["never_came"] is None
        assert document.count('"gone"') == len(GONE) + 1  # and their number
        assert sum("red" in line for line in printed(capsys, "tree", "--dot", "--socket", path)) == len(GONE) + 1


def test_when_all_are_up(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(3)) as path:
        lines = printed(capsys, "tree", "--down", "--socket", path)
    assert lines == ["11 nodes, depth 3, all at home, root 10.0.0.1", "all are up"]


def test_nodes_that_never_came_are_known_from_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(network=Network.parse("10.0.0.[1-14]"), fanout=2, guest_slots=2)
    world = World(settings=settings)
    members = [member(number) for number in PAPER] + [member(13, "gone", 6)]
    with serving(world, members) as path:
        assert printed(capsys, "tree", "--ghosts", "--socket", path)[-1] == "never came: 10.0.0.[12,14]"
    with serving(world, members, note="10.0.0.1 (root) does not answer") as path:
        assert "never" not in " ".join(printed(capsys, "tree", "--ghosts", "--socket", path))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("10.0.0.[1-3]", ["10.0.0.2"]),
        ("10.0.0.3,10.0.0.1,10.0.0.7", ["10.0.0.7"]),
        ("10.0.0.0/29", None),
        ("what is this", None),
    ],
)
def test_never_came(text: str, names: list[str] | None) -> None:
    assert never_came(text, 3, [member(1), member(3)]) == names


# -- what operators said --------------------------------------------------------------------------------------------


def remembering(world: World) -> FakeNode:
    node = world.node(1)
    world.known = {1: node}
    node.tracker.spread(REGISTER, [Run(1, 11, Record(1, State.UP)), Run(12, 13, Record(2, State.DOWN, 1000, 3))])
    return node


def test_maintenances_are_listed_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(remembering(World())) as path:
        at = ("--socket", path)
        assert printed(capsys, "maintain", *at) == ["no node is under maintenance"]
        printed(capsys, "maintain", "10.0.0.[4,12]", "--reason", "new disks", "--until", "2h", *at)
        summary, line = printed(capsys, "maintain", *at)
        assert summary == "1 maintenance"
        assert re.fullmatch(
            r"10\.0\.0\.\[4,12\]: new disks  by ann( as \S+)?, [-0-9]+ [:0-9]+ until [-0-9]+ [:0-9]+", line
        )
        printed(capsys, "forget", "10.0.0.12", "--reason", "sold", *at)
        assert "10.0.0.4 and 10.0.0.12 (no members now): new disks" in printed(capsys, "maintain", *at)[1]
        summary, line = printed(capsys, "members", "--forgotten", *at)
        assert summary == "1 node forgotten in the last 30 days"
        assert line.startswith("10.0.0.12: sold  by ann")
        assert printed(capsys, "members", "--forgotten", "--list", *at) == ["10.0.0.12"]
        assert printed(capsys, "maintain", "10.0.0.12", "--end", *at) == [
            "1 node no longer under maintenance: 10.0.0.12"
        ]
        assert printed(capsys, "maintain", *at)[1].startswith("10.0.0.4: new disks")
        assert main(["maintain", "192.0.2.1", "--end", *at]) == exit_codes.NO_SUCH_NODE
        assert capsys.readouterr().err.endswith("192.0.2.1; nothing was changed\n")


def test_nothing_is_forgotten_while_not_all_members_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    """A node that is up would not be listed, and lose its pinned key."""
    world = World()
    world.newly_placed = {1}
    with fake_daemon(remembering(world)) as path:
        words = ["forget", "10.0.0.12", "--reason", "sold", "--socket", path]
        assert main(words) == exit_codes.TRY_AGAIN
        error = capsys.readouterr().err
        assert "not all members are known just now: 10.0.0.1 (root)" in error
        assert error.endswith("; nothing was changed\n")
        assert printed(capsys, "members", "--forgotten", "--list", "--socket", path) == []


@over(
    ("words", "text"),
    [
        (["10.0.0.4", "--reason", " "], "--reason must have 1 to 200 characters"),
        (["10.0.0.4", "--reason", "r" * 201], "--reason must have 1 to 200 characters"),
        (["10.0.0.4", "--reason", "r", "--until", "2020-01-01"], "--until must be in the future"),
        (["10.0.0.4", "--reason", "r", "--until", "2099-01-01"], "--until must be in the future"),
        (["10.0.0.4"], "say why with --reason"),
        (["10.0.0.4", "--end", "--until", "2h"], "--until is for a new maintenance"),
        (["--end"], "name the nodes"),
        (["--reason", "r"], "name the nodes"),
        (["--until", "2h"], "--until is for a new maintenance"),
    ],
)
def test_a_wrong_maintenance_is_the_fault_of_the_command_line(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    with fake_daemon(World().node(1)) as path:
        assert main(["maintain", *words, "--socket", path]) == exit_codes.USAGE
    found = capsys.readouterr().err
    assert (text in found, found.count("\n"), "nothing was changed" in found) == (True, 1, True)


def test_what_the_daemon_calls_wrong_is_the_fault_of_the_command_line() -> None:
    with fake_daemon(World().node(1)) as path, pytest.raises(CommandError) as caught:
        change(path, "/v1/orders/prepare?action=maintain&nodes=4&reason=")
    assert caught.value.exit_code == exit_codes.USAGE


def test_a_set_of_no_nodes_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(1)) as path:
        for form in ("--list", "--fold"):
            assert main(["members", "--down", form, "--socket", path]) == exit_codes.OK
            assert main(["members", "--forgotten", form, "--socket", path]) == exit_codes.OK
    assert capsys.readouterr() == ("", "")


def test_down_is_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(World(), SOME) as path:
        assert printed(capsys, "members", "--standing", "down,live", "--fold", "--socket", path) == [
            "10.0.0.[1-3,9-10]"
        ]
        assert printed(capsys, "members", "@members:down", "--list", "--socket", path) == ["10.0.0.2", "10.0.0.3"]
    found = {
        "nodes": 9, "more": 0, "silent_nodes": 0, "older_nodes": 0, "note": None, "down": 2,
        "problems": [
            {"kind": kind, "text": "down", "nodes": 1, "addresses": [address], "ago_s": None}
            for kind, address in (("missing", "10.0.0.2"), ("gone", "10.0.0.3"))
        ],
    }  # fmt: skip
    assert colourless(problem_lines(found)).splitlines() == [
        "9 nodes answered, 2 down, 1 problem",
        "10.0.0.[2-3]: down",
    ]


def test_status_and_why_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(remembering(World())) as path:
        at = ("--socket", path)
        assert "maintenance" not in "".join(printed(capsys, "status", *at))
        printed(capsys, "maintain", "10.0.0.1", "--reason", "new disks", *at)
        status = printed(capsys, "status", *at)
        assert status[0].endswith("; 2 members down")
        assert any(line.split(maxsplit=1) == ["maintenance", "new disks"] for line in status)
        assert "  under maintenance: new disks" in printed(capsys, "why", *at)
