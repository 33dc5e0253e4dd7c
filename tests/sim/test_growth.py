"""Small clusters whose figures follow from arithmetic, and a large one within a limit of processor time."""

from __future__ import annotations

import time
from math import floor, log2

import msgspec
import pytest
from loops import over

from subord.core.address.network import NetworkError
from subord.sim import growth
from subord.sim.growth import Start, depth_min, measure
from subord.sim.violation import Violation

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("nodes", [3, 15, 63])
def test_the_figures_are_what_arithmetic_says(nodes: int) -> None:
    found = measure(Start(nodes=nodes, fanout=2, order="ascending"))
    edges = nodes - 1
    assert found.depth == floor(log2(nodes)) == depth_min(nodes, 2)
    assert found.subordinates_max == 2
    assert found.leader_changes_per_node == 0
    assert found.exchanges_per_node == pytest.approx(edges / nodes)  # one each, except for the root
    assert (
        edges <= found.sent["Accept"] <= found.sent["Propose"] <= edges + 2
    )  # two may arrive before their leader starts
    assert found.datagrams_per_node == pytest.approx(sum(found.sent.values()) / nodes)
    assert found.lasted_s == growth.LASTS_S_MIN
    assert found.rest_datagrams_per_node_s == pytest.approx(2 * edges / nodes / 2.5, rel=0.1)  # a beat and its echo
    assert found.rest_root_datagrams_per_s == pytest.approx(2 * 2 / 2.5, rel=0.1)


@pytest.mark.parametrize("order", ["random", "ascending"])
def test_the_root_lists_all_after_the_last_has_a_place(order: growth.Order) -> None:
    found = measure(Start(nodes=200, fanout=8, order=order))
    assert 0 < found.tree_s <= found.whole_s < 5
    assert found.depth == depth_min(200, 8) == 3
    assert found.root_datagrams_per_s_max > found.rest_root_datagrams_per_s
    assert found.bytes_per_node > 10 * found.datagrams_per_node  # no datagram is shorter


def test_one_node_is_a_tree() -> None:
    found = measure(Start(nodes=1, fanout=2))
    assert (found.depth, found.subordinates_max, found.exchanges_per_node) == (0, 0, 0)
    assert found.rest_datagrams_per_node_s == 0


def test_the_seed_decides_everything() -> None:
    start = Start(nodes=50, fanout=2)
    assert measure(start) == measure(start)
    assert measure(start) != measure(msgspec.structs.replace(start, seed=2))


def test_a_cluster_without_a_tree_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "WHOLE_WITHIN_S", 0.02)
    with pytest.raises(Violation, match="20 nodes form no tree"):
        measure(Start(nodes=20, fanout=2))


def test_an_invalid_network_is_an_error() -> None:
    with pytest.raises(NetworkError):
        measure(Start(nodes=2, fanout=2, network="everywhere"))


@over(
    ("nodes", "fanout", "levels"), [(1, 2, 0), (2, 2, 1), (3, 2, 1), (4, 2, 2), (9, 8, 1), (10, 8, 2), (4161, 64, 2)]
)
def test_the_least_depth(nodes: int, fanout: int, levels: int) -> None:
    assert depth_min(nodes, fanout) == levels


@pytest.mark.long
def test_ten_thousand_nodes_for_a_minute_in_less_than_a_minute_of_cpu() -> None:
    began = time.process_time()
    found = measure(Start(nodes=10_000, fanout=8))
    assert time.process_time() - began < 60
    assert (found.depth, found.subordinates_max) == (5, 8)
