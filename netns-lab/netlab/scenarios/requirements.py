"""Whether a scenario can be played on this machine, checked before anything is started."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from netlab.topology import filters, sites_file
from netlab.topology.layout import NODES_MAX
from subord.config.source import cut
from subord.core.address.network import Network
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Scenario, Step
from subord.sim.scenario.lasting import Lasting


class Unplayable(Exception):  # noqa: N818  # no mistake: the simulator can play it
    """One sentence: what the scenario asks for and this lab cannot do. Nothing was started."""


def check(script: Scenario, *, rootless: bool, sites: Path | None = None) -> None:
    """`sites`: the file of sites to play it at. Raises Unplayable, and LabError for that file."""
    if wants := [f"{number} ({what})" for number, step in enumerate(script.steps, 1) for what in _beyond(step)]:
        raise Unplayable(
            f"the lab cannot do what step{'s' if len(wants) > 1 else ''} {', '.join(wants)} ask"
            f"{'' if len(wants) > 1 else 's'} for: `subord simulate` can. Nothing was started."
        )
    nodes = definition.positions_of(script.cluster)
    if len(nodes) > NODES_MAX:
        limit = f"a lab has at most {NODES_MAX}; `subord simulate` takes more"
        raise Unplayable(f"{len(nodes)} nodes: {limit}. Nothing was started.")
    _check_network(script.cluster.network, nodes[-1])
    if sites is not None:
        _check_sites(script, sites)
    elif any(_is_filtered(step) for step in script.steps):
        reason = filters.obstacle(rootless=rootless)
        if reason is not None:
            raise Unplayable(f"its faults of the network are made with nftables, and {reason} Nothing was started.")


def _beyond(step: Step) -> list[str]:
    """The parts of a step that only the simulator can do."""
    if isinstance(step, definition.Jump | definition.Hangup | definition.Perform | definition.Dwell | Lasting):
        return [str(step.__struct_config__.tag)]
    if isinstance(step, definition.Weather):
        return [f"weather: {name}" for name in ("delay_s", "jitter_s", "doubled") if getattr(step, name) > 0]
    return []


def _is_filtered(step: Step) -> bool:
    return isinstance(step, definition.Block | definition.Partition) or (
        isinstance(step, definition.Weather) and step.loss > 0
    )


def _check_sites(script: Scenario, file: Path) -> None:
    network = Network.parse(script.cluster.network)
    positions = definition.positions_of(script.cluster)
    sites = sites_file.read(file).place(list(map(network.address_text_of, positions)))
    for number, step in enumerate(script.steps, 1):
        tag = step.__struct_config__.tag
        if isinstance(step, definition.Partition):
            for group in step.groups:
                named = definition.select(group, script.cluster, among=positions)
                if "root" in group or sites.all_of(list(map(network.address_text_of, named))) is None:
                    raise Unplayable(
                        f"with --sites only whole sites can be cut off, and group `{cut(group)}` of step {number}"
                        f" ({tag}) is none: `netns-lab/lab status` shows the site of each node. Nothing was started."
                    )
        elif _is_filtered(step) or isinstance(step, definition.Reuse):
            raise Unplayable(f"with --sites the lab cannot do step {number} ({tag}). Nothing was started.")


def _check_network(text: str, highest: int) -> None:
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError:
        raise Unplayable(f"cluster.network {text}: the lab needs one IPv4 block. Nothing was started.") from None
    if highest > block.num_addresses - 2:
        raise Unplayable(f"cluster.network {text} has no position {highest}. Nothing was started.")
