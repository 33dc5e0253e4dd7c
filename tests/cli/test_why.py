"""`subord why`: the reasons of this node and of another."""

from __future__ import annotations

import json

import pytest

from subord.cli import main
from subord.cli.why import text
from subord.client import exit_codes
from tests.api.fake_node_api import MEASURED, World
from tests.api.served_node import fake_daemon

PAGE = """\
10.0.0.4  home, leader 10.0.0.2
  the computed leader accepted

first candidates, nearest first:
    address   position  level  offset  last answer
    10.0.0.1  1         0      0       not asked
 *  10.0.0.2  2         1      0       accepted (3.0 s ago)
    10.0.0.3  3         1      1       not asked
"""


@pytest.mark.parametrize(("asked", "words"), [(4, []), (11, ["10.0.0.4"])])
def test_the_page_of_this_node_and_of_another(
    asked: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_daemon(World().node(asked)) as path:
        assert main(["why", "--socket", path, *words]) == exit_codes.OK
    assert capsys.readouterr().out == PAGE


PAGE_WITH_RANKING = """\
10.0.0.4  home, leader 10.0.0.2
  the computed leader accepted

ranking:
  mapping      latency
  performance  about 92 jobs/h, class 141
  stands by    about 45 jobs/h, class 139
  level        2 in the real tree, wanted 1
  moves        3 moves for a better rank or a nearer leader, 1 held back: too many in this hour

measured, nearest first:
    address   position  round trip  performance      measured
    10.0.0.3  3         0.2 ms      -                4.0 s ago
 *  10.0.0.2  2         20 ms       about 90 jobs/h  1 min ago

first candidates, best first:
    address   position  level  offset  last answer
    10.0.0.1  1         0      0       not asked
 *  10.0.0.2  2         1      0       accepted (3.0 s ago)
    10.0.0.3  3         1      1       not asked
"""


@pytest.mark.parametrize(("asked", "words"), [(4, []), (11, ["10.0.0.4"])])
def test_the_numbers_by_which_a_leader_was_chosen(
    asked: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    world.ranking = MEASURED
    with fake_daemon(world.node(asked)) as path:
        assert main(["why", "--socket", path, *words]) == exit_codes.OK
    assert capsys.readouterr().out == PAGE_WITH_RANKING


def test_json_is_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(4)) as path:
        assert main(["why", "--socket", path, "--json"]) == exit_codes.OK
    reasons = json.loads(capsys.readouterr().out)
    assert [each["answer"] for each in reasons["candidates"]] == [None, "accepted", None]


@pytest.mark.parametrize(
    ("address", "exit_code", "line"),
    [
        ("192.0.2.1", exit_codes.NO_SUCH_NODE, "'192.0.2.1' is not an address of the network 10.0.0.0/16"),
        ("a b&c=d", exit_codes.USAGE, "c=d is neither an address nor a host name"),
        ("10.0.0.77", exit_codes.NO_SUCH_NODE, "10.0.0.77 is unknown"),
    ],
)
def test_no_reasons_to_be_had(address: str, exit_code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(4)) as path:
        assert main(["why", "--socket", path, address]) == exit_code
    assert capsys.readouterr().err.startswith(f"subord: {line}")


def test_the_lowest_position_has_no_candidates() -> None:
    reasons: dict[str, object] = {"address": "10.0.0.1", "place": "root", "leader": None, "reason": "x"}
    reasons |= {"candidates": [], "others": []}
    assert text(reasons) == ["10.0.0.1  root", "  x", "", "there are no candidates: no node has a lower position"]
