"""A folded set unfolds to the same names, with the reader of subord and with ClusterShell's."""

from __future__ import annotations

import time

import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.client.folding import DIGITS_MAX, folded, in_order, in_short
from subord.config import hostlist
from subord.config.hostlist import items_of, unfolded
from subord.core.address.network import Network


@over(
    ("names", "text"),
    [
        ("", ""),
        ("node3", "node3"),
        ("node3 node7 node8 node9", "node[3,7-9]"),
        ("node001 node002 node003 node7", "node[001-003,7]"),
        ("node8 node9 node10 node11", "node[8-11]"),
        ("node08 node09 node10 node11", "node[08-11]"),
        ("node9 node09 node10", "node[09-10,9]"),
        ("node98 node99 node099 node100", "node[98-99,099-100]"),
        ("r1n1 r1n2 r2n1 r2n2", "r[1-2]n[1-2]"),
        ("r1n1 r1n2 r2n1", "r1n[1-2],r2n1"),
        ("a b c1 c2 c3", "a,b,c[1-3]"),
        ("login login1 login2", "login,login[1-2]"),
        ("x1234567890 x1234567891", "x1234567890,x1234567891"),  # more digits than a bracket may have
        ("10.0.0.3 10.0.0.7 10.0.0.8 10.0.0.9", "10.0.0.[3,7-9]"),
        ("10.0.0.1 10.0.0.2 10.0.1.1 10.0.1.2", "10.0.[0-1].[1-2]"),
        ("10.0.0.9 10.0.0.10", "10.0.0.[9-10]"),
        ("fd00::1 fd00::2 fd00::3 fd00::f fd00::10", "fd00::1-fd00::3,fd00::f-fd00::10"),
        ("fd00::1 10.0.0.1 fd00::2", "10.0.0.1,fd00::1-fd00::2"),
    ],
)
def test_folded(names: str, text: str) -> None:
    assert folded(names.split()) == text


numbers = st.one_of(st.integers(0, 12), st.integers(90, 110), st.integers(995, 1005))
digits = st.builds(lambda number, width: f"{number:0{width}}", numbers, st.integers(1, 4))
hosts = st.builds("{}{}{}".format, st.sampled_from(["n", "node-", "r1x"]), digits, st.sampled_from(["", "-ib"]))
racks = st.builds("rack{}n{}".format, digits, digits)
octets = st.one_of(st.integers(0, 3), st.integers(250, 255))
addresses = st.builds("10.0.{}.{}".format, octets, octets)
v6 = st.integers(0, 40).map(lambda number: f"fd00::{number:x}" if number else "fd00::")


@pytest.mark.slow
@given(st.sets(st.one_of(hosts, racks), max_size=60))
def test_names_unfold_to_the_same(names: set[str]) -> None:
    text = folded(names)
    again = [name for item in items_of(text) for name in unfolded(item)]
    assert (set(again), len(again)) == (names, len(names))


@pytest.mark.slow
@given(st.sets(st.one_of(addresses), min_size=1, max_size=60))
def test_clustershell_reads_the_same(names: set[str]) -> None:
    assert set(NodeSet(folded(names))) == names


@given(st.sets(st.builds("n{}r{}".format, octets, octets), min_size=1, max_size=60))
def test_clustershell_reads_the_same_names(names: set[str]) -> None:
    assert set(NodeSet(folded(names))) == names


@given(st.one_of(st.sets(addresses, min_size=1, max_size=60), st.sets(v6, min_size=1, max_size=40)))
def test_addresses_are_a_network(names: set[str]) -> None:
    network = Network.parse(folded(names))
    assert {network.address_text_of(position) for position in range(1, network.size + 1)} == names


def test_brackets_have_the_limit_of_the_host_list() -> None:
    assert DIGITS_MAX == hostlist.DIGITS_MAX


def test_node9_sorts_before_node10() -> None:
    names = ["node10", "node9", "10.0.0.10", "10.0.0.9", "fd00::10", "fd00::9"]
    assert sorted(names, key=in_order) == ["10.0.0.9", "10.0.0.10", "node9", "node10", "fd00::9", "fd00::10"]


@given(st.sets(st.one_of(hosts, racks, addresses, v6), max_size=200), st.integers(20, 200))
def test_in_short_is_short(names: set[str], room: int) -> None:
    text, _, more = in_short(names, room).partition(" and ")
    assert len(text) <= max(room, 40)  # one name is always shown
    if more:
        assert int(more.removesuffix(" more")) < len(names)
    else:
        assert text == folded(names)


def test_in_short_counts_unnamed_nodes() -> None:
    assert in_short(["node1", "node2"], total=7) == "node[1-2] and 5 more"
    assert in_short([f"node{number}" for number in range(0, 400, 2)], room=30).startswith("node[0,2,4,")


def test_many_names_are_folded_fast() -> None:
    names = [f"10.{number // 250 // 20}.{number // 250 % 20}.{number % 250}" for number in range(0, 20_000, 2)]
    began = time.process_time()
    text = folded(names)
    assert time.process_time() - began < 1.0
    assert len(text) < 1000
