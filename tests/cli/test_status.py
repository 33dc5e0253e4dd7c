"""`subord status`: the whole output for an ordinary node, and the texts for the others."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from subord import __version__
from subord.cli import main
from subord.cli.status import _identity, place, refusal
from subord.client import exit_codes
from subord.core.view import Ranking, Refusal
from tests.api.fake_node_api import MEASURED, World
from tests.api.served_node import fake_daemon

IDENTITY = "SHA256:4A9jyZBOhnKZvcGQ6TRFbf5Gymb41AfYvYaVmWHD+G4"
PAGE = f"""\
10.0.0.2  position 2 of 65534, level 1, offset 0
  place       home: subordinate of 10.0.0.1 for 1 min, level 1 in the real tree
  path        10.0.0.1 > 10.0.0.2
  subtree     7 nodes, all at home
  alternates  none
  settings    10.0.0.0/16, fan-out 2, 2 guest slots, ip mapping, complete numbering, lan timing
  seal        none: any host that reaches the port can take part, and any listener can read
  identity    {IDENTITY}, pinned, made 1970-01-01
  daemon      version {__version__}, UDP port 7700, up ?, 1 leader change, 2 exchanges

2 subordinates:
  10.0.0.4  home  for 1 min  3 below  heard, last 0.2 s ago
  10.0.0.5  home  for 1 min  3 below  heard, last 0.2 s ago

refusals:
  10.0.0.9 refuses this node: fan-out 8, we use 4 (3 times, last 2.0 s ago)
"""


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.refusals = (Refusal(address="10.0.0.9", by="them", reason="fan-out 8, we use 4", ago_s=2.0, times=3),)
    with fake_daemon(world.node(2)) as path:
        assert main(["status", "--socket", path]) == exit_codes.OK
    assert re.sub(r"up [\d.]+ s", "up ?", capsys.readouterr().out) == PAGE


@pytest.mark.parametrize(
    ("position", "ranking", "line"),
    [
        (4, MEASURED, "latency mapping, about 92 jobs/h, leader 20 ms away"),
        (1, MEASURED, "latency mapping, about 92 jobs/h"),
        (8, MEASURED, "latency mapping, about 92 jobs/h, distance of the leader not measured"),
        (1, Ranking(mapping="performance"), "performance mapping, performance not known"),
    ],
)
def test_what_is_measured_in_one_line(
    position: int, ranking: Ranking, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    world.ranking = ranking
    with fake_daemon(world.node(position)) as path:
        assert main(["status", "--socket", path]) == exit_codes.OK
    assert f"  ranking     {line}\n" in capsys.readouterr().out


def test_a_root_that_was_refused_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    world = World({5: None})
    world.refused = "refused by 2 candidates: settings or keys differ (2)"
    with fake_daemon(world.node(5)) as path:
        assert main(["status", "--socket", path]) == exit_codes.OK
        status = capsys.readouterr().out
        assert main(["tree", "--socket", path]) == exit_codes.OK
    assert "  place       root for 1 min; refused by 2 candidates: settings or keys differ (2)\n" in status
    assert "  subtree     1 node, all at home in this tree\n" in status
    heading = f"1 node, depth 0, all at home in this tree, root 10.0.0.5; {world.refused}"
    assert capsys.readouterr().out == f"{heading}\n10.0.0.5\n"


def test_json_is_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(2)) as path:
        assert main(["status", "--socket", path, "--json"]) == exit_codes.OK
    status = json.loads(capsys.readouterr().out)
    assert (status["address"], status["path"], status["settings"]["fanout"]) == ("10.0.0.2", ["10.0.0.1"], 2)


PLACED = {
    "place": "guest",
    "leader": "10.0.0.3",
    "home": "10.0.0.2",
    "since_s": 7200.0,
    "real_level": 2,
    "adrift": False,
    "phase": "attached",
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "guest: subordinate of 10.0.0.3 for 2 h, level 2 in the real tree (home is 10.0.0.2)"),
        ({"place": "root", "adrift": False}, "root for 2 h"),
        ({"place": None, "phase": "orphan"}, "none yet (orphan for 2 h)"),
        (
            {"place": "home", "adrift": True},
            "home: subordinate of 10.0.0.3 for 2 h, level 2 in the real tree; held: a node above lost its leader",
        ),
    ],
)
def test_places_in_words(changes: dict[str, Any], words: str) -> None:
    assert place({**PLACED, **changes}) == words


def test_a_refusal_by_this_node_and_control_characters() -> None:
    each = {"address": "10.0.0.9", "by": "us", "reason": "wire version\x1b[2J 9", "ago_s": 61.0, "times": 1}
    assert refusal(each) == "this node refuses 10.0.0.9: wire version?[2J 9 (1 min ago)"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "SHA256:x, pinned, made 2026-11-24"),
        (
            {"certified": True, "valid_until": "2027-01-02T03:04:05.000Z"},
            "SHA256:x, certified until 2027-01-02T03:04Z, made 2026-11-24",
        ),
        (
            {"valid_until": "2025-01-02T03:04:05.000Z"},
            "SHA256:x, its certificate is valid until 2025-01-02T03:04Z, made 2026-11-24",
        ),
        (None, "none"),
    ],
)
def test_the_identity(fields: dict[str, object] | None, words: str) -> None:
    made = {"fingerprint": "SHA256:x", "since": "2026-11-24T00:00:00.000Z"}
    whole = {**made, "certified": False, "valid_until": None, **(fields or {})}
    assert _identity(None if fields is None else whole) == words
