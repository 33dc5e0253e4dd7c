"""A network namespace of its own for one script or several processes, on machines that let the tests make one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import subord

SOURCE = str(Path(subord.__file__).parents[1])
WAIT_S_MAX = 60.0
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


class Namespace(NamedTuple):
    """`enter`: words before a command that runs there."""

    enter: tuple[str, ...]


@contextmanager
def namespace(*addresses: str) -> Iterator[Namespace]:
    """One that has these addresses on its loopback interface; skips where that cannot be."""
    missing = [each for each in ("unshare", "nsenter", "ip") if shutil.which(each) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, unshare, nsenter and ip; missing: {missing}")
    holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
    try:
        own, until = os.readlink("/proc/self/ns/net"), time.monotonic() + WAIT_S_MAX
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if holder.poll() is not None:
                pytest.skip("no network namespaces here")
            assert time.monotonic() < until
            time.sleep(0.01)
        found = Namespace(("nsenter", "-t", str(holder.pid), "-n"))
        for words in (
            ("link", "set", "lo", "up"),
            *(("addr", "add", f"{each}/24", "dev", "lo") for each in addresses),
        ):
            subprocess.run([*found.enter, "ip", *words], check=True, timeout=WAIT_S_MAX)
        yield found
    finally:
        holder.kill()
        holder.wait()
