"""Which nodes reach which: the parts of the network that an expectation looks at."""

from loops import over

from .lab_helpers import netlab


def sets(*groups):
    return [frozenset(group) for group in groups]


@over(
    ("living", "unplugged", "sides", "expected"),
    [
        ([], [], [], []),
        ([1, 2, 3], [], [], sets([1, 2, 3])),
        ([1, 2, 3], [2], [], sets([1, 3], [2])),
        ([1, 2, 3], [1, 2, 3], [], sets([1], [2], [3])),
        ([1, 3], [2], [], sets([1, 3])),  # a dead node is no part
        ([1, 2, 3, 4, 5], [], [{1, 2}, {3, 4, 5}], sets([3, 4, 5], [1, 2])),
        ([1, 2, 3, 4, 5], [4], [{1, 2}, {3, 4, 5}], sets([1, 2], [3, 5], [4])),
        ([1, 2], [], [{1, 2}, {3, 4}], sets([1, 2])),  # a side without a live node
    ],
)
def test_parts(living, unplugged, sides, expected):
    assert netlab("scenarios.node_state").parts(living, unplugged, [frozenset(side) for side in sides]) == expected


@over(
    ("groups", "expected"),
    [
        ([], sets([1, 2, 3, 4])),
        ([[1, 2]], sets([1, 2], [3, 4])),  # nodes in none are together
        ([[1], [2]], sets([1], [2], [3, 4])),
        ([[1, 2], [2, 3, 4]], sets([1], [2, 3, 4])),  # the last group counts
        ([[1, 2, 3, 4]], sets([1, 2, 3, 4])),
        ([[1, 2], []], sets([1, 2], [3, 4])),
    ],
)
def test_sides(groups, expected):
    assert list(netlab("scenarios.node_state").sides_of(groups, range(1, 5))) == expected


def test_who_is_stopped_or_cut_off():
    state = netlab("scenarios.node_state").NodeState(nodes=(1, 2, 3, 4), running={1, 2, 3, 4}, paused={4}, cut={3})
    assert state.living == [1, 2, 3]
    assert state.parts() == sets([1, 2], [3])
    state.ended(4)
    assert (state.running, state.paused) == ({1, 2, 3}, set())
