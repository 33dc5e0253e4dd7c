"""Measured quantities in classes with hysteresis (core/quantize.py)."""

from math import inf, nan

from loops import over

from subord.core.quantize import CLASS_MAX, MIDDLE, UNKNOWN, class_of, quantity_of, steady_class

TABLE = [
    (1.0, MIDDLE),
    (2.0, MIDDLE + 2),
    (1.41, MIDDLE + 1),
    (0.5, MIDDLE - 2),
    (1e-30, 1),
    (1e30, CLASS_MAX),
    (inf, CLASS_MAX),
    (0.0, UNKNOWN),
    (-1.0, UNKNOWN),
    (nan, UNKNOWN),
]


@over(("quantity", "number"), TABLE)
def test_class_of_a_quantity(quantity: float, number: int) -> None:
    assert class_of(quantity) == number


def test_the_middle_of_a_class_lies_in_it() -> None:
    for number in range(1, CLASS_MAX + 1):
        middle = quantity_of(number)
        assert middle is not None
        assert class_of(middle) == number


def test_what_is_unknown_has_no_quantity() -> None:
    assert quantity_of(UNKNOWN) is None


def test_thirty_per_cent_of_noise_change_no_class() -> None:
    """Around any value whose class is the present one, wherever it lies in that class."""
    for hundredths in range(100, 201):
        true = hundredths / 100
        present = class_of(true)
        for noise in (0.7, 0.85, 1.0, 1.15, 1.3):
            assert steady_class(true * noise, present) == present, true


@over(("factor", "moved"), [(1.7, False), (1.72, True), (0.585, False), (0.58, True), (4.0, True)])
def test_a_real_change_is_noticed(factor: float, moved: bool) -> None:
    present = class_of(100.0)
    middle = quantity_of(present)
    assert middle is not None
    assert (steady_class(middle * factor, present) != present) is moved


def test_the_first_measurement_counts_at_once() -> None:
    assert steady_class(1.0, UNKNOWN) == MIDDLE
    assert steady_class(0.0, MIDDLE) == UNKNOWN
