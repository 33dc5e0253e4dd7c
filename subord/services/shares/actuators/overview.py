"""What the actuator of a node would divide now, as one line for `subord-agent --check`. Nothing is changed."""

from __future__ import annotations

from collections import Counter

from subord.config.classes import entries_of
from subord.config.schema import SharesConfig
from subord.services.shares.actuators.faults import ActuatorError, words_of
from subord.services.shares.actuators.groups import demand_neighbours, demand_weights, groups_of
from subord.services.shares.actuators.slices import hierarchy_of

READ_ONLY = "the cgroup file system is read-only here"


def overview(config: SharesConfig, root: str = "", systemctl: str = "systemctl") -> tuple[str, bool]:
    """The text, and whether there is no fault: `cpu.weight of web 2 groups, rest no group`."""
    entries = entries_of(config.classes)
    try:
        hierarchy = hierarchy_of(root, systemctl if entries[0].is_slice else "")
        groups = groups_of(entries, hierarchy)
        demand_neighbours(groups)
        demand_weights(groups, hierarchy)
        for group in groups:
            try:
                hierarchy.value(group.path, group.identity)
            except OSError as error:
                return f"{hierarchy.kind} of {group.path} of class {group.name}: {words_of(error)}", False
    except ActuatorError as error:
        return str(error), False
    counts = Counter(group.name for group in groups)
    texts = [f"{name} {_groups(counts[name])}" for name in dict.fromkeys(entry.name for entry in entries)]
    text = f"{hierarchy.kind} of {', '.join(texts)}"
    return (f"{text}; {READ_ONLY}", False) if hierarchy.is_read_only else (text, True)


def _groups(count: int) -> str:
    return {0: "no group now", 1: "1 group"}.get(count, f"{count} groups")
