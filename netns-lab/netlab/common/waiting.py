"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float, interval_s: float) -> bool:
    """Look every `interval_s` until the condition holds (True) or `seconds` are over (False); look at least once."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(interval_s)
    return True
