"""What hinders a node to take its part with machines, by its configuration, its files and its libvirt.

Input is the table [machines]; outputs are sentences without a full stop that say what to do. Nothing is changed. All
functions block.
"""

from __future__ import annotations

from collections.abc import Iterator

import trio

from subord.client.orders.key_orders import key_fault
from subord.config.schema import MachinesConfig
from subord.services.batch.programs import missing_programs
from subord.services.machines.power.driver import LibvirtPower
from subord.services.machines.power.records import Hardware, Unavailable
from subord.services.machines.serving.adapter import capacity_of


def overview(config: MachinesConfig) -> str:
    """The part of this node, for `subord-agent --check`."""
    parts = [f"this node is a server, by {config.uri}"] if config.uri else []
    if config.batch:
        parts.append(f"this node may decide for the queues of {config.batch}")
    return " and ".join(parts) or "this node has no part in it: set machines.uri, or machines.batch"


def faults(config: MachinesConfig) -> Iterator[str]:
    """For `subord-agent --check`."""
    if config.uri:
        yield from _of_server(config)
    if config.batch:
        yield from missing_programs("machines", config.batch, config.batch_environment)
        if fault := key_fault("machines.key", config.key, "orders to servers"):
            yield fault


def _of_server(config: MachinesConfig) -> Iterator[str]:
    hardware = trio.run(_hardware, config)
    if isinstance(hardware, Unavailable):
        yield hardware.reason
        return
    have = capacity_of(hardware, config)
    if have.memory <= 0:
        yield (
            f"machines.reserve_mb is {config.reserve_mb}, and this server has {hardware.memory} MiB of memory: "
            "nothing is left for machines"
        )
    if have.cores > hardware.cores:
        yield f"machines.cores is {config.cores}, and this server has {hardware.cores}: machines would share cores"


async def _hardware(config: MachinesConfig) -> Hardware | Unavailable:
    power = LibvirtPower(config.uri, cluster="", server="")
    found = await power.capacity()
    power.close()
    return found
