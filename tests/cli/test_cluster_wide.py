"""`subord errors`, `members` and `tree --down --ghosts`, from the command line to the output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.client.missing_nodes import down, never_came, with_gone
from subord.core.address.network import Network
from subord.core.settings import Settings
from subord.core.view import Refusal, Standing
from tests.api.fake_node_api import PAPER, World
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


def test_errors_of_a_silent_node(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.gone = {2}
    with fake_daemon(world.node(3)) as path:
        lines = printed(capsys, "errors", "--socket", path)
        assert lines == ["4 nodes answered, 1 problem", "10.0.0.2: no answer; 6 below could not be asked"]


def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.gone = {1}
    with fake_daemon(world.node(4)) as path:
        assert main(["errors", "--json", "--check", "--socket", path]) == exit_codes.NOT_REACHED
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["complete"], found["asked"]) == (7, False, "10.0.0.2")


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
        "10.0.0.8: older daemon: not asked, nor 2 below",
        "and 3 more problems, for which there was no room",
    ]


# -- members --------------------------------------------------------------------------------------------------------

SOME = [member(1, leader=None), member(10), member(9), member(2, "gone"), member(3, "missing")]


def test_members(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(World(), SOME) as path:
        lines = printed(capsys, "members", "--socket", path)
        assert lines == [
            "5 members: 3 live, 1 missing, 1 gone",
            "address    standing  since  place  leader",
            "10.0.0.1   live      5 min  home   -",
            "10.0.0.2   gone      5 min  home   10.0.0.1",
            "10.0.0.3   missing   5 min  home   10.0.0.1",
            "10.0.0.9   live      5 min  home   10.0.0.1",
            "10.0.0.10  live      5 min  home   10.0.0.1",
        ]
        assert printed(capsys, "members", "--fold", "--standing", "missing,gone", "--socket", path) == [
            "10.0.0.[2-3]"
        ]
        assert printed(capsys, "members", "--fold", "--standing", "held", "--socket", path) == [""]
        (document,) = printed(capsys, "members", "--json", "--standing", "gone", "--socket", path)
        assert [each["address"] for each in json.loads(document)["members"]] == ["10.0.0.2"]


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
10 nodes, 1 missing, depth 3, all at home, root 10.0.0.1
10.0.0.1
├─ 10.0.0.2
│  ├─ 10.0.0.4
│  │  ├─ 10.0.0.8
│  │  └─ 10.0.0.9
│  │     └─ 10.0.0.20  gone for 5 min
│  │        └─ 10.0.0.21  gone for 5 min
│  └─ 10.0.0.5
│     ├─ 10.0.0.10  missing
│     └─ 10.0.0.11
├─ 10.0.0.3
│  ├─ 10.0.0.6
│  └─ 10.0.0.7
└─ 10.0.0.23  gone for 5 min
10.0.0.22  gone for 5 min  (last below 10.0.0.99)
""".splitlines()
DOWN = """\
10 nodes, 1 missing, depth 3, all at home, root 10.0.0.1
10.0.0.1
├─ 10.0.0.2
│  ├─ 10.0.0.4
│  │  └─ 10.0.0.9
│  │     └─ 10.0.0.20  gone for 5 min
│  │        └─ 10.0.0.21  gone for 5 min
│  └─ 10.0.0.5
│     └─ 10.0.0.10  missing
└─ 10.0.0.23  gone for 5 min
10.0.0.22  gone for 5 min  (last below 10.0.0.99)
""".splitlines()
GONE_MEMBERS = [member(21, "gone", 20), member(20, "gone", 9), member(22, "gone", 99), member(23, "gone", 1)]


def test_gone_nodes_are_drawn_where_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.standing[10] = Standing.MISSING
    with serving(world, [*(member(number) for number in PAPER), *GONE_MEMBERS]) as path:
        assert printed(capsys, "tree", "--ghosts", "--socket", path) == WITH_GONE
        assert printed(capsys, "tree", "--ghosts", "--down", "--socket", path) == DOWN
        without = printed(capsys, "tree", "--down", "--socket", path)
        assert without[1:] == ["10.0.0.1", "└─ 10.0.0.2", "   └─ 10.0.0.5", "      └─ 10.0.0.10  missing"]
        (document,) = printed(capsys, "tree", "--ghosts", "--down", "--json", "--socket", path)
        assert json.loads(document)["never_came"] is None
        assert document.count('"gone"') == len(GONE_MEMBERS)
        assert sum("gray" in line for line in printed(capsys, "tree", "--ghosts", "--dot", "--socket", path)) == len(
            GONE_MEMBERS
        )


def test_when_all_are_up(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(3)) as path:
        lines = printed(capsys, "tree", "--down", "--socket", path)
        with_gone = printed(capsys, "tree", "--down", "--ghosts", "--socket", path)
    head = "11 nodes, depth 3, all at home, root 10.0.0.1"
    assert lines == [head, "all of these are up; gone nodes are drawn with --ghosts"]
    assert with_gone == [head, "all are up"]


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


def test_gone_nodes_in_a_circle_are_drawn_once() -> None:
    rows = with_gone([], [member(1, "gone", 2), member(2, "gone", 1)])
    assert [(row["address"], row["real_level"]) for row in rows] == [("10.0.0.1", 0), ("10.0.0.2", 1)]
    assert down(rows) == rows


def test_many_rows_are_drawn_fast() -> None:
    import time

    settings = Settings(network=Network.parse("10.0.0.0/16"), fanout=4, guest_slots=4)
    leaders = {number: settings.numbering.computed_leader(number) for number in range(1, 3000)}
    rows = [
        {**member(number, "gone" if number % 7 == 0 else "live", leader), "apart": None, "real_level": 0}
        for number, leader in leaders.items()
    ]
    for number, row in enumerate(rows, 1):
        row["address"] = settings.network.address_text_of(number)
        row["leader"] = None if leaders[number] is None else settings.network.address_text_of(leaders[number])
    began = time.process_time()
    drawn = with_gone([row for row in rows if row["standing"] == "live"], rows)
    assert len(drawn) == len(rows)
    assert 0 < len(down(drawn)) < len(rows)
    assert time.process_time() - began < 0.5
