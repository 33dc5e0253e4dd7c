"""The mappings by name. A further one is a file of this folder, and its name and class here (docs/mappings.md)."""

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
