"""What `subord-agent --check` finds about the part of a node with machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libvirt_room
import pytest
from libvirt_room import CORES, MEMORY, host_file

from subord.config.schema import MachinesConfig
from subord.services.machines.checking import faults, overview

NO_LIBVIRTD = "test+unix:///default?socket=/no/libvirt-sock"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "this node has no part in it: set machines.uri, or machines.batch"),
        ({"uri": "qemu:///system"}, "this node is a server, by qemu:///system"),
        ({"batch": "slurm"}, "this node may decide for the queues of slurm"),
    ],
)
def test_the_part_of_a_node(changes: dict[str, Any], words: str) -> None:
    assert overview(MachinesConfig(**changes)) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"reserve_mb": MEMORY}, [f"machines.reserve_mb is {MEMORY}, and this server has {MEMORY} MiB of memory"]),
        ({"cores": CORES + 1}, [f"machines.cores is {CORES + 1}, and this server has {CORES}"]),
        ({"uri": NO_LIBVIRTD}, ["install and start libvirtd there"]),
    ],
)
def test_a_server(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    libvirt_room.need_binding()
    found = list(faults(MachinesConfig(**{"uri": host_file(tmp_path / "host.xml"), **changes})))
    assert len(found) == len(words)
    assert all(each in fault for each, fault in zip(words, found, strict=True))


def test_the_queue_s_node(tmp_path: Path) -> None:
    config = MachinesConfig(batch="slurm", batch_environment=(f"PATH={tmp_path}",))
    programs, key = faults(config)
    assert programs == (
        f"machines.batch is slurm, and sinfo, squeue, scontrol is not in {tmp_path}: install its commands, or give "
        "PATH in machines.batch_environment"
    )
    assert key == "machines.key is empty: name the key that signs orders to servers"
