"""An ARP request for a host of the lab goes to that host, instead of being copied to every other one.

On a real wire each host spends its own processor on the requests that it overhears. Here all hosts share one machine,
and a request that 500 of them hear costs it half a millisecond: a third of all its time while 500 daemons start
(measured with perf). On a real wire, too, a host that waits for another's address takes it from any request of that
other that it overhears. So the proxy is for labs that measure how clusters start, and not for faults.

A rule for the bridge sets the Ethernet destination of ARP requests, before the rules of filters.py see them. Sender
and answer stay as they were. Source: nft(8), "MAPS" and "PAYLOAD STATEMENT"; RFC 1122, 2.3.2.1 allows requests to
one host.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from netlab.errors import LabError
from netlab.topology import filters
from netlab.topology.addresses import hardware_text

TABLE = "bridge arp_proxy"


class ArpProxy:
    """For IPv4 hosts (address -> MAC, 6 bytes). `runs` is False where every host hears all, as without `nft`."""

    def __init__(self, hosts: Mapping[str, bytes]) -> None:
        self._hosts = hosts
        self.runs = False

    def begin(self) -> None:
        """In the present namespace, before a host is plugged in."""
        try:
            filters.load(rules(self._hosts))
        except (LabError, OSError, subprocess.SubprocessError):
            return  # slower, not wrong
        self.runs = True

    def end(self) -> None:
        """Every host hears all again. Raises LabError."""
        if self.runs:
            filters.load(f"delete table {TABLE}\n")
            self.runs = False


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
