"""docs/evaluation/shares.md: what it makes of figures of the lab, and of none; and what the lab judges of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import build

sys.path.insert(0, str(Path(__file__).parents[1] / "netns-lab"))

from netlab.shares import experiment

Run = dict[str, Any]
page, targets = build.build_shares_lab, build.build_targets
MACHINE = {"cores": 2, "memory_gib": 24.0, "kernel": "6.1", "python": "3.11", "load": 0.5}
ABOUT: Run = {"machine": MACHINE, "version": "0.3.0", "commit": "abc", "date": "2026-11-26", "repeat": 0}
SHAPE: Run = {"fanout": 10, "layout": "dense", "timing": "lan", "fault": None, "faults": [], "case": ""}


def classes(*means: float, std: float = 0.5) -> Run:
    names = ("web", "batch", "rest")
    of = {name: {"mean": mean, "std": std} for name, mean in zip(names, means, strict=True)}
    return experiment.shown({"classes": of})


def run(part: str, round_s: float, **more: Any) -> Run:
    return ABOUT | SHAPE | {"part": part, "round_s": round_s, "nodes": 100, "told": 100, "asked": 100} | more


def costs(*values: float) -> Run:
    keys = ("packets_per_s", "bytes_per_s", "cpu_percent")
    return {
        role: dict.fromkeys(keys, value) for role, value in zip(("root", "interior", "leaf"), values, strict=True)
    }


def turn(fault: str, back_s: float | None, **more: Any) -> Run:
    parts = [{"nodes": 50, "shares": [60.2, 29.8, 10.0]}, {"nodes": 50, "shares": [59.0, 31.0, 10.0]}]
    found = {"fault": fault, "stream_s": 1.5, "edge_s": 0.6, "whole_s": 2.0, "worst_points": 2.5, "parts": parts}
    return found | {"back_s": back_s} | more


REAL = {"nodes": 4, "fanout": 2, "told": 4, "used_percent": 99.0, "states": {"obeys": 4}}
COST = {"without": costs(9, 6, 1), "with": costs(34, 41, 11)}
RUNS = [
    run("real", 0.3, case="static", **REAL, **classes(65.0, 32.4, 2.6)),
    run("real", 1.0, case="uneven", agent_cpu_percent=1.2, **REAL, **classes(59.9, 29.8, 10.3)),
    run("cluster", 0.3, **classes(60, 30, 10), followed_s=1.2, back_rounds=[3, 4], **COST),
    run("cluster", 1.0, fault="no tree.", faults=None),
    run("faults", 0.3, turns=[turn("root killed", 0.0), turn("halves", 2.5), turn("merged", None)]),
]  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shares-lab.json").write_text(json.dumps(RUNS))
    monkeypatch.setattr(page.records, "FIGURES", tmp_path)


def rows(part: str) -> list[list[str]]:
    lines = page.PARTS[f"shares-lab-{part}"]().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_without_figures_the_page_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page.records, "FIGURES", tmp_path)
    assert {part() for part in page.PARTS.values()} == {"Not measured yet.\n"}
    assert list(targets.shares()) == []


@pytest.mark.usefixtures("measured")
def test_the_tables() -> None:
    assert rows("real") == [
        [
            "fixed weights, `rest` on one node",
            "-",
            "4 (2)",
            "1 of 1",
            "65.0 ± 0.5",
            "32.4 ± 0.5",
            "2.6 ± 0.5",
            "99",
            "-",
        ],
        [
            "shares, `rest` on one node",
            "1",
            "4 (2)",
            "1 of 1",
            "59.9 ± 0.5",
            "29.8 ± 0.5",
            "10.3 ± 0.5",
            "99",
            "1.20",
        ],
    ]
    assert rows("cluster")[0][2:] == ["1 of 1", "60.0 ± 0.5", "30.0 ± 0.5", "10.0 ± 0.5", "1.2", "4 (3..4)"]
    assert rows("cluster")[1][2:] == ["0 of 1", "- ± -", "- ± -", "- ± -", "-", "-"]
    assert rows("costs")[0] == ["100", "0.3", "root", "9.0", "34.0", "9", "34", "9.00", "34.00"]
    assert rows("faults")[1:] == [
        ["0.3", "100", "halves", "0.6", "2.0", "2.5", "2.5", "60/30/10; 59/31/10"],
        ["0.3", "100", "merged", "0.6", "2.0", "never", "2.5", "60/30/10; 59/31/10"],
    ]
    assert page.PARTS["shares-lab-missed"]() == "- cluster, 100 nodes, rounds of 1 s, run 1: no tree.\n"
    assert "Dense addresses, timing `lan`." in page.PARTS["shares-lab-about"]()


@pytest.mark.usefixtures("measured")
def test_aims_that_are_missed() -> None:
    assert [(row.found, row.runs, row.holds) for row in targets.shares()] == [
        ("10.3 to 10.3 %", 1, True),
        ("10.0 to 10.0 %; 0.50 at most", 2, False),
        ("4, 1 of 3 later", 2, False),
        ("3 of 3 faults held", 1, True),
    ]


def test_what_must_not_be_is_said() -> None:
    assert [experiment.faults_of(each) for each in RUNS] == [
        [],
        [],
        [],
        ["no tree."],
        ["halves: the shares were back 2.5 s after the last new place", "merged: the shares were not back"],
    ]
    bad = run(
        "real", 1.0, case="even", **{**REAL, "told": 3, "states": {"obeys": 3, "failed": 1}}, **classes(62.1, 29, 8.9)
    )
    assert experiment.faults_of(bad) == [
        "a class is 2.1 points from its share",
        "3 of 4 nodes are in the decisions",
        "states of nodes: {'obeys': 3, 'failed': 1}",
    ]
    bad = run("cluster", 0.3, **classes(62, 30, 8, std=0.9), back_rounds=[3, None, 5])
    assert experiment.faults_of(bad) == [
        "rest has 8.0 %",
        "rest deviates by 0.90",
        "shares were back after [None, 5] rounds",
    ]


def test_the_table_of_the_command() -> None:
    text = experiment.table(RUNS)
    assert "100 nodes, 1 s, run 1: no tree." in text
    assert "merged" in text
    assert "interior" in text
