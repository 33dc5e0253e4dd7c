"""Chooses the address of this node among the addresses of this machine.

In: the network, the interfaces of the machine, and [node] interface and address. Out: the single address that fits,
or an InterfaceError that names the key to set.

Properties of `netifaces` (netifaces2 0.0.22, tested in fresh network namespaces):

- it asks the kernel (getifaddrs), not the `ip` tool; only gateways(), which is not used here, runs the tool;
- interfaces and their addresses come in an arbitrary order, different at each call;
- a secondary address with a label is listed as a separate interface, `eth0:1`, and not under `eth0`;
- an interface that does not exist yields an empty answer instead of an error;
- interfaces that are down are listed with their addresses, and so are IPv6 addresses that the kernel still checks for
  duplicates and to which a process cannot bind yet (EADDRNOTAVAIL);
- without a broadcast address, the "broadcast" is the address itself or the far end: it is not used here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence

import msgspec
import netifaces

from subord.config.schema import Config
from subord.core.address.network import Network

LISTED_MAX = 8
"""Addresses listed in one error; a machine with containers has hundreds."""
NETWORK_CHARACTERS_MAX = 60

_INET, _INET6 = netifaces.InterfaceType.AF_INET, netifaces.InterfaceType.AF_INET6

Interfaces = Mapping[str, Sequence[str]]
"""The addresses of each interface by its name, as text."""


class InterfaceError(ValueError):
    """No address of this machine fits, or several do. One line for the operator."""


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
        # The kernel allows no colon in the name of an interface: a label follows it.
        addresses = listed.setdefault(name.partition(":")[0], [])
        addresses += [entry["addr"] for entry in entries if "addr" in entry]
    return listed


def check_place(config: Config, address: str) -> None:
    """Raises InterfaceError if the node with this address could not start with this configuration."""
    network = config.cluster.network
    if network.position_of(address) is None:
        where = config.network_file or "cluster.network"
        raise InterfaceError(f"the new network lacks this node's address {address}: add it to {where}")
    choose(network, config.node.interface or None, config.node.address or None)


def choose(
    network: Network,
    interface: str | None,
    address: str | None,
    interfaces: Callable[[], Interfaces] = listed_addresses,
) -> Chosen:
    """The one address of this machine inside the network; `interface` and `address`, if not empty, narrow the choice.

    Raises InterfaceError if none or several fit.
    """
    known = interfaces()
    if interface and interface not in known:
        names = _listed(sorted(known))
        raise InterfaceError(f"this machine has no interface {interface}: set node.interface to one of {names}")
    listed = _flattened(known)
    inside = [each for each in listed if network.position_of(each.address) is not None]
    fitting = [each for each in inside if not interface or each.interface == interface]
    if address:
        wanted = _canonical(address, network)
        fitting = [each for each in fitting if each.address == wanted]
    if not fitting:
        raise InterfaceError(_none_fits(network, interface, address, listed))
    if len(fitting) > 1:
        raise InterfaceError(_several_fit(network, fitting))
    return fitting[0]


def _flattened(known: Interfaces) -> list[Chosen]:
    """Every address once per interface, sorted."""
    pairs = {(ipaddress.ip_address(text.partition("%")[0]), name) for name, texts in known.items() for text in texts}
    ordered = sorted(pairs, key=lambda pair: (pair[0].version, int(pair[0]), pair[1]))
    return [Chosen(interface=name, address=str(address)) for address, name in ordered]


def _canonical(address: str, network: Network) -> str:
    try:
        canonical = str(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        raise InterfaceError(f"node.address {address} is not an IP address: correct it") from None
    if network.position_of(canonical) is None:
        raise InterfaceError(
            f"node.address {address} lies outside the network {_cut(network)}: "
            "correct node.address or cluster.network"
        )
    return canonical


def _none_fits(network: Network, interface: str | None, address: str | None, listed: Sequence[Chosen]) -> str:
    owner = f"interface {interface}" if interface else "this machine"
    if address:
        complaint = f"{owner} does not have the address {address}"
        keys = "node.address or node.interface" if interface else "node.address"
    else:
        complaint = f"{owner} has no address inside the network {_cut(network)}"
        keys = "node.interface or cluster.network" if interface else "cluster.network"
    # Every machine has loopback and link-local addresses; listing them would hide the others.
    useful = [str(each) for each in listed if not _is_local(each.address)]
    has = _listed(useful) if useful else "only loopback or link-local addresses"
    return f"{complaint}: correct {keys}, or give the machine such an address; this machine has {has}"


def _several_fit(network: Network, fitting: Sequence[Chosen]) -> str:
    """The choices, and the keys whose values distinguish them."""
    interface_differs = len({each.interface for each in fitting}) == len(fitting)
    address_differs = len({each.address for each in fitting}) == len(fitting)
    keys = ["node.address"] * address_differs + ["node.interface"] * interface_differs
    # Some share an address and some an interface: only the pair distinguishes them.
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
