"""Questions by ARP: the counting as a table, then on a bridge, then as figures of `stabilise` and `scan`."""

import ipaddress
import json
import subprocess

import pytest
from loops import over

from .lab_helpers import netlab, run_lab, wait_until

pytestmark = pytest.mark.lab(few=True)


def packed(address):
    return ipaddress.ip_address(address).packed


def tally(*requests):
    """Two nodes and a router; requests are (s, sender, target), of addresses 10.0.0.X."""
    arp = netlab("topology.arp_counter")
    found = arp.Tally(["10.0.0.1", "10.0.0.2"], ["10.0.0.14"], "10.0.0.0/28")
    for mono, sender, target in requests:
        found.note(arp.Request(mono, packed(f"10.0.0.{sender}"), packed(f"10.0.0.{target}")))
    return found


ROWS = [
    ("nothing", (), {}),
    ("a node asks for the other", [(1, 1, 2)], {"requests": 1, "per_s_max": 1}),
    ("for the router", [(1, 1, 14)], {"requests": 1, "per_s_max": 1}),
    ("for an unused address", [(1, 1, 5)], {"requests": 1, "per_s_max": 1, "silent": 1}),
    ("again", [(1, 1, 5), (2, 1, 5)], {"requests": 2, "per_s_max": 1, "silent": 1}),
    ("both for an unused address", [(1, 1, 5), (1, 2, 5)], {"requests": 2, "per_s_max": 1, "silent": 2}),
    ("outside the network", [(1, 1, 15)], {"requests": 1, "per_s_max": 1}),
    ("any second", [(1.9, 1, 5), (2.8, 1, 6), (2.9, 1, 6)], {"requests": 3, "per_s_max": 2, "silent": 2}),
    ("the router asks", [(1, 14, 5), (1.5, 14, 6)], {"router_requests": 2, "router_per_s_max": 2}),
    ("a stranger asks", [(1, 9, 5)], {"strangers": 1}),
]


