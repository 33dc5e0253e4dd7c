"""The previous release, as a wheel in the repository (tests/releases/README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PREVIOUS = "0.1.0"
WHEEL = Path(__file__).parents[1] / "releases" / f"subord-{PREVIOUS}-py3-none-any.whl"


def in_previous(code: str, said: str = "", *words: str) -> str:
    """The output of `code` with the `subord` of the wheel. `said` is its input, `words` its arguments."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        input=said,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(WHEEL)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
