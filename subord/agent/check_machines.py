"""What `subord-agent --check` tells of machines: the part of the node, its libvirt, and what its key may do.

Input is the configuration; outputs are lines, as in check.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from subord.agent.check_keys import Key, key_faults
from subord.config.schema import Config
from subord.services.machines.checking import faults, overview
from subord.services.machines.task import USER

Line = tuple[str, bool]


def lines(config: Config) -> Iterator[Line]:
    """What this node does, and then its faults."""
    key = Key("machines.key", config.machines.key if config.machines.batch else "", (("machines", USER),))
    found = [*faults(config.machines), *key_faults(config, key)]
    yield f"machines: {overview(config.machines)}", not found
    for each in found:
        yield f"machines: {each}", False
