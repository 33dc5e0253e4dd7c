"""`subord ping`, from the command line to the output: coverage, causes and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.services.ping.core import CLASS_MAX, class_of
from tests.api.fake_node_api import World, signer_of
from tests.api.served_node import fake_daemon


@pytest.fixture
def world() -> World:
    """A tree of eleven nodes."""
    return World()


@pytest.fixture
def path(world: World) -> Iterator[str]:
    world.known[7] = world.node(7)
    with fake_daemon(world.known[7]) as path:
        yield path


def test_all_answer(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "--socket", path]) == exit_codes.OK
    *levels, last = capsys.readouterr().out.splitlines()
    assert levels == [
        "level 0: 1 node",
        "level 1: 2 nodes, round trip to the leader up to 0.512 ms",
        "level 2: 4 nodes, round trip to the leader up to 0.512 ms",
        "level 3: 4 nodes, round trip to the leader up to 0.512 ms",
    ]
    assert last.startswith("11 of 11 answered in ")


def test_missing_nodes_are_named_with_the_cause(world: World, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    world.hung |= {4, 6}
    world.gone |= {9}
    assert main(["ping", "--all", "--socket", path]) == exit_codes.NOT_REACHED
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("8 of 11 answered in ")
    assert last.endswith("; missing: 10.0.0.9 down, 10.0.0.[4,6] silent")


@pytest.mark.parametrize("pong", [(1, 1 << 40), (1, 1 << 63), (1, CLASS_MAX + 1), (1, -1), (-1, 1), (1 << 40, 1)])
def test_a_pong_beyond_its_bounds_is_left_out(
    world: World, path: str, capsys: pytest.CaptureFixture[str], pong: tuple[int, int]
) -> None:
    world.lying = {4: msgspec.msgpack.encode(pong), 5: msgspec.msgpack.encode((2, CLASS_MAX)), 6: b"\xff"}
    assert main(["ping", "--socket", path]) == exit_codes.OK
    *levels, last = capsys.readouterr().out.splitlines()
    assert [each.split(",")[0] for each in levels] == [
        "level 0: 1 node",
        "level 1: 2 nodes",
        "level 2: 2 nodes",
        "level 3: 4 nodes",
    ]
    assert last.startswith("11 of 11 answered in ")


def test_no_round_trip_is_beyond_the_last_class() -> None:
    assert [class_of(each) for each in (0.0, 1e-6, 3e-6, 1e9)] == [0, 1, 2, CLASS_MAX]


def test_some_nodes_as_json(world: World, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    world.hung |= {4}
    assert main(["ping", "10.0.0.[4-5],10.0.0.77", "--json", "--socket", path]) == exit_codes.NOT_REACHED
    found = json.loads(capsys.readouterr().out)
    assert (found["asked"], found["told"], found["complete"]) == (3, 1, False)
    assert [(each["nodes"], each["cause"], each["count"]) for each in found["missing"]] == [
        ("10.0.0.4", "silent", 1),
        ("10.0.0.77", "unknown", 1),
    ]
    assert found["oldest_ms"] >= 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("10.0.0.3", "--all"), exit_codes.USAGE, "give NODES or --all, not both; no node was asked"),
        (("192.168.0.1",), exit_codes.NO_SUCH_NODE, "192.168.0.1; no node was asked"),
        (("10.0.0.[3-",), exit_codes.USAGE, ""),
    ],
)
def test_wrong_input(
    path: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, text: str
) -> None:
    assert main(["ping", *words, "--socket", path]) == code
    assert text in capsys.readouterr().err


def test_receipts_show_a_node_that_answers_in_the_place_of_others(
    world: World, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """4 and 9 have answers that their leaders signed, or that no node signed; the others are folded as ever."""
    node = world.known[7]
    assert node.tracker.membership.pins is not None
    for position in world.leaders:
        node.tracker.membership.pins.see(position, signer_of(position).key)
    assert main(["ping", "--receipts", "--socket", path]) == exit_codes.OK
    plain = capsys.readouterr().out.splitlines()
    assert len(plain) == 5
    world.false_receipts |= {4}
    world.without_receipts |= {9}
    assert main(["ping", "--receipts", "--socket", path]) == exit_codes.NOT_REACHED
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("9 of 11 answered in ")
    assert last.endswith("; missing: 10.0.0.[4,9] no receipt")
    assert main(["ping", "--socket", path]) == exit_codes.OK


def test_a_node_whose_key_is_not_known_has_no_receipt(
    world: World, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ping", "10.0.0.5", "--receipts", "--socket", path]) == exit_codes.NOT_REACHED
    assert capsys.readouterr().out.endswith("; missing: 10.0.0.5 no receipt\n")
