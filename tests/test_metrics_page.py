"""docs/evaluation/metrics.md: what it makes of figures, and of none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import build

Run = dict[str, Any]
page, targets = build.build_cluster_metrics, build.build_targets
MACHINE = {"cores": 2, "memory_gib": 24.0, "kernel": "6.1", "python": "3.11", "load": 0.5}
ABOUT: Run = {"machine": MACHINE, "version": "0.3.0", "commit": "abc", "date": "2026-11-26"}
SHAPE: Run = {"fanout": 8, "layout": "dense", "timing": "lan", "absent": {}, "fault": None, "faults": []}
COST: Run = {"heart_bytes_per_s": 900.0, "heart_packets_per_s": 8.0, "node_bytes_per_s": 120.0}
REST: Run = COST | {"node_packets_per_s": 1.0, "brought_bytes_per_s": 120.0, "all_cpu_percent": 5.0}
FIGURES: Run = {
    "first_whole_s": 15.0,
    "age_s": [9.0, 12.0],
    "changed_s": [11.0],
    "quantile_error_percent": 0.9,
    "death_whole_s": [1.5, 2.5],
    "death_over_s": [0.5, 0.6],
    "death_counted_over_s": [0.7, 0.8],
    "death_back_s": [6.0, 7.0],
}


def run(nodes: int, system: str, **more: Any) -> Run:
    known = {"nodes": nodes, "system": system, "repeat": 0, "settings": f"{system} 1"}
    return ABOUT | SHAPE | known | REST | (FIGURES if system == "subord" else {}) | more


RUNS = [
    run(100, "subord", heart_bytes_per_s=1000.0),
    run(100, "subord-without", node_bytes_per_s=100.0),
    run(100, "ganglia", age_s=[88.0], death_whole_s=[85.0], death_counted_over_s=[None]),
    run(100, "ganglia-unicast", collector_up=None, collector_down=None, collector_counted=None, collector_s=60.0),
    run(500, "subord", heart_bytes_per_s=1200.0, death_whole_s=[2.0, None]),
    run(500, "subord-without", fault="no tree.", absent={"ganglia": "apt-get install gmetad"}),
]
PAIR = [run(500, "subord", node_packets_per_s=1.25, all_cpu_percent=6.0), run(500, "subord-without")]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps(RUNS))
    monkeypatch.setattr(build.build_cluster_metrics.records, "FIGURES", tmp_path)


def rows(part: str) -> list[list[str]]:
    lines = page.PARTS[f"cluster-metrics-{part}"]().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_without_figures_the_page_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build.build_cluster_metrics.records, "FIGURES", tmp_path)
    assert {part() for part in page.PARTS.values()} == {"Not measured yet.\n"}
    assert list(targets.cluster_metrics()) == []


@pytest.mark.usefixtures("measured")
def test_the_tables_have_each_system_at_each_size() -> None:
    assert [row[:3] for row in rows("cost")] == [
        ["100", "subord", "1 of 1"],
        ["100", "subord-without", "1 of 1"],
        ["100", "ganglia", "1 of 1"],
        ["100", "ganglia-unicast", "1 of 1"],
        ["500", "subord", "1 of 1"],
        ["500", "subord-without", "0 of 1"],
    ]
    assert rows("times")[0] == ["100", "1.11", "1.20", "1.00", "1.00"]
    assert rows("age")[0][3:] == ["15.0", "10.5 (9.0..12.0)", "11.0", "0.90"]
    assert [row[1] for row in rows("age")] == ["subord", "ganglia", "subord"]
    assert rows("death")[1][3:] == ["85.0", "-", "-", "-"]
    assert rows("collector") == [["100", "no answer", "no answer", "no answer", "60"]]
    assert page.missed() == (
        "- 500 nodes, subord-without, run 1: no tree.\n- ganglia was not measured: apt-get install gmetad.\n"
    )
    assert page.settings().splitlines()[0] == "- *subord*: subord 1."
    assert "Dense addresses, timing `lan`, fan-out 8." in page.about()


@pytest.mark.usefixtures("measured")
def test_the_worst_look_decides_whether_an_aim_is_met() -> None:
    grown, *cost, age, whole, right = targets.cluster_metrics()
    assert (grown.found, grown.holds) == ("1.20 at most", True)
    assert [(row.found, row.holds) for row in cost] == [("nothing", False)] * 3
    assert (age.found, age.holds) == ("12.0 s", True)
    assert (whole.found, whole.holds) == ("nothing, 1 failed", False)
    assert (right.found, right.holds) == ("2 of 2 runs held", True)


def test_the_cost_of_metrics_is_that_beside_the_run_without() -> None:
    rows = list(targets._cost_of_metrics(PAIR[:1], PAIR[1:]))
    assert [row.found for row in rows] == ["0.25 at most", "0 at most", "1.20 at most"]
    assert [row.holds for row in rows] == [True, True, False]
