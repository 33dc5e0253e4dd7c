"""What a start of the daemon may end with, and what one node hands over to the next in the same process."""

from __future__ import annotations

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
