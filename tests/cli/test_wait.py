"""`subord wait`: when it returns, and its message when time is up."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any

import pytest
from loops import over

from subord.api.http.server import Query, Response
from subord.cli import main
from subord.cli.wait import QUIET_S, unstable
from subord.client import exit_codes
from tests.api.fake_node_api import FakeNode, World
from tests.api.served_node import fake_daemon, fixed_answer, hanging

pytestmark = pytest.mark.slow

STABLE: dict[str, Any] = {
    "nodes": 11,
    "complete": True,
    "note": None,
    "stale": 0,
    "held": 0,
    "missing": 0,
    "quiet_s": QUIET_S,
    "rows": [{"address": "10.0.0.1", "apart": None}],
}


@over(
    ("changes", "nodes", "missing"),
    [
        ({}, None, None),
        ({}, 11, None),
        ({"missing": 3}, 11, None),
        ({}, 12, "11 live nodes instead of 12"),
        ({"complete": False, "note": "x does not answer"}, None, "x does not answer"),
        ({"stale": 2}, None, "2 of the nodes stale"),
        ({"held": 1}, None, "1 of the nodes held"),
        ({"rows": [{"address": "10.0.0.8", "apart": "has no leader"}]}, None, "10.0.0.8 has no leader"),
        ({"quiet_s": 2.9}, None, "the tree changed 2.9 s ago (stable: 3 s without a change)"),
    ],
)
def test_what_a_tree_lacks_to_be_stable(changes: dict[str, Any], nodes: int | None, missing: str | None) -> None:
    assert unstable({**STABLE, **changes}, nodes) == missing


def test_a_stable_tree_is_reported_from_any_node(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(9)) as path:
        assert main(["wait", "--socket", path, "--nodes", "11", "--json"]) == exit_codes.OK
    result = json.loads(capsys.readouterr().out)
    assert (result["state"], result["reached"], result["missing"]) == ("stable", True, None)


def test_it_waits_until_the_state_comes() -> None:
    class Slow(FakeNode):
        looks = 0

        def snapshot(self) -> Any:
            self.looks += 1
            self.placed = self.looks > 2
            return super().snapshot()

    node = Slow(World(), 4)
    with fake_daemon(node) as path:
        assert main(["wait", "--socket", path, "--state", "placed"]) == exit_codes.OK
    assert node.looks == 3


@pytest.mark.parametrize(
    ("words", "placed", "line"),
    [
        (["--state", "placed"], False, "not placed after 0.1 s: 10.0.0.4 has no place yet (seeking)"),
        (["--state", "stable"], False, "not stable after 0.1 s: 10.0.0.4 has no place yet (seeking)"),
        (["--state", "stable", "--nodes", "12"], True, "not stable after 0.1 s: 11 live nodes instead of 12"),
    ],
)
def test_time_is_up(
    words: list[str],
    placed: bool,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("subord.cli.wait.POLL_S_MIN", 20.0)  # a look may take longer with a slow daemon
    monkeypatch.setattr("subord.cli.wait.LOOK_S_MAX", 20.0)
    node = World().node(4)
    node.placed = placed
    with fake_daemon(node) as path:
        assert main(["wait", "--socket", path, "--timeout", "0.1", *words]) == exit_codes.NOT_REACHED
    assert capsys.readouterr().err == f"subord: {line}\n"


def test_a_daemon_that_never_comes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["wait", "--socket", "/nonexistent/c", "--timeout", "0.1", "--json"]
    assert main(words) == exit_codes.DAEMON_UNREACHABLE
    out, err = capsys.readouterr()
    assert json.loads(out)["reached"] is False
    assert err.startswith("subord: not stable after 0.1 s: no subord daemon answers at /nonexistent/c")


def test_a_daemon_that_hangs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the whole silence and the whole wait, not only the last look."""
    monkeypatch.setattr("subord.client.daemon._slow_line", threading.Lock())
    monkeypatch.setattr("subord.client.daemon.SLOW_S", 0.05)
    monkeypatch.setattr("subord.cli.wait.LOOK_S_MAX", 0.2)
    with fake_daemon(World().node(4), {"/v1/status": hanging}) as path:
        assert main(["wait", "--socket", path, "--timeout", "0.8", "--json"]) == exit_codes.TRY_AGAIN
    out, err = capsys.readouterr()
    slow, ended = err.splitlines()
    assert slow == f"subord: the daemon at {path} has not answered for 0.05 s; waiting up to 0.8 s"
    found = re.fullmatch(r"the daemon at \S+ has not answered for (\S+) s: is it .*", json.loads(out)["missing"])
    assert found is not None
    assert float(found[1]) >= 0.8
    assert ended == f"subord: not stable after 0.8 s: {found[0]}"


def test_only_the_last_silence_counts(capsys: pytest.CaptureFixture[str]) -> None:
    answered = []

    async def seeking_then_silent(query: Query) -> Response:
        if len(answered) < 3:
            answered.append(time.monotonic())
            return await fixed_answer(b'{"address": "10.0.0.4", "place": null, "phase": "seeking"}')(query)
        return await hanging(query)

    with fake_daemon(World().node(4), {"/v1/status": seeking_then_silent}) as path:
        assert main(["wait", "--socket", path, "--timeout", "2"]) == exit_codes.TRY_AGAIN
    ended = time.monotonic()
    found = re.search(r"has not answered for (\S+) s", capsys.readouterr().err.splitlines()[-1])
    assert found is not None
    assert float(found[1]) <= ended - answered[-1] + 0.05  # as rounded


def test_nodes_are_refused_for_placed() -> None:
    assert main(["wait", "--state", "placed", "--nodes", "3"]) == exit_codes.USAGE
