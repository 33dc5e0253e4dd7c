"""`subord tree`, from the command line to the output."""

from __future__ import annotations

import json

import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.core.view import Liveness
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon

BRANCH = """\
6 nodes below 10.0.0.2 of 11, depth 2, all at home, root 10.0.0.1
10.0.0.2
├─ 10.0.0.4
│  ├─ 10.0.0.8
│  └─ 10.0.0.9
└─ 10.0.0.5
   ├─ 10.0.0.10
   └─ 10.0.0.11
"""


def test_a_branch_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(7)) as path:
        assert main(["tree", "--socket", path, "--from", "10.0.0.2"]) == exit_codes.OK
    assert capsys.readouterr().out == BRANCH


@pytest.mark.parametrize(
    ("top", "heading"),
    [
        ("10.0.0.3", "2 nodes below 10.0.0.3 of 8, 1 down, depth 1, 1 at home, 1 guest, root 10.0.0.1"),
        ("10.0.0.2", "1 node below 10.0.0.2 of 8, depth 1, all at home, root 10.0.0.1"),
        ("10.0.0.9", "0 nodes below 10.0.0.9 of 8, root 10.0.0.1"),  # itself a guest
    ],
)
def test_the_heading_of_a_branch_counts_what_is_below(
    top: str, heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World({1: None, 2: 1, 3: 1, 4: 2, 6: 3, 7: 3, 9: 3, 8: 1, 10: 1})
    world.liveness[7] = Liveness.MISSING
    with fake_daemon(world.node(1)) as path:
        assert main(["tree", "--socket", path, "--from", top]) == exit_codes.OK
    assert capsys.readouterr().out.splitlines()[0] == heading


NUMBERS = {2: (0.0002, 90.4), 4: (0.02, None), 7: (None, 1448.0)}


@pytest.mark.parametrize(
    ("words", "branch"),
    [
        (["--rtt"], ["10.0.0.2  0.2 ms", "├─ 10.0.0.4  20 ms", "└─ 10.0.0.7  -  guest"]),
        (
            ["--performance"],
            ["10.0.0.2  about 90 jobs/h", "├─ 10.0.0.4  -", "└─ 10.0.0.7  about 1,400 jobs/h  guest"],
        ),
        (
            ["--performance", "--rtt"],
            [
                "10.0.0.2  0.2 ms  about 90 jobs/h",
                "├─ 10.0.0.4  20 ms  -",
                "└─ 10.0.0.7  -  about 1,400 jobs/h  guest",
            ],
        ),
    ],
)
def test_numbers_beside_the_nodes(words: list[str], branch: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    world = World({1: None, 2: 1, 4: 2, 7: 2})
    world.numbers = NUMBERS
    with fake_daemon(world.node(4)) as path:
        assert main(["tree", "--socket", path, "--from", "10.0.0.2", *words]) == exit_codes.OK
    assert capsys.readouterr().out.splitlines()[1:] == branch


def test_json_has_the_numbers_always(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.numbers = NUMBERS
    with fake_daemon(world.node(7)) as path:
        assert main(["tree", "--socket", path, "--json", "--from", "10.0.0.4", "--depth", "1"]) == exit_codes.OK
    (top,) = json.loads(capsys.readouterr().out)["roots"]
    assert (top["round_trip_s"], top["performance"]) == (0.02, None)
    assert top["subordinates"][0].keys() >= {"round_trip_s", "performance"}


def test_json_is_nested_and_obeys_from_and_depth(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(7)) as path:
        assert main(["tree", "--socket", path, "--json"]) == exit_codes.OK
        whole = json.loads(capsys.readouterr().out)
        assert main(["tree", "--socket", path, "--json", "--from", "10.0.0.2", "--depth", "1"]) == exit_codes.OK
        part = json.loads(capsys.readouterr().out)
    assert (whole["nodes"], len(whole["roots"]), whole["roots"][0]["place"]) == (11, 1, "root")
    assert [each["address"] for each in part["roots"]] == ["10.0.0.2"]
    assert [each["address"] for each in part["roots"][0]["subordinates"]] == ["10.0.0.4", "10.0.0.5"]
    assert part["roots"][0]["subordinates"][0]["subordinates"] == []


def test_the_api_nests_as_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    from subord.client.daemon import ask

    with fake_daemon(World().node(1)) as path:
        main(["tree", "--socket", path, "--json"])
        assert json.loads(capsys.readouterr().out)["roots"] == ask(path, "/v1/tree")["roots"]


@pytest.mark.parametrize(
    ("words", "exit_code", "sentence"),
    [
        (["--from", "10.0.0.99"], exit_codes.NO_SUCH_NODE, "subord: 10.0.0.99 is unknown"),
        (["--from", "FD00::0:1"], exit_codes.NO_SUCH_NODE, "subord: fd00::1 is unknown"),
        (["--socket", "/nonexistent/c"], exit_codes.DAEMON_UNREACHABLE, "subord: no subord daemon answers at"),
    ],
)
def test_failures_are_one_line(
    words: list[str], exit_code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_daemon(World().node(1)) as path:
        assert main(["tree", "--socket", path, *words]) == exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(sentence)
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--depth", "-1"], ["--depth", "x"], ["--json", "--dot"]])
def test_wrong_words_are_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["tree", *words])
    assert caught.value.code == exit_codes.USAGE


def test_a_hung_root_is_noted_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.hung = {1}
    with fake_daemon(world.node(11)) as path:
        assert main(["tree", "--socket", path]) == exit_codes.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == [
        "incomplete: 10.0.0.1 (root) does not answer: this is what 10.0.0.2 knows",
        "10.0.0.2",
    ]
