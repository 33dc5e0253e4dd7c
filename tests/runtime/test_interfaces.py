"""The choice of an address: from tables of interfaces, and by netifaces in a new network namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import netifaces
import pytest
from loops import over

import subord
from subord.core.address.network import Network
from subord.runtime.net.interfaces import Chosen, InterfaceError, choose, listed_addresses

PACKAGE_PARENT = str(Path(subord.__file__).parents[1])

PLAIN = {"lo": ["127.0.0.1", "::1"], "eth0": ["10.0.0.5", "fd00::5", "fe80::5%eth0"]}
TWO_INTERFACES = {**PLAIN, "eth1": ["10.0.0.20", "fe80::5%eth1"]}
TWO_ADDRESSES = {**PLAIN, "eth0": ["10.0.0.20", "10.0.0.5"]}
SHARED = {"eth0": ["10.0.0.5"], "eth1": ["10.0.0.5"]}
TANGLED = {"eth0": ["10.0.0.5", "10.0.0.6"], "eth1": ["10.0.0.5", "10.0.0.6"]}
BARE = {"lo": ["127.0.0.1", "::1"], "eth0": ["fe80::5"]}
CROWDED = {f"veth{i:03}": [f"172.16.0.{i + 1}"] for i in range(200)}


def chosen(machine: Mapping[str, list[str]], network: str, interface: str | None, address: str | None) -> Chosen:
    return choose(Network.parse(network), interface, address, lambda: machine)


@over(
    ("machine", "network", "interface", "address", "expected"),
    [
        (PLAIN, "10.0.0.0/24", None, None, ("eth0", "10.0.0.5")),
        (PLAIN, "10.0.0.0/24", "", "", ("eth0", "10.0.0.5")),
        (PLAIN, "10.0.0.0/24", "eth0", None, ("eth0", "10.0.0.5")),
        (PLAIN, "10.0.0.0/24", None, "10.0.0.5", ("eth0", "10.0.0.5")),
        (PLAIN, "10.0.0.3,10.0.0.5", None, None, ("eth0", "10.0.0.5")),
        (PLAIN, "127.0.0.0/8", None, None, ("lo", "127.0.0.1")),
        (PLAIN, "fd00::/64", None, None, ("eth0", "fd00::5")),
        (PLAIN, "fd00::/64", None, "FD00:0::0005", ("eth0", "fd00::5")),
        (PLAIN, "fe80::/64", None, None, ("eth0", "fe80::5")),
        (PLAIN, "fe80::/64", None, "fe80::5%eth0", ("eth0", "fe80::5")),
        (TWO_INTERFACES, "10.0.0.0/24", "eth1", None, ("eth1", "10.0.0.20")),
        (TWO_INTERFACES, "10.0.0.0/24", None, "10.0.0.20", ("eth1", "10.0.0.20")),
        (TWO_INTERFACES, "fe80::/64", "eth1", None, ("eth1", "fe80::5")),
        (TWO_ADDRESSES, "10.0.0.0/24", "eth0", "10.0.0.20", ("eth0", "10.0.0.20")),
        (SHARED, "10.0.0.0/24", "eth1", "10.0.0.5", ("eth1", "10.0.0.5")),
        ({"eth0": ["10.0.0.5", "10.0.0.5"]}, "10.0.0.0/24", None, None, ("eth0", "10.0.0.5")),
    ],
)
def test_the_only_address_that_fits(
    machine: Mapping[str, list[str]],
    network: str,
    interface: str | None,
    address: str | None,
    expected: tuple[str, str],
) -> None:
    found = chosen(machine, network, interface, address)
    assert (found.interface, found.address) == expected


SEVERAL = "this machine has several addresses inside the network"


@over(
    ("machine", "network", "interface", "address", "expected"),
    [
        (
            TWO_INTERFACES, "10.0.0.0/24", None, None,
            f"{SEVERAL} 10.0.0.0/24: 10.0.0.5 on eth0, 10.0.0.20 on eth1; set node.address or node.interface",
        ),
        (
            TWO_ADDRESSES, "10.0.0.0/24", None, None,
            f"{SEVERAL} 10.0.0.0/24: 10.0.0.5 on eth0, 10.0.0.20 on eth0; set node.address",
        ),
        (
            TWO_ADDRESSES, "10.0.0.0/24", "eth0", None,
            f"{SEVERAL} 10.0.0.0/24: 10.0.0.5 on eth0, 10.0.0.20 on eth0; set node.address",
        ),
        (
            SHARED, "10.0.0.0/24", None, "10.0.0.5",
            f"{SEVERAL} 10.0.0.0/24: 10.0.0.5 on eth0, 10.0.0.5 on eth1; set node.interface",
        ),
        (
            TANGLED, "10.0.0.0/24", None, None,
            (f"{SEVERAL} 10.0.0.0/24: 10.0.0.5 on eth0, 10.0.0.5 on eth1, 10.0.0.6 on eth0, 10.0.0.6 on eth1; "
            "set node.address and node.interface"),
        ),
        (
            PLAIN, "10.0.1.0/24", None, None,
            ("this machine has no address inside the network 10.0.1.0/24: correct cluster.network, "
            "or give the machine such an address; this machine has 10.0.0.5 on eth0, fd00::5 on eth0"),
        ),
        (
            PLAIN, "10.0.0.0/24", "lo", None,
            ("interface lo has no address inside the network 10.0.0.0/24: correct node.interface or cluster.network, "
            "or give the machine such an address; this machine has 10.0.0.5 on eth0, fd00::5 on eth0"),
        ),
        (
            PLAIN, "10.0.0.0/24", None, "10.0.0.6",
            ("this machine does not have the address 10.0.0.6: correct node.address, "
            "or give the machine such an address; this machine has 10.0.0.5 on eth0, fd00::5 on eth0"),
        ),
        (
            TWO_INTERFACES, "10.0.0.0/24", "eth0", "10.0.0.20",
            ("interface eth0 does not have the address 10.0.0.20: correct node.address or node.interface, or give "
            "the machine such an address; this machine has 10.0.0.5 on eth0, 10.0.0.20 on eth1, fd00::5 on eth0"),
        ),
        (
            BARE, "10.0.0.0/24", None, None,
            ("this machine has no address inside the network 10.0.0.0/24: correct cluster.network, or give the "
            "machine such an address; this machine has only loopback or link-local addresses"),
        ),
        (
            PLAIN, "10.0.0.0/24", "ethO", None,
            "this machine has no interface ethO: set node.interface to one of eth0, lo",
        ),
        (
            PLAIN, "10.0.0.0/24", None, "10.0.1.5",
            "node.address 10.0.1.5 lies outside the network 10.0.0.0/24: correct node.address or cluster.network",
        ),
        (PLAIN, "10.0.0.0/24", None, "node5", "node.address node5 is not an IP address: correct it"),
    ])  # fmt: skip
def test_why_none_was_chosen(
    machine: Mapping[str, list[str]], network: str, interface: str | None, address: str | None, expected: str
) -> None:
    with pytest.raises(InterfaceError) as caught:
        chosen(machine, network, interface, address)
    assert str(caught.value) == expected


def test_an_error_names_only_some_of_many_addresses() -> None:
    with pytest.raises(InterfaceError) as caught:
        chosen(CROWDED, "10.0.0.0/24", None, None)
    assert str(caught.value).endswith("172.16.0.8 on veth007 and 192 more")


def test_a_long_network_is_cut_in_errors() -> None:
    with pytest.raises(InterfaceError) as caught:
        chosen(PLAIN, ",".join(f"10.1.{i}.1" for i in range(200)), None, None)
    assert len(str(caught.value)) < 300


def test_a_labelled_address_belongs_to_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    inet = netifaces.InterfaceType.AF_INET
    known: dict[str, Any] = {"eth0:1": {inet: [{"addr": "10.1.0.6"}]}, "eth0": {inet: [{"addr": "10.0.0.5"}]}}
    monkeypatch.setattr(netifaces, "interfaces", lambda: list(known))
    monkeypatch.setattr(netifaces, "ifaddresses", known.__getitem__)
    assert {name: sorted(texts) for name, texts in listed_addresses().items()} == {"eth0": ["10.0.0.5", "10.1.0.6"]}


LIST = """
import json
from subord.runtime.net.interfaces import listed_addresses
print(json.dumps({name: sorted(texts) for name, texts in listed_addresses().items()}))
"""


def listed_in_namespace(commands: str) -> dict[str, list[str]]:
    """The addresses that a process sees in a new network namespace, without any tool in its PATH."""
    script = f'set -e\n{commands}\nPATH=/nonexistent exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "-Urn", "sh", "-c", script, sys.executable, LIST],
        env={**os.environ, "PYTHONPATH": PACKAGE_PARENT},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed: dict[str, list[str]] = json.loads(done.stdout)
    return listed


@pytest.fixture
def needs_namespaces() -> None:
    if shutil.which("ip") is None:
        pytest.skip("no `ip` here: apt-get install iproute2")
    if subprocess.run(["unshare", "-Urn", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no unprivileged network namespaces here")


@pytest.mark.usefixtures("needs_namespaces")
def test_a_namespace_with_only_a_loopback_that_is_down() -> None:
    assert listed_in_namespace("") == {"lo": []}


@pytest.mark.usefixtures("needs_namespaces")
def test_secondary_addresses_are_all_listed() -> None:
    listed = listed_in_namespace(
        """
        ip link set lo up
        ip addr add 10.0.0.5/24 dev lo
        ip addr add 10.0.0.6/24 dev lo
        ip addr add 10.1.0.6/16 dev lo label lo:1
        ip -6 addr add fd00::5/64 dev lo nodad
        """
    )
    assert listed == {"lo": ["10.0.0.5", "10.0.0.6", "10.1.0.6", "127.0.0.1", "::1", "fd00::5"]}
