"""Measured numbers as text."""

from __future__ import annotations

from loops import over

from subord.client.ranking import performance, ranking_lines, round_trip
from subord.core.quantize import CLASS_MAX, quantity_of


@over(
    ("seconds", "words"),
    [
        (None, "-"),
        (0.02, "20 ms"),
        (0.0002, "0.2 ms"),
        (0.000035, "0.035 ms"),
        (0.0000001, "0.001 ms"),
        (0.00996, "10 ms"),
        (0.1234, "120 ms"),
        (0.999, "1,000 ms"),
        (1.46, "1.5 s"),
        (10.0, "10 s"),
        (1e300, "over 10 s"),
    ],
)
def test_round_trips(seconds: float | None, words: str) -> None:
    assert round_trip(seconds) == words


@over(
    ("jobs", "words"),
    [
        (None, "-"),
        (90.4, "about 90 jobs/h"),
        (1448.2, "about 1,400 jobs/h"),
        (9.96, "about 10 jobs/h"),
        (0.5, "about 0.5 jobs/h"),
        (1.4e6, "about 1.4e+06 jobs/h"),
        (1e-20, "about 1e-20 jobs/h"),
    ],
)
def test_performances(jobs: float | None, words: str) -> None:
    assert performance(jobs) == words


def test_every_class_has_short_words() -> None:
    for number in range(CLASS_MAX + 1):
        assert len(round_trip(quantity_of(number))) <= 9
        assert len(performance(quantity_of(number))) <= 21


def test_without_measurements() -> None:
    empty = {"mapping": "performance", "performance": None, "performance_class": 0, "standing": None}
    empty |= {"standing_class": 0, "wanted_level": None, "level": 0, "leader_round_trip_s": None}
    assert ranking_lines({**empty, "near": [], "moves": 0, "moves_held": 0}, None) == [
        "",
        "ranking:",
        "  mapping      performance",
        "  performance  -",
        "  stands by    nothing: after all known ones",
        "  level        0 in the real tree, wanted not known",
        "  moves        0 moves for a better rank or a nearer leader, 0 held back: too many in this hour",
        "",
        "no node is measured yet",
    ]
