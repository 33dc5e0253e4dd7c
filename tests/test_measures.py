"""The scripts of docs/ that measure: wrong input, and those of a tree that stands still fit the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from documents import imported
from loops import over

DOCS = Path(__file__).parent.parent / "docs"
NODES = 20


@pytest.mark.slow
@over(
    ("script", "option"),
    [
        ("mechanisms", "--seeds"),
        ("recovery", "--seeds"),
        ("memory", "--repeat"),
        ("shares", "--seeds"),
        ("shares_tree", "--fanout"),
    ],
)
def test_a_run_of_nothing_is_refused(script: str, option: str) -> None:
    words = [sys.executable, str(DOCS / f"measure_{script}.py"), option, "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"argument {option}: 0 is not a number from 1 on" in done.stderr


@over(
    ("script", "words", "figure"),
    [("measure_root", "--orders 1", "roster_ms"), ("measure_reports", "--intervals 1", "fold_ms")],
)
def test_a_small_tree_is_measured(tmp_path: Path, script: str, words: str, figure: str) -> None:
    file = tmp_path / "found.json"
    given = ["--nodes", f"{NODES}", "--fanout", "2", *words.split(), "--json", str(file)]
    assert imported(script).main(given) == 0
    found = json.loads(file.read_text())
    assert found.keys() >= {"machine", "commit", "runs"}
    (run,) = found["runs"]
    assert (run["nodes"], run["fanout"], run[figure] > 0) == (NODES, 2, True)
