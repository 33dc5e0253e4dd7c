"""When a guest moves, and which guest gives way (docs/protocol.md, section 2, rule 5)."""

from __future__ import annotations

from loops import over

from subord.core.mapping.depth_rule import better_place, is_light, is_too_deep
from subord.core.messages import Advice, Wish

SWAP = {"swap": 8, "swap_level": 1}


def advice(wanted: int, hints: dict[int, int], swap: int = 0, swap_level: int = 0) -> Advice:
    """`hints`: position -> its level."""
    return Advice(
        1, 1, False, 1, tuple(hints), 0, levels=tuple(hints.values()), wanted=wanted, swap=swap, swap_level=swap_level
    )


@over(("wanted", "level", "expected"), [(0, 9, False), (3, 2, False), (3, 3, False), (3, 4, True), (1, 9, True)])
def test_too_deep_is_below_the_wanted_level(wanted: int, level: int, expected: bool) -> None:
    """A wanted level of 0 is unknown, so no level is too deep."""
    assert is_too_deep(advice(wanted, {}), level) is expected


@over(
    ("level", "said", "expected"),
    [
        # On the wanted level, or with an unknown one: it stays.
        (3, advice(3, {10: 0}), None),
        (9, advice(0, {10: 0}, **SWAP), None),
        # One level too deep: only to the wanted level or higher.
        (4, advice(3, {10: 2}), (10, Wish.GUEST)),
        (4, advice(3, {10: 3}), None),
        # Far too deep: a gain of two levels is enough.
        (9, advice(3, {10: 6}), (10, Wish.GUEST)),
        (9, advice(3, {10: 7}), None),
        # The first suitable hint, in the given order.
        (9, advice(3, {10: 8, 11: 5, 12: 1}), (11, Wish.GUEST)),
        (9, advice(3, {10: 2, 11: 1}), (10, Wish.GUEST)),
        # A swap comes second, and must gain two levels.
        (9, advice(3, {10: 2}, **SWAP), (10, Wish.GUEST)),
        (9, advice(3, {10: 8}, **SWAP), (8, Wish.SWAP)),
        (4, advice(1, {}, **SWAP), (8, Wish.SWAP)),
        (3, advice(1, {}, **SWAP), None),
        (4, advice(1, {}), None),
    ],
)
def test_better_place(level: int, said: Advice, expected: tuple[int, Wish] | None) -> None:
    assert better_place(said, level) == expected


def test_hints_without_levels_are_no_better_places() -> None:
    """The path to the root is among the hints, and has no level."""
    said = Advice(1, 1, False, 1, (10, 11), 0, levels=(8,), wanted=1)
    assert better_place(said, 9) is None


@over(
    ("nodes", "other_nodes", "expected"),
    [(1, 1, False), (1, 2, True), (1, 3, True), (2, 3, False), (2, 4, True), (5, 9, False), (5, 10, True)],
)
def test_a_light_party_is_at_most_half_as_large(nodes: int, other_nodes: int, expected: bool) -> None:
    assert is_light(nodes, other_nodes) is expected


@over("nodes", range(1, 20))
def test_equal_parties_do_not_swap_and_no_swap_is_undone(nodes: int) -> None:
    assert not is_light(nodes, nodes)
    assert not any(is_light(nodes, other) and is_light(other, nodes) for other in range(1, 50))
