"""Layouts that have a name, and what follows from addresses of both IP versions: tables, without a namespace."""

import json
import re
from statistics import median
from types import SimpleNamespace

import pytest
from loops import over

from .lab_helpers import REPOSITORY, netlab

pytestmark = pytest.mark.lab


def test_layouts_that_are_not_drawn():
    positions = netlab("topology.layout").positions
    assert positions("dense", 4, 100, 1) == [1, 2, 3, 4]
    assert positions("six", 4, 100, 1) == [1, 2, 3, 4]
    assert positions("end", 4, 100, 1) == [97, 98, 99, 100]
    assert positions("thirds", 4, 100, 1) == [3, 6, 9, 12]


@over("layout", ["random", "blocks"])
@over(("nodes", "size"), [(1, 1), (7, 7), (23, 1000), (500, 65534), (100, 2**64 - 1)])
def test_layouts_that_are_drawn(layout, nodes, size):
    positions = netlab("topology.layout").positions
    found = positions(layout, nodes, size, 5)
    assert found == sorted(set(found))
    assert len(found) == nodes
    assert 1 <= found[0] <= found[-1] <= size
    assert positions(layout, nodes, size, 5) == found
    assert size == nodes or positions(layout, nodes, size, 6) != found


def test_blocks_are_five():
    found = netlab("topology.layout").positions("blocks", 23, 65534, 1)
    begins = [position for position in found if position - 1 not in found]
    ends = [position for position in found if position + 1 not in found]
    assert [end - begin + 1 for begin, end in zip(begins, ends, strict=True)] == [5, 5, 5, 4, 4]


@over(
    ("layout", "nodes", "network", "expected"),
    [
        ("dense", 2, None, ["10.0.0.1", "10.0.0.2"]),
        ("dense", 3, "10.0.5.8-10.0.5.9,10.0.7.1", ["10.0.5.8", "10.0.5.9", "10.0.7.1"]),
        ("dense", 2, "10.0.9.1,10.0.5.1", ["10.0.9.1", "10.0.5.1"]),  # in the order of the network
        ("end", 2, "10.0.0.0/24", ["10.0.0.253", "10.0.0.254"]),
        ("end", 2, "fd00:5::/64", ["fd00:5::ffff:ffff:ffff:fffe", "fd00:5::ffff:ffff:ffff:ffff"]),
        ("thirds", 2, "fd00:5::/64", ["fd00:5::3", "fd00:5::6"]),
        ("six", 2, None, ["fd00:5::1", "fd00:5::2"]),
        ("routed", 4, None, ["10.0.1.1", "10.0.1.2", "10.0.2.1", "10.0.3.1"]),
        ("routed", 2, "10.0.0.0/16", ["10.0.1.1", "10.0.2.1"]),
    ],
)
def test_addresses(layout, nodes, network, expected):
    assert list(netlab("topology.layout").layout(layout, nodes, network).addresses) == expected


def test_six_is_a_range_as_long_as_there_are_nodes():
    assert netlab("topology.layout").layout("six", 100).network == "fd00:5::1-fd00:5::64"


def test_routed_has_its_router_at_the_end_of_each_subnet():
    addresses = netlab("topology.addresses")
    where = netlab("topology.layout").layout("routed", 759)
    routers = addresses.router_addresses(where.subnets)
    assert routers == ["10.0.1.254", "10.0.2.254", "10.0.3.254"]
    assert not {*routers} & {*where.addresses}
    assert len(where.addresses) == 759
    blocks = addresses.links(where.network, where.subnets)
    assert [addresses.link_number(each, blocks) for each in ("10.0.1.9", "10.0.2.9", "10.0.3.9")] == [0, 1, 2]


@over(
    ("network", "block"),
    [
        ("10.0.0.0/16", "10.0.0.0/16"),
        ("10.0.5.10-10.0.5.60", "10.0.5.0/26"),
        ("10.0.5.0-10.0.5.7", "10.0.4.0/23"),  # so that neither end is a network's or broadcast address
        ("10.0.5.9,10.0.7.1", "10.0.4.0/22"),
        ("fd00:5::/64", "fd00:5::/64"),
        ("fd00:5::1-fd00:5::64", "fd00:5::/64"),
        ("fd00:5::1,fd00:6::1", "fd00:4::/30"),
    ],
)
def test_the_block_of_an_interface(network, block):
    assert str(netlab("topology.addresses").link_of(network)) == block


@pytest.mark.parametrize(
    ("address", "network", "port", "mac"),
    [
        ("10.0.1.2", "10.0.0.0/16", "n258", "02:00:0a:00:01:02"),
        ("10.0.5.12", "10.0.5.10-20", "n3", "02:00:0a:00:05:0c"),
        ("fd00:5::1:2", "fd00:5::/64", "n65538", "02:00:00:01:00:02"),
        ("fd00:5::a:b:c:d", "fd00:5::/64", "x000c000d", "02:00:00:0c:00:0d"),  # an interface has 15 characters
    ],
)
def test_names_that_follow_from_an_address(address, network, port, mac):
    addresses = netlab("topology.addresses")
    assert addresses.port_name(address, network) == port
    assert addresses.hardware_address(address).hex(":") == mac


