"""Former releases, as wheels in the repository (tests/releases/README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PREVIOUS = "0.2.0"
OLDEST = "0.1.0"  # the oldest whose daemons may join
RELEASES = (OLDEST, PREVIOUS)


def wheel_of(release: str) -> Path:
    return Path(__file__).parents[1] / "releases" / f"subord-{release}-py3-none-any.whl"


def in_release(release: str, code: str, said: str = "", *words: str) -> str:
    """The output of `code` with the `subord` of that wheel. `said` is its input, `words` its arguments."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        input=said,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(wheel_of(release))},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
