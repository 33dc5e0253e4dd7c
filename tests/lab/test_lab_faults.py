"""Faults of the network as the nodes feel them: what is blocked does not arrive, and a new host is found."""

import subprocess
import sys

import pytest

from .lab_helpers import FAKE, WAIT_S, netlab, wait_until

pytestmark = pytest.mark.lab(few=True)

LISTEN = """
import select, socket, sys, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 5000))
tcp = socket.create_server(("", 5000))
print("ready", flush=True)
heard = set()
until = time.monotonic() + 20
while "end" not in heard and time.monotonic() < until:
    for each in select.select([udp, tcp, sys.stdin], [], [], 1)[0]:
        if each is sys.stdin:
            heard.add("end")
        elif each is udp:
            heard.add(udp.recv(100).decode())
        else:
            heard.add("tcp")
            tcp.accept()
print(" ".join(sorted(heard - {"end"})))
"""
SPEAK = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(3):
    udp.sendto(b"udp", (sys.argv[1], 5000))
try:
    socket.create_connection((sys.argv[1], 5000), timeout=0.5)
except OSError:
    pass
"""


def raised(nodes=3, *, rootless=False):
    return netlab("lab").Lab(nodes=nodes, daemon=str(FAKE), rootless=rootless)


@pytest.fixture
def lab():
    with raised() as one:
        yield one


def heard(lab, source, target):
    """What node `target` hears of a datagram and a stream from node `source`."""
    command = netlab("processes.enter").command_in(lab.options.name, str(target), [sys.executable, "-c", LISTEN])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout.readline() == "ready\n"
        assert lab.run(source, sys.executable, "-c", SPEAK, lab.address(target)).returncode == 0
        return set(listener.communicate("end", timeout=WAIT_S)[0].split())


def test_what_is_blocked_does_not_arrive(lab, nft):
    filters = netlab("topology.filters")

    def blocked(**faults):
        lab.filter(filters.rules(filters.Faults(**faults)))

    one_to_two = (lab.port(1),), (lab.port(2),)
    assert heard(lab, 1, 2) == {"udp", "tcp"}
    blocked(blocks=(filters.Block(*one_to_two, "udp"),))
    assert heard(lab, 1, 2) == {"tcp"}
    assert heard(lab, 2, 1) == {"udp", "tcp"}
    blocked(blocks=(filters.Block(*one_to_two, "tcp"),))
    assert heard(lab, 2, 1) == {"udp"}  # the answer of 1 is lost
    blocked(blocks=(filters.Block(*one_to_two, "all"),))
    assert heard(lab, 1, 2) == set()
    assert heard(lab, 1, 3) == {"udp", "tcp"}
    blocked(sides=((lab.port(1), lab.port(3)), (lab.port(2),)))
    assert heard(lab, 2, 3) == set()
    assert heard(lab, 1, 3) == {"udp", "tcp"}
    blocked()
    assert heard(lab, 1, 2) == {"udp", "tcp"}


def test_refused_rules_change_nothing(lab, nft):
    filters, errors = netlab("topology.filters"), netlab("errors")
    lab.filter(filters.rules(filters.Faults(loss=1.0)))
    with pytest.raises(errors.LabError, match="nothing was changed"):
        lab.filter("table bridge lab { nonsense }")
    assert heard(lab, 1, 2) == {"tcp"}


def hardware_addresses(lab, position):
    """What node `position` knows of the others: address -> MAC."""
    lines = lab.run(position, "cat", "/proc/net/arp").stdout.splitlines()[1:]
    return {line.split()[0]: line.split()[3] for line in lines}


@pytest.mark.parametrize(("nodes", "rootless", "how"), [(3, False, "arp"), (24, True, "permanent")])
def test_another_host_at_the_same_address_is_found_by_those_who_knew_the_old_one(nodes, rootless, how):
    with raised(nodes, rootless=rootless) as lab:
        assert lab.client.ask("info")["neighbours"] == how
        lab.start_all()
        lab.wait(lambda cluster: cluster.settled_at() is not None, WAIT_S)
        assert hardware_addresses(lab, 1)["10.0.0.2"] == "02:00:0a:00:00:02"
        state = lab.directory.node(2) / "state"
        (state / "memory").write_text("of the old host")
        for times in (1, 2):
            lab.replace(2)
            assert lab.look().nodes["10.0.0.2"].alive is False
            assert list(state.iterdir()) == []
            mac = f"02:{times:02x}:0a:00:00:02"
            wait_until(lambda mac=mac: hardware_addresses(lab, 1)["10.0.0.2"] == mac, "node 1 knows the new host")
            lab.start(2)
            lab.wait(lambda cluster: cluster.nodes["10.0.0.2"].ready, WAIT_S)
        assert heard(lab, 1, 2) == heard(lab, 2, 3) == {"udp", "tcp"}
