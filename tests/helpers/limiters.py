"""Limits of threads that are one for the whole process, and so for all tests of a worker.

trio takes the place of a thread back within the run that has begun it. A thread that its test has abandoned, and that
ends after the test, keeps its place for ever: with some of them each later test waits in vain for a place.
"""

from __future__ import annotations

import sys
from typing import Final

import trio

OF_THREADS: Final = {
    "subord.services.looking": "_threads",
    "subord.services.exec.agent": "_starts",
    "subord.services.elastic.preparing.machine": "_THREADS",
}


def renew() -> None:
    """Give each module a limit of which no place is taken."""
    for name, limiter in OF_THREADS.items():
        module = sys.modules.get(name)
        if module is not None and getattr(module, limiter).borrowed_tokens:
            setattr(module, limiter, trio.CapacityLimiter(getattr(module, limiter).total_tokens))
