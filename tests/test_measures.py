"""Wrong input to the scripts that measure (docs/measure_*.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from loops import over

DOCS = Path(__file__).parent.parent / "docs"


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
