"""Which of this machine's addresses is this node's.

Intuition: a guest looks for their seat with the invitation in hand. The network says which seats exist, the
machine says which names the guest goes by; if exactly one fits there is nothing to ask.

Pitfalls of `netifaces` (netifaces2 0.0.22, tried in fresh network namespaces), some evened out below:

- it asks the kernel (getifaddrs), not the `ip` tool; only its gateways() runs that, and we do not call it;
- interfaces and their addresses come in an arbitrary order, different at each call;
- a secondary address with a label is listed as an interface of its own, `eth0:1`, and not under `eth0`;
- an interface that does not exist yields an empty answer instead of an error;
- interfaces that are down are listed with their addresses, and so are IPv6 addresses which are still
  being checked for duplicates, to which the kernel does not yet let us bind (EADDRNOTAVAIL);
- without a broadcast address, the "broadcast" is the address itself or the far end: it is not used here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence

import msgspec
import netifaces

from subord.core.address.network import Network

LISTED_MAX = 8
"""Addresses named in one error; a machine with containers has hundreds."""
NETWORK_CHARACTERS_MAX = 60

_INET, _INET6 = netifaces.InterfaceType.AF_INET, netifaces.InterfaceType.AF_INET6

Interfaces = Mapping[str, Sequence[str]]
"""Names of interfaces, and the addresses of each as text."""


class InterfaceError(ValueError):
    """This machine has no address, or no single one, to take part with. One plain line for the operator."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """This node's address in canonical spelling, without scope, and the interface that has it."""

    interface: str
    address: str

    def __str__(self) -> str:
        return f"{self.address} on {self.interface}"


def listed_addresses() -> dict[str, list[str]]:
    """All interfaces of this network namespace with their IPv4 and IPv6 addresses."""
    listed: dict[str, list[str]] = {}
    for name in netifaces.interfaces():
        families = netifaces.ifaddresses(name)
        entries = [*families.get(_INET, []), *families.get(_INET6, [])]
        # The kernel allows no colon in the name of an interface: what follows it is a label.
        addresses = listed.setdefault(name.partition(":")[0], [])
        addresses += [entry["addr"] for entry in entries if "addr" in entry]
    return listed


def choose(
    network: Network,
    interface: str | None,
    address: str | None,
    interfaces: Callable[[], Interfaces] = listed_addresses,
) -> Chosen:
    """The one address of this machine inside the network; `interface` and `address`, if not empty, narrow it.

    Raises InterfaceError if none is left, or more than one; it says which key of [node] to set.
    """
    known = interfaces()
    if interface and interface not in known:
        names = _listed(sorted(known))
        raise InterfaceError(f"this machine has no interface {interface}: set node.interface to one of {names}")
    everything = _flattened(known)
    inside = [each for each in everything if network.position_of(each.address) is not None]
    fitting = [each for each in inside if not interface or each.interface == interface]
    if address:
        wanted = _canonical(address, network)
        fitting = [each for each in fitting if each.address == wanted]
    if not fitting:
        raise InterfaceError(_nothing_fits(network, interface, address, everything))
    if len(fitting) > 1:
        raise InterfaceError(_too_much_fits(network, fitting))
    return fitting[0]


def _flattened(known: Interfaces) -> list[Chosen]:
    """Every address once per interface, in an order that repeats."""
    pairs = {(ipaddress.ip_address(text.partition("%")[0]), name) for name, texts in known.items() for text in texts}
    ordered = sorted(pairs, key=lambda pair: (pair[0].version, int(pair[0]), pair[1]))
    return [Chosen(interface=name, address=str(address)) for address, name in ordered]


def _canonical(address: str, network: Network) -> str:
    try:
        canonical = str(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        raise InterfaceError(f"node.address {address} is no IP address: correct it") from None
    if network.position_of(canonical) is None:
        raise InterfaceError(
            f"node.address {address} lies outside the network {_cut(network)}: "
            "correct node.address or cluster.network"
        )
    return canonical


def _nothing_fits(network: Network, interface: str | None, address: str | None, everything: Sequence[Chosen]) -> str:
    whose = f"interface {interface}" if interface else "this machine"
    if address:
        complaint = f"{whose} does not have the address {address}"
        keys = "node.address or node.interface" if interface else "node.address"
    else:
        complaint = f"{whose} has no address inside the network {_cut(network)}"
        keys = "node.interface or cluster.network" if interface else "cluster.network"
    # Everybody has loopback and link-local addresses; to name them would only hide the interesting ones.
    telling = [str(each) for each in everything if not _is_local(each.address)]
    has = _listed(telling) if telling else "no address but its own loopback or link-local ones"
    return f"{complaint}: correct {keys}, or give the machine such an address; this machine has {has}"


def _too_much_fits(network: Network, fitting: Sequence[Chosen]) -> str:
    """The choices, and the key that tells them apart: one that no two of them share."""
    interface_tells = len({each.interface for each in fitting}) == len(fitting)
    address_tells = len({each.address for each in fitting}) == len(fitting)
    keys = ["node.address"] * address_tells + ["node.interface"] * interface_tells
    # Some addresses shared, some interfaces with several: only the pair tells them apart.
    advice = " or ".join(keys) or "node.address and node.interface"
    choices = _listed([str(each) for each in fitting])
    return f"this machine has several addresses inside the network {_cut(network)}: {choices}; set {advice}"


def _is_local(text: str) -> bool:
    address = ipaddress.ip_address(text)
    return address.is_loopback or address.is_link_local


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - LISTED_MAX
    return ", ".join(texts[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _cut(network: Network) -> str:
    text = network.text
    return text if len(text) <= NETWORK_CHARACTERS_MAX else f"{text[:NETWORK_CHARACTERS_MAX]}..."
