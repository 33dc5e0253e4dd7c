"""What a full scan of the network costs on the same bridge: every address gets one datagram.

One node, at the highest position, sends; the others only have addresses. No daemon runs.
"""

from __future__ import annotations

import socket
import time

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.enter import NodeCommand
from netlab.processes.launch import Progress
from netlab.topology.addresses import network_of

PORT = 7117
ASKED_S = 3.5  # the kernel asks three times, a second apart


def measure(
    nodes: int, network: str, *, per_s: float, seconds: float, rootless: bool, progress: Progress
) -> dict[str, float]:
    """Scan for so long. Figures with `whole` are extrapolated to the network. Raises LabError."""
    numbers = network_of(network)
    if nodes > numbers.size:
        raise LabError(f"{network} has {numbers.size} addresses, fewer than --nodes {nodes}. Nothing was started.")
    addresses = [numbers.address_text_of(position) for position in (*range(1, nodes), numbers.size)]
    with Lab(addresses=addresses, network=network, arp=True, rootless=rootless, progress=progress) as lab:
        progress("scanning", 0, 0)
        order = {"network": network, "per_s": per_s, "seconds": seconds}
        with NodeCommand(lab.options.name, numbers.size, "scan-from", order, seconds) as command:
            sent = command.finish()
        asked = lab.arp()
    targets = numbers.size - 1
    return {
        "targets": targets,
        "sent": sent["sent"],
        "seconds": sent["seconds"],
        "arp_requests": asked["requests"],
        "arp_per_s_max": asked["per_s_max"],
        "arp_lost": asked["lost"],
        "silent_probes": asked["silent"],
        "whole_arp_requests": asked["requests"] * targets / sent["sent"],
        "whole_seconds": targets / per_s,
    }


def sentence(found: dict[str, float]) -> str:
    return (
        f"{found['sent']:.0f} of {found['targets']:.0f} addresses got a datagram in {found['seconds']:.1f} s:"
        f" {found['arp_requests']:.0f} ARP requests, at most {found['arp_per_s_max']:.0f} in one second"
        f" ({found['arp_lost']:.0f} not counted).\n"
        f"Extrapolated to the whole network: {found['whole_arp_requests']:.0f} requests in"
        f" {found['whole_seconds']:.0f} s, for each node that scans."
    )


def send(network: str, per_s: float, seconds: float) -> dict[str, float]:
    """Inside the node's namespace: from position 1 upwards, at that rate; what was done. Raises LabError."""
    numbers = network_of(network)
    family = socket.AF_INET if numbers.version == 4 else socket.AF_INET6
    sent, begin = 0, time.monotonic()
    with socket.socket(family, socket.SOCK_DGRAM) as wire:
        while sent < min(numbers.size - 1, per_s * seconds):
            time.sleep(max(0.0, begin + sent / per_s - time.monotonic()))
            try:
                wire.sendto(b"?", (numbers.address_text_of(sent + 1), PORT))
            except OSError as reason:
                raise LabError(str(reason.strerror)) from None
            sent += 1
    lasted_s = time.monotonic() - begin
    time.sleep(ASKED_S)
    return {"sent": sent, "seconds": lasted_s}
