"""What `subord-agent --check` tells of transfer queues: the part of the node, its batch system, and its key.

Input is the configuration; outputs are lines, as in check.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from subord.config.schema import Config
from subord.services.transfer.checking import faults, overview

Line = tuple[str, bool]


def lines(config: Config) -> Iterator[Line]:
    """What this node does, and then its faults."""
    found = list(faults(config.transfer))
    yield f"transfer: {overview(config.transfer)}", not found
    for each in found:
        yield f"transfer: {each}", False
