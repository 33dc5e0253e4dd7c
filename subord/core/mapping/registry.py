"""The mappings by name (docs/mappings.md).

A further mapping is a file of this folder, with its name and class here. The names are repeated in cli/simulate.py,
and described in config/schema.py. The simulator depends on them in sim/limits.py (`has_homes`), sim/checkers and
sim/draw, the lab in netlab/cli/options.py, netlab/mappings and netlab/topology/layout.py, and
`measures` in api/models/nodes.py says which mappings measure. What a node measures comes in as an event
(`Performance` in core/events.py, from runtime/jobs), and placement/rank_change.py says when a change counts.
"""

from __future__ import annotations

from typing import Literal

from subord.core.mapping.ip import ByAddress
from subord.core.mapping.latency import ByLatency
from subord.core.mapping.mapping import Mapping
from subord.core.mapping.performance import ByPerformance
from subord.core.settings import Settings
from subord.core.view import Position

MappingName = Literal["ip", "performance", "latency"]
MAPPINGS: dict[str, type[Mapping]] = {"ip": ByAddress, "performance": ByPerformance, "latency": ByLatency}


def mapping_of(settings: Settings, owner: Position) -> Mapping:
    """The mapping of a tree, as its node `owner` knows it."""
    return MAPPINGS[settings.mapping](settings, owner)
