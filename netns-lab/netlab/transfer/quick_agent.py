"""The agent of agent.py at a quicker pace, for tests that wait for it and do not measure it.

The batch system is asked each POLL_S, and the other side each BUSY_S while jobs cross, whatever the plan says: a plan
cannot ask for less than 5 s. All else is as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from netlab.transfer import agent
from subord.services.transfer.driving import driver, exchanging
from subord.services.transfer.driving.polling import Polling

POLL_S: Final = 1.0
BUSY_S: Final = 0.5


def main(words: Sequence[str]) -> int:
    """As that of agent.py."""
    vars(driver)["Polling"] = partial(_quick, Polling)
    vars(exchanging)["BUSY_S"] = BUSY_S
    return agent.main(words)


def _quick(made: type[Polling], sides: Any, cell: Any, _poll_s: float, *rest: Any) -> Polling:
    return made(sides, cell, POLL_S, *rest)
