"""A request for a host of the lab is carried to that host, instead of being copied to every other one.

Intuition: a boy at the bridge who knows everybody's room. Who shouts a name into the hall would disturb 500 guests;
the boy takes the call to the one it is for. Who asked, and what is answered, stays as it was.

On a real wire each host spends its own processor on what it overhears. Here all of them share one machine, and a call
that 500 hear costs it half a millisecond: a third of all its time while 500 daemons start (measured with perf).
On a real wire, too, a host that waits for another's address takes it from any request of that other that it
overhears. So this is for labs that measure how clusters start, and not for faults.

A rule for the bridge sets the Ethernet destination of ARP requests, before the rules of topology/filters.py see them.
Source: nft(8), "MAPS" and "PAYLOAD STATEMENT"; RFC 1122, 2.3.2.1 allows requests to one host.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from netlab.errors import LabError
from netlab.topology import filters
from netlab.topology.layout import hardware_text

TABLE = "bridge errands"


class Errands:
    """For IPv4 hosts (address -> MAC, 6 bytes). `run` is False where all is heard by all, as without `nft`."""

    def __init__(self, hosts: Mapping[str, bytes]) -> None:
        self._hosts = hosts
        self.run = False

    def begin(self) -> None:
        """In the namespace that we are in, before a host has a wire."""
        try:
            filters.load(rules(self._hosts))
        except (LabError, OSError, subprocess.SubprocessError):
            return  # slower, not wrong
        self.run = True

    def end(self) -> None:
        """All is heard by all again. Raises LabError."""
        if self.run:
            filters.load(f"delete table {TABLE}\n")
            self.run = False


def rules(hosts: Mapping[str, bytes]) -> str:
    """Input for `nft -f`."""
    elements = ", ".join(f"{address} : {hardware_text(mac)}" for address, mac in hosts.items())
    lines = [
        f"table {TABLE} {{",
        f"map hosts {{\ntype ipv4_addr : ether_addr\nelements = {{ {elements} }}\n}}",
        "chain prerouting {\ntype filter hook prerouting priority -300; policy accept;",
        "ether daddr ff:ff:ff:ff:ff:ff arp operation request ether daddr set arp daddr ip map @hosts",
        "}\n}\n",
    ]
    return "\n".join(lines)
