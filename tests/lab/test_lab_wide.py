"""Labs that are not one IPv4 block on one bridge: IPv6, lists of ranges, and three subnets with a router."""

import pytest

from .lab_helpers import need_neighbours, netlab

pytestmark = pytest.mark.lab(few=True)

TIGHT = "10.0.1.1-10.0.1.{0},10.0.2.1-10.0.2.{0},10.0.3.1-10.0.3.{0}"
TREE_OF_SIX = {1: None, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3}


def leaders(lab):
    return {position: leader for position, (_, leader) in lab.places().items()}


def stable(lab):
    lab.start_all()
    lab.wait_stable(timeout_s=60, quiet_s=0.5)
    return leaders(lab)


def come_home(lab, expected):
    """An early node may have been a guest elsewhere first."""
    lab.start_all()
    lab.wait(lambda cluster: leaders(lab) == expected and cluster.settled_at() is not None, 60)


def test_six():
    with netlab("lab").Lab(6, layout="six", arp=True) as lab:
        come_home(lab, TREE_OF_SIX)
        assert min(lab.processes("datagrams_sent")["datagrams_sent"].values()) > 0
        asked = lab.arp()
        # Each node asks for its leader, which then knows where the answer goes.
        assert asked["requests"] >= 5
        assert (asked["silent"], asked["strangers"], asked["lost"]) == (0, 0, 0)
        with pytest.raises(netlab("errors").LabError, match="with IPv4 on one bridge alone"):
            lab.replace(6)
        assert len(lab.look().live()) == 6


def test_six_at_random_finds_together_by_a_seed():
    need_neighbours()
    with netlab("lab").Lab(4, layout="random", network="fd00:5::/64", seeds=1) as lab:
        assert max(lab.positions) > 1 << 32
        assert [position for position, leader in stable(lab).items() if leader is None] == [min(lab.positions)]


def test_ranges():
    network = "10.0.7.200-10.0.7.202,10.0.5.1-10.0.5.3"
    with netlab("lab").Lab(6, network=network) as lab:
        assert lab.address(1) == "10.0.7.200"
        come_home(lab, TREE_OF_SIX)


def test_routed():
    with netlab("lab").Lab(6, layout="routed", network=TIGHT.format(2), arp=True) as lab:
        come_home(lab, TREE_OF_SIX)
        asked = lab.arp()
        assert asked["requests"] >= 4  # two in each subnet, and their routers
        assert asked["router_requests"] >= 1
        assert (asked["silent"], asked["strangers"]) == (0, 0)
        code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
        assert "Network is unreachable" in lab.run(3, "python", "-c", code).stderr


@pytest.mark.parametrize(("layout", "network"), [("six", None), ("routed", TIGHT.format(8))])
def test_where_no_node_may_ask(layout, network):
    """As without rights: 24 nodes know their neighbours from the beginning."""
    with netlab("lab").Lab(24, layout=layout, network=network, rootless=True) as lab:
        assert lab.client.ask("info")["neighbours"] == "permanent"
        come_home(lab, {position: position // 2 or None for position in range(1, 25)})


def test_too_many_who_ask_in_vain_are_refused():
    LabError = netlab("errors").LabError  # noqa: N806
    with (
        pytest.raises(LabError, match="6 nodes among 94 addresses without a host are out of reach"),
        netlab("lab").Lab(addresses=[f"10.0.0.{host}" for host in (1, 2, 3, 4, 5, 100)], rootless=True),
    ):
        pass
    with (
        pytest.raises(LabError, match="--arp is out of reach for so many nodes"),
        netlab("lab").Lab(30, arp=True, rootless=True),
    ):
        pass
