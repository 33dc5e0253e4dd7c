"""What the bridge drops, and where it takes ARP requests, as rules for the kernel (nftables, table family `bridge`).

No end is told that a frame was dropped: a lost datagram, a half-open stream and a partition look to the daemons as
they do on a real wire, ARP included. The rules are written anew as a whole from one value, `Faults`, in one
transaction, so that nothing passes between two sets of rules. They name ports, so a rule holds for a cable that is
pulled and put back. Made for, and tried with, IPv4 on one bridge alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from netlab.common import linux
from netlab.errors import LabError

LOAD_S_MAX = 30.0
MILLION = 1_000_000
MISSING = "`nft` is not installed: on Debian `apt-get install nftables`."
WHERE_FOUND = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # a plain user's path lacks the latter

Protocol = Literal["all", "udp", "tcp"]
Ports = tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Frames from `sources` to `targets` are dropped."""

    sources: Ports
    targets: Ports
    protocol: Protocol = "all"


@dataclass(frozen=True)
class Faults:
    """All faults of the network but pulled cables; by default none."""

    blocks: tuple[Block, ...] = ()
    sides: tuple[Ports, ...] = ()  # of a partition: nothing passes from one to another
    loss: float = 0.0  # share of all datagrams, from 0 to 1


def rules(faults: Faults) -> str:
    """Input for `nft -f` that replaces all earlier faults by these."""
    sets, lines = [], []
    for number, block in enumerate(faults.blocks, 1):
        if block.sources and block.targets:
            sets += [_set(f"from{number}", block.sources), _set(f"to{number}", block.targets)]
            what = "" if block.protocol == "all" else f" meta l4proto {block.protocol}"
            lines.append(f"iifname @from{number} oifname @to{number}{what} drop")
    if faults.loss >= 1:
        lines.append("meta l4proto udp drop")
    elif faults.loss > 0:
        lines.append(f"meta l4proto udp numgen random mod {MILLION} < {round(faults.loss * MILLION)} drop")
    for number, side in enumerate(faults.sides, 1):
        if side:
            sets.append(_set(f"side{number}", side))
            lines.append(f"iifname @side{number} oifname != @side{number} drop")
    chain = ["chain forward {", "type filter hook forward priority 0; policy accept;", *lines, "}"]
    # The first line makes sure that there is something to delete.
    return "\n".join(["table bridge lab", "delete table bridge lab", "table bridge lab {", *sets, *chain, "}", ""])


def _set(name: str, ports: Iterable[str]) -> str:
    elements = ", ".join(f'"{port}"' for port in ports)
    return f"set {name} {{\ntype ifname\nelements = {{ {elements} }}\n}}"


def load(text: str) -> None:
    """Into the present network namespace. Raises LabError, with the rules as they were."""
    done = _run(text)
    if done.returncode:
        raise LabError(
            f"The kernel refuses the rules for the bridge; nothing was changed. {_first_line(done.stderr)}"
        )


def obstacle(*, rootless: bool) -> str | None:
    """Why this machine cannot filter at a bridge, in one sentence; None when it can.

    Asks `nft` and the kernel, in a private namespace that ends with the question.
    """
    sample = rules(Faults((Block(("n1",), ("n2",), "udp"),), (("n1",), ("n2",)), 0.5))
    try:
        done = _run(sample, lambda: linux.enter_private(rootless=rootless or os.geteuid() != 0))
    except LabError as reason:
        return str(reason)
    except (OSError, subprocess.SubprocessError) as reason:
        return f"`nft` cannot be tried out: {reason}."
    if done.returncode:
        return f"This kernel cannot filter at a bridge (CONFIG_NF_TABLES_BRIDGE): {_first_line(done.stderr)}"
    return None


def _run(text: str, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    command = shutil.which("nft", path=WHERE_FOUND)
    if command is None:
        raise LabError(MISSING)
    return subprocess.run(
        [command, "-f", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=LOAD_S_MAX,
        check=False,
        preexec_fn=before,
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


class ArpProxy:
    """An ARP request for a host of the lab goes to that host, instead of being copied to every other one.

    On a real wire each host spends its own processor on the requests that it overhears. Here all hosts share one
    machine, and a request that 500 of them hear costs it half a millisecond: a third of all its time while 500
    daemons start (measured with perf). On a real wire, too, a host that waits for another's address takes it from any
    request of that other that it overhears. So the proxy is for labs that measure how clusters start, and not for
    faults. Its rule comes before the others.

    `hosts`: IPv4 address -> MAC, 6 bytes. `runs` is False where every host hears all, as without `nft`. Source:
    nft(8), "MAPS" and "PAYLOAD STATEMENT"; RFC 1122, 2.3.2.1 allows requests to one host.
    """

    def __init__(self, hosts: Mapping[str, bytes]) -> None:
        self._hosts = hosts
        self.runs = False

    def begin(self) -> None:
        """In the present namespace, before a host is plugged in."""
        try:
            load(_proxy_rules(self._hosts))
        except (LabError, OSError, subprocess.SubprocessError):
            return  # slower, not wrong
        self.runs = True

    def end(self) -> None:
        """Every host hears all again. Raises LabError."""
        if self.runs:
            load("delete table bridge arp_proxy\n")
            self.runs = False


def _proxy_rules(hosts: Mapping[str, bytes]) -> str:
    elements = ", ".join(f"{address} : {mac.hex(':')}" for address, mac in hosts.items())
    return (
        f"table bridge arp_proxy {{\nmap hosts {{\ntype ipv4_addr : ether_addr\nelements = {{ {elements} }}\n}}\n"
        "chain prerouting {\ntype filter hook prerouting priority -300; policy accept;\n"
        "ether daddr ff:ff:ff:ff:ff:ff arp operation request ether daddr set arp daddr ip map @hosts\n}\n}\n"
    )
