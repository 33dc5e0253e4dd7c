"""A network namespace of its own for one script, on machines that let the tests make one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import subord

SOURCE = str(Path(subord.__file__).parents[1])
WAIT_S_MAX = 10.0
SCRIPT_S_MAX = 60.0


def output_in_namespace(script: str) -> str:
    """The output of a Python script there; skips where that cannot be."""
    if shutil.which("unshare") is None:
        pytest.skip("no `unshare` on this machine")
    enter = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
    if tried.returncode != 0:
        pytest.skip(f"neither root nor user namespaces here: {tried.stderr.strip()}")
    done = subprocess.run(
        [*enter, sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=SCRIPT_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