@over(("requests", "expected"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_tally(requests, expected):
    found = tally(*requests).figures({})
    assert {name: value for name, value in found.items() if value} == expected


@pytest.mark.parametrize(("contact", "late"), [(None, 0), (0.5, 3), (1.5, 2), (9, 0)])
def test_only_what_was_first_asked_for_after_the_contact_is_late(contact, late):
    found = tally((1, 1, 5), (2, 1, 6), (3, 1, 7), (4, 1, 5), (5, 2, 8))
    contacts = {} if contact is None else {"10.0.0.1": contact}
    assert found.figures(contacts)["silent_after_contact"] == late


def test_a_full_table_says_so(monkeypatch):
    monkeypatch.setattr(netlab("topology.arp_counter"), "PAIRS_MAX", 2)
    found = tally((1, 1, 5), (1, 1, 6), (1, 1, 7), (1, 1, 5)).figures({})
    assert (found["requests"], found["silent"], found["left_out"]) == (4, 2, 1)


SEND = """
import socket, sys
for target in sys.argv[2:]:
    socket.socket({family}, socket.SOCK_DGRAM).sendto(sys.argv[1].encode(), (target, 9))
"""
LISTEN = """
import ipaddress, socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("eth0", 0))
wire.settimeout(30)
print("ready", flush=True)
heard = b""
while b"the last" not in heard:
    heard += wire.recv(2048)
print([address for address in sys.argv[1:] if ipaddress.ip_address(address).packed in heard])
"""
LABS = [
    pytest.param("10.0.0.{}", "10.0.0.0/24", "socket.AF_INET", id="IPv4"),
    pytest.param("fd00:5::{}", "fd00:5::/64", "socket.AF_INET6", id="IPv6"),
]


@pytest.mark.parametrize("rootless", [False, True])
@pytest.mark.parametrize(("address", "network", "family"), LABS)
def test_what_is_asked_for_in_vain_is_counted_and_troubles_no_node(nft, address, network, family, rootless):
    """No daemon runs; 3 hosts, one of which listens. IPv4 requests for a host are taken there (filters.py)."""
    code, known, unknown = SEND.format(family=family), address.format(1), [address.format(host) for host in (3, 4, 5)]
    addresses = [address.format(host) for host in (1, 2, 9)]
    with netlab("lab").Lab(addresses=addresses, network=network, arp=True, arp_proxy=True, rootless=rootless) as lab:
        info = lab.client.ask("info")
        assert info["requests_for_nobody"] == "stopped"
        assert info["requests_for_hosts"] == ("taken to them" if family == "socket.AF_INET" else "heard by all")
        overheard = [] if family == "socket.AF_INET" else [known]
        command = netlab("processes.enter").command_in(
            lab.options.name, "2", ["python", "-c", LISTEN, known, *unknown]
        )
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
            assert listener.stdout.readline() == "ready\n"
            assert lab.run(9, "python", "-c", code, "?", known, *unknown).returncode == 0  # all in one second
            wait_until(lambda: lab.arp()["requests"] >= 10, "one request, and three for each that is silent")
            asked = lab.arp()
            assert lab.run(9, "python", "-c", code, "the last", address.format(2)).returncode == 0
            assert listener.stdout.readline() == f"{overheard}\n"
    assert (asked["requests"], asked["silent"], asked["strangers"], asked["lost"]) == (10, 3, 0, 0)
    assert 4 <= asked["per_s_max"] <= 10


def test_without_nft_requests_are_heard_by_all(monkeypatch):
    proxy = netlab("topology.filters").ArpProxy({"10.0.0.1": bytes(6)})
    monkeypatch.setattr(netlab("topology.filters"), "WHERE_FOUND", "/nowhere")
    proxy.begin()
    assert not proxy.runs
    proxy.end()  # and nothing is asked of `nft` later


def test_a_lab_without_arp_does_not_count():
    with (
        netlab("lab").Lab(addresses=["10.0.0.1"]) as lab,
        pytest.raises(netlab("errors").LabError, match="This lab does not count ARP requests"),
    ):
        lab.arp()


def test_a_lone_node_knocks_everywhere():
    with netlab("lab").Lab(addresses=["10.0.0.9"], network="10.0.0.0/24", arp=True) as lab:
        lab.start_all()
        wait_until(lambda: lab.arp()["silent"] >= 30, "requests for thirty addresses")
        asked = lab.arp()
        assert (asked["silent_after_contact"], asked["contacted"], asked["router_requests"]) == (0, 0, 0)
        assert asked["requests"] >= 30
        assert asked["per_s_max"] <= 50


def test_figures_of_a_sparse_start(tmp_path):
    file = tmp_path / "figures.json"
    arguments = ["--nodes", 4, "--layout", "thirds", "--network", "10.0.0.0/28", "--seeds", 1, "--quiet", 0.5]
    result = run_lab("stabilise", *arguments, "--arp", "--no-disk", "--rest", 0, "--json", file)
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(file.read_text())
    expected = {"layout": "thirds", "network": "10.0.0.0/28", "seeds": ["10.0.0.9"], "announce": False, "disk": False}
    expected |= {"arp": True, "neighbours": "arp", "requests_for_nobody": "stopped", "quiet_s": 0.5}
    expected |= {"depth_optimum": 2, "contacted": 4, "arp_lost": 0, "arp_left_out": 0, "arp_of_strangers": 0}
    expected |= {"arp_router_per_s_max": 0, "arp_router_requests": 0}
    assert {name: run[name] for name in expected} == expected
    assert run["arp_per_s_max"] >= 1
    assert run["arp_requests_per_node"] >= 3 / 4  # at least each for its leader
    assert 0 <= run["silent_probes_after_contact_per_node"] <= run["silent_probes_per_node"] <= 8
    assert "ARP/s max" in result.stdout


def test_scan(tmp_path):
    file = tmp_path / "scan.json"
    arguments = ["--nodes", 3, "--network", "10.0.0.0/26", "--per-s", 100, "--seconds", 2, "--json", file]
    result = run_lab("scan", *arguments)
    assert result.returncode == 0, result.stderr
    found = json.loads(file.read_text())
    assert (found["targets"], found["sent"], found["silent_probes"]) == (61, 61, 59)
    assert found["arp_requests"] == found["whole_arp_requests"] == 59 * 3 + 2
    assert "Extrapolated to the whole network: 179 requests in 1 s, for each node that scans." in result.stdout
