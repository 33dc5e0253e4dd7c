"""Rounds of a command with an interior node that fails, among real daemons; `evaluate exec-rounds` has many."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from netlab.experiments import exec_rounds

from .lab_helpers import refused, settled

pytestmark = pytest.mark.lab(few=True)

NODES = 9
WAIT_S_MAX = 60.0
ROUND = {"round": 1, "fault": "kill", "node": "a", "issuer": "b", "when_s": 0.0, "run_s": 0, "took_s": 0.3}
TURN = {**ROUND, "told": 2, "missing": {}, "wrong": []}
END = {"signal": "SIGTERM", "ran": 12, "left": 0, "ended_s": 0.4}
RECORD: dict[str, Any] = {"nodes": 3, "fanout": 2, "repeat": 0, "fault": None, "turns": [TURN], "ends": [END]}


def test_each_live_node_runs_it_once_and_a_signal_ends_all() -> None:
    chance = random.Random(2)
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        exec_rounds.begin(lab)
        turns = [exec_rounds.turn_of(lab, chance, each) for each in (1, 2, 3)]
        ends = [exec_rounds.end_of(lab, each) for each in exec_rounds.SIGNALS]
    record = {**RECORD, "nodes": NODES, **json.loads(json.dumps({"turns": turns, "ends": ends}))}
    assert exec_rounds.faults_of({**record, "ends": []}) == []
    assert [(each["ran"], each["signal"]) for each in ends] == [(6 * NODES, "SIGINT"), (6 * NODES, "SIGTERM")]
    assert len({each["fault"] for each in turns}) == 3


@pytest.mark.parametrize(
    ("lines", "told", "words"),
    [
        ({"a": 1, "b": 1, "c": 1}, ["a", "b", "c"], []),
        ({"a": 1, "b": 1, "c": 1}, ["a", "b"], []),
        ({"a": 1, "b": 1}, ["a", "b"], []),
        ({"a": 1, "b": 2}, ["a", "b"], ["b ran it 2 times"]),
        ({"a": 1, "b": 1, "c": 2}, ["a", "b"], ["c ran it 2 times"]),
        ({"a": 1, "b": 1}, ["a", "b", "c"], ["c told, and did not run it"]),
        ({"a": 1, "b": 1}, ["b"], ["a did not tell"]),
        ({"a": 1, "b": 1}, ["a", "a", "b"], ["a told 2 times"]),
    ],
)
def test_what_must_not_be(lines: dict[str, int], told: list[str], words: list[str]) -> None:
    """c is the node that has failed."""
    assert exec_rounds.wrongs(Counter(lines), told, ["a", "b"]) == words


def test_a_run_that_did_not_hold_says_why() -> None:
    assert exec_rounds.table([RECORD]).endswith("held")
    for worse, words in (
        ({"fault": "the lab fell over"}, "the lab fell over"),
        ({"turns": [{**TURN, "wrong": ["a did not tell"]}]}, "round 1 (kill a at 0 s): a did not tell"),
        (
            {"turns": [{**TURN, "wrong": ["b did not tell"], "missing": {"silent": ["b"], "late": ["c", "d"]}}]},
            "round 1 (kill a at 0 s, missing after 0.3 s: silent b, late c d): b did not tell",
        ),
        ({"ends": [{**END, "left": 3}]}, "SIGTERM: 3 processes left after 3 s"),
    ):
        assert exec_rounds.faults_of({**RECORD, **worse}) == [words]
        assert exec_rounds.table([{**RECORD, **worse}]).endswith(f"did not hold: {words}")


def test_rounds_need_some_nodes() -> None:
    result = refused("evaluate", "exec-rounds", "--nodes", "6")
    assert result.returncode == 1
    assert "7 nodes or more: correct --nodes. Nothing was done." in result.stderr
