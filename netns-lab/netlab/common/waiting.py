"""Waiting for a condition, or for the end of a process, with a deadline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float, interval_s: float) -> T:
    """Look every `interval_s` until the condition holds or `seconds` are over, at least once; what it was last."""
    until = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() <= until:
        time.sleep(interval_s)
    return found


def await_end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Wait for the end of a process, and kill it when that takes longer."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
