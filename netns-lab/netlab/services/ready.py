"""A lab of real daemons and agents in which an operator's order reaches all nodes."""

from __future__ import annotations

import time

from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments.agent_faults import await_all
from netlab.lab import Lab
from netlab.services.console import SUBORD, Console

STABLE_S_MAX = 180.0
READY_S_MAX = 180.0
QUIET_S = 1.0


def raise_tree(lab: Lab) -> None:
    """Start all daemons, and wait for a stable tree. Raises LabError."""
    lab.progress("starting daemons, waiting for a stable tree")
    lab.touch_memory()
    lab.start_all()
    lab.wait_stable(STABLE_S_MAX, QUIET_S)


def start_agents(lab: Lab, console: Console) -> float:
    """Seconds from the first command until one has ended on all nodes: it starts the agents. Raises LabError."""
    lab.progress("starting agents")
    await_all(lab)
    began = time.monotonic()

    def is_everywhere() -> bool:
        return console.run(SUBORD, "exec", "-n", "-a", "-q", "--", "true").code == 0

    if not wait_until(is_everywhere, READY_S_MAX, 0.2):
        raise LabError(f"`subord exec` has not ended on all nodes within {READY_S_MAX:g} s.")
    return time.monotonic() - began


def bring_back(lab: Lab, position: int) -> None:
    """Start a killed daemon, and wait until all nodes answer. Raises LabError."""
    lab.start_and_wait(position)
    lab.wait_stable(STABLE_S_MAX, QUIET_S)
    await_all(lab)