@over(
    ("layout", "nodes", "network", "sentence"),
    [
        ("thirds", 5, "10.0.0.0/28", "--layout thirds with --nodes 5 needs 15 positions, the network has 14"),
        ("random", 15, "10.0.0.0/28", "needs 15 positions"),
        ("random", 1024, "fd00:5::/64", "1024 nodes: a lab has 1 to 1023"),
        ("routed", 760, None, "room for 759 nodes"),
        ("routed", 3, "10.0.1.0/24", "10.0.2.1 is no host address of 10.0.1.0/24"),
        ("dense", 3, "10.0.0.1-9,fd00::1", "--network 10.0.0.1-9,fd00::1: the network mixes families"),
        ("dense", 2, "fd00:5::1,fd00:6::1", "Two nodes have the same last 32 bits"),
    ],
)
def test_refused(layout, nodes, network, sentence):
    with pytest.raises(netlab("errors").LabError, match=re.escape(sentence)):
        netlab("topology.layout").layout(layout, nodes, network)


def test_seeds_are_evenly_spread_nodes_or_those_that_are_named():
    layout = netlab("topology.layout")
    where = layout.layout("thirds", 4)
    assert layout.seeds_of(where, 0) == ()
    assert layout.seeds_of(where, 2) == ("10.0.0.6", "10.0.0.12")
    assert layout.seeds_of(where, 2, [9]) == ("10.0.0.9",)
    with pytest.raises(netlab("errors").LabError, match="--seed-nodes 4: no node of this layout"):
        layout.seeds_of(where, 0, [4])


@over(
    ("nodes", "silent", "fits"),
    [
        (2, 0, True),
        (2, 200, True),
        (2, 300, False),  # more than the half of the kernel's own limit
        (23, 0, True),
        (23, 1, False),
    ],
)
def test_silent_addresses_take_room_in_the_neighbour_table(nodes, silent, fits):
    neighbours = netlab("topology.neighbours")
    assert neighbours.fits(nodes, (128, 512, 1024), silent) is fits
    with_room = neighbours._wanted(nodes, silent)
    assert neighbours.fits(nodes, with_room, silent)
    assert with_room[2] >= nodes * silent


def test_the_best_depth():
    depth_optimum = netlab("eventlog.tree").depth_optimum
    assert [depth_optimum(nodes, 2) for nodes in (1, 2, 3, 4, 7, 8)] == [0, 1, 1, 2, 2, 3]
    assert [depth_optimum(nodes, 8) for nodes in (9, 10, 73, 74, 500)] == [1, 2, 2, 3, 3]


@pytest.mark.parametrize("layout", ["six", "thirds"])
def test_the_daemon_takes_the_configuration(tmp_path, layout):
    from subord.config.load import load

    options = netlab("lab").Lab(4, layout=layout, seeds=2, announce=True, arp=True, disk=False).options
    assert netlab("processes.options").Options.from_json(options.to_json()) == options
    file = tmp_path / "config.toml"
    file.write_text(
        netlab("processes.options").config_text(
            options, options.addresses[3], tmp_path, netlab("processes.rundir").RunDirectory(tmp_path)
        )
    )
    config = load(str(file))
    assert config.cluster.network.position_of(options.addresses[3]) == {"six": 4, "thirds": 12}[layout]
    assert config.node.metrics_listener == (options.addresses[3], 9717)
    assert (config.node.seeds, config.node.announce) == (options.addresses[1::2], True)


def test_nothing_of_seeds_is_said_unless_asked_for(tmp_path):
    options = netlab("lab").Lab(4).options
    text = netlab("processes.options").config_text(
        options, options.addresses[0], tmp_path, netlab("processes.rundir").RunDirectory(tmp_path)
    )
    assert "\nseeds" not in text
    assert "\nannounce" not in text


def test_the_demo_says_why_its_daemons_need_less_memory_than_one_alone():
    lab = SimpleNamespace(
        document=lambda *_: {"exchanges": 1, "address": "10.0.0.2"},
        processes=lambda *_: {"cpu_s": {1: 0.1, 2: 0.3}, "pss_mib": {1: 11.0, 2: 13.0}},
    )
    printed = netlab("cli.demo")._costs(lab)
    runs = json.loads((REPOSITORY / "docs/figures/memory.json").read_text())
    alone = [run["resident_mib"] for run in runs if run.get("state") == "neighbour" and not run["is_before"]]
    assert "12.0 MiB of memory per daemon: the lab's daemons share pages" in printed
    assert f"A daemon alone needs {median(alone):.0f} MiB (docs/evaluation/rest.md)" in printed
