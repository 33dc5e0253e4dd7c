"""The scripts of docs/ that measure a tree which stands still fit the engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from documents import imported

NODES = 20


@pytest.mark.parametrize(
    ("script", "words", "figure"),
    [
        ("measure_root", ["--orders", "1"], "roster_ms"),
        ("measure_reports", ["--intervals", "1"], "fold_ms"),
    ],
)
def test_a_small_tree_is_measured(tmp_path: Path, script: str, words: list[str], figure: str) -> None:
    file = tmp_path / "found.json"
    assert imported(script).main(["--nodes", f"{NODES}", "--fanout", "2", *words, "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found.keys() == {"machine", "commit", "runs"}
    (run,) = found["runs"]
    assert (run["nodes"], run["fanout"], run[figure] > 0) == (NODES, 2, True)
