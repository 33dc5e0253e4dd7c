"""What the daemon and the agent do as they start, how a start may end, and what one node hands over to the next in
the same process."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

from subord.config.schema import Config

TRY_AGAIN = 75  # EX_TEMPFAIL: an address or a port may be free later
CONFIGURATION = 78  # EX_CONFIG: another try would fail as well


class StartError(Exception):
    """The daemon cannot start. One line for the operator; all resources are closed."""

    def __init__(self, message: str, exit_code: int = TRY_AGAIN) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Handover(NamedTuple):
    """What a node hands over to the next one in the same process."""

    config: Config
    incarnation: int
    reload_pending: bool  # a SIGHUP came too late for the former node


def start_programs_without_lock() -> None:
    """From now on no start of a program holds up the threads of this process until the program has been read, which
    may hang. Python before 3.11.4 keeps its global lock during vfork(2). The manual of subprocess has this switch."""
    if sys.version_info < (3, 11, 4):
        setattr(subprocess, "_USE_VFORK", False)  # noqa: B010 - unknown to the types
