"""Access to the web address of a lab node for a browser outside the lab."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RELAY = str(Path(__file__).with_name("relay.py"))
WAIT_S_MAX = 60.0


@contextmanager
def shown_outside(lab: Any, position: int, directory: Path) -> Iterator[str]:
    """The loopback address of its page. `directory`: for the Unix socket; its path must be short (unix(7))."""
    from netlab.processes.enter import command_in

    hatch = directory / "hatch"
    inward = [sys.executable, RELAY, f"unix:{hatch}", f"tcp:{lab.address(position)}:9717"]
    outward = [sys.executable, RELAY, "tcp:127.0.0.1:0", f"unix:{hatch}"]
    command = command_in(lab.options.name, str(position), inward)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as inside:
        try:
            until = time.monotonic() + WAIT_S_MAX
            while not hatch.exists():
                assert inside.poll() is None, "the relay in the lab did not start"
                assert time.monotonic() < until, "the relay in the lab made no hatch"
                time.sleep(0.05)
            with subprocess.Popen(outward, stdout=subprocess.PIPE, text=True) as outside:
                try:
                    assert outside.stdout is not None
                    yield f"http://127.0.0.1:{int(outside.stdout.readline())}/"
                finally:
                    outside.terminate()
        finally:
            inside.terminate()
