"""The probe order: complete, the same for all nodes, and soon without large gaps (docs/protocol.md, section 3)."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.address.network import Network
from subord.core.discovery.probe_order import NEAR_MAX, all_targets, common_targets, likely_targets, near_targets
from subord.core.mapping.mapping import Mapping
from subord.core.mapping.registry import mapping_of
from subord.core.settings import Settings

SIZES = [*range(1, 35), 63, 64, 65, 100, 254, 255, 256, 257, 1000, 65534]


def mapping(size: int, fanout: int = 2, **options: object) -> Mapping:
    """A network of `size` addresses, from 10.0.0.1 on."""
    last = ".".join(str(byte) for byte in ((10 << 24) + size).to_bytes(4, "big"))
    network = Network.parse(f"10.0.0.1-{last}")
    assert network.size == size
    return mapping_of(Settings(network=network, fanout=fanout, guest_slots=fanout, **options), 1)  # type: ignore[arg-type]


# -- the common list --------------------------------------------------------------------------------------------


@over("size", SIZES)
def test_the_common_list_holds_every_position_once(size: int) -> None:
    assert sorted(common_targets(size)) == list(range(1, size + 1))


@over(
    ("size", "order"), [(1, [1]), (2, [1, 2]), (4, [1, 3, 2, 4]), (5, [1, 5, 3, 2, 4]), (8, [1, 5, 3, 7, 2, 6, 4, 8])]
)
def test_the_common_list_halves_every_gap(size: int, order: list[int]) -> None:
    assert list(common_targets(size)) == order


@over("size", [100, 254, 256, 257, 1000, 65534])
def test_a_run_of_neighbours_is_hit_soon(size: int) -> None:
    """After k targets no run of neighbours longer than 2 size / k was left out."""
    for k in (1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 50, 64, 90, 100, 200, 512):
        targets = sorted(islice(common_targets(size), k))
        longest = max(after - before - 1 for before, after in pairwise([0, *targets, size + 1]))
        assert longest <= 2 * size / k, k


def test_the_common_list_of_a_huge_network_is_lazy() -> None:
    assert list(islice(common_targets(2**64), 4)) == [1, 2**63 + 1, 2**62 + 1, 2**63 + 2**62 + 1]


# -- near targets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        # By turns: neighbours, candidates after the home, ancestors of the home; the lowest position last.
        (1, [2, 3, 4, 5]),
        (2, [1, 3, 4, 5]),
        (11, [10, 4, 2, 12, 6, 1, 9, 7, 13]),
        (100, [99, 49, 25, 101, 51, 12, 98, 48, 102, 52, 1]),
    ],
)
def test_near_targets_of_each_kind_take_turns(node: int, expected: list[int]) -> None:
    assert near_targets(node, mapping(254)) == expected


@given(
    st.sampled_from([1, 2, 3, 5, 16, 254, 4000]),
    st.sampled_from([2, 3, 8]),
    st.sampled_from(["complete", "paper"]),
    st.data(),
)
def test_near_targets_are_few_and_never_the_node_itself(
    size: int, fanout: int, numbering: str, data: st.DataObject
) -> None:
    node = data.draw(st.integers(1, size))
    targets = near_targets(node, mapping(size, fanout, numbering_name=numbering))
    assert len(targets) <= NEAR_MAX
    assert len(targets) == len(set(targets))
    assert node not in targets
    assert all(1 <= target <= size for target in targets)
    assert {node - 2, node - 1, node + 1, node + 2} & set(range(1, size + 1)) <= set(targets)


# -- all targets, without end -------------------------------------------------------------------------------------


@over("size", [2, 3, 8, 15, 16, 100])
@over("fanout", [2, 8])
def test_every_lower_position_is_reached_again_and_again(size: int, fanout: int) -> None:
    for node in {1, 2, size // 2 + 1, size - 1, size}:
        targets = list(islice(all_targets(node, mapping(size, fanout), size), 8 * size))
        assert node not in targets
        assert set(targets) == set(range(1, size + 1)) - {node} or node == 1
        for half in (targets[: 4 * size], targets[4 * size :]):
            assert set(range(1, node)) <= set(half)


def test_the_lowest_position_probes_the_common_list_only() -> None:
    targets = list(islice(all_targets(1, mapping(8), 8), 14))
    assert targets == [5, 3, 7, 2, 6, 4, 8] * 2


@pytest.mark.parametrize("node", [50, 99, 254])
def test_half_of_the_targets_are_the_same_for_all_nodes(node: int) -> None:
    targets = list(islice(all_targets(node, mapping(254), 254), 60))
    assert targets[::2] == list(islice(mapping(254).candidates(node), 30))
    assert targets[1::2] == list(islice(common_targets(254), 30))


# -- targets of a root after each rest -----------------------------------------------------------------------------


def test_a_root_asks_its_home_and_two_lower_neighbours() -> None:
    assert likely_targets(20, mapping(254), lambda _position: False) == [10, 19, 18]


def test_by_performance_a_root_asks_the_nearest_neighbours_of_other_trees() -> None:
    """Its nearest neighbours were below it, and the other root was found after 28 s (seed 20337, performance)."""
    below = {7, 9, 6}
    assert likely_targets(8, mapping(254, mapping="performance"), below.__contains__) == [10, 5, 11]
    assert likely_targets(8, mapping(254, mapping="performance"), lambda _position: True) == []
