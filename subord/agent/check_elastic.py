"""What `subord-agent --check` tells of elastic growth: the configuration of the node, and what its key may do.

Input is the configuration; outputs are lines, as in check.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from subord.agent.check_keys import Key, key_faults
from subord.agent.judge import ROOT
from subord.config.schema import Config
from subord.services.elastic.checking import faults, overview
from subord.services.elastic.task import USER

NEEDED: Final = (("elastic", USER), ("hosts", ROOT))
Line = tuple[str, bool]


def lines(config: Config) -> Iterator[Line]:
    """What this node does, and then its faults."""
    key = Key("elastic.key", config.elastic.key if config.elastic.batch else "", NEEDED)
    found = [*faults(config.elastic), *key_faults(config, key)]
    yield f"elastic: {overview(config.elastic)}", not found
    for each in found:
        yield f"elastic: {each}", False
