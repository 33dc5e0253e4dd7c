"""The files of an elastic lab, in the directory of the lab; those of a node in its own directory there."""

from __future__ import annotations

from typing import Final

BILL: Final = "bill"
"""JSON lines of the supplier: which node was started, and stopped, when."""
SOCKET: Final = "supplier.sock"
LOG: Final = "supplier.log"
COMMAND: Final = "supplier"
"""The program of the configuration, for `start`, `stop` and `list`."""
SHARED: Final = "shared"
"""All hosts have it."""
KEY: Final = "elastic.key"
CONFIG: Final = "config.toml"
"""Of a node: the configuration of its daemon, and of its agent."""
TIME: Final = "time"
HALT: Final = "halt"
HALTED: Final = "halted"
"""Of the queue's node, for agent.py."""
