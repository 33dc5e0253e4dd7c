"""Duplicate addresses: reported after some seconds, and not after a restart."""

from __future__ import annotations

from subord.runtime.net.duplicates import ADDRESSES_MAX, APART_S_MAX, STALE_MIN, STALE_S_MIN, Duplicates

LIVES = 1_763_872_801_000, 1_763_872_861_000
TEXT = "duplicate address: two daemons use it, started 2025-11-23 04:40:01 UTC and 2025-11-23 04:41:01 UTC"


def test_datagrams_in_flight_at_a_restart_are_no_duplicate() -> None:
    duplicates = Duplicates()
    for number in range(100):
        assert duplicates.heard("10.0.0.5", LIVES, number * 0.01) == ("", False)


def test_two_restarts_far_apart_are_no_duplicate() -> None:
    duplicates = Duplicates()
    for number in range(10):
        assert duplicates.heard("10.0.0.5", LIVES, number * (APART_S_MAX + 1)) == ("", False)


def test_an_older_incarnation_that_continues_is_new_once() -> None:
    duplicates = Duplicates()
    for number in range(STALE_MIN - 1):
        assert duplicates.heard("10.0.0.5", LIVES, float(number)) == ("", False)
    assert duplicates.heard("10.0.0.5", LIVES, STALE_S_MIN) == (TEXT, True)
    later = LIVES[0] + 70_000, LIVES[1] + 80_000  # both took higher numbers: it is the same trouble
    assert duplicates.heard("10.0.0.5", later, STALE_S_MIN + 1) == (TEXT, False)
    assert duplicates.heard("10.0.0.5", LIVES, STALE_S_MIN + 2 + APART_S_MAX) == ("", False)


def test_any_incarnation_has_a_text() -> None:
    duplicates = Duplicates()
    for number in range(STALE_MIN):
        text, _ = duplicates.heard("10.0.0.5", (0, (1 << 42) - 1), number * STALE_S_MIN)
    assert text.endswith("started 1970-01-01 00:00:00 UTC and 2109-05-15 07:35:11 UTC")


def test_the_number_of_addresses_is_bounded() -> None:
    duplicates = Duplicates()
    for number in range(2 * ADDRESSES_MAX):
        duplicates.heard(f"10.0.0.{number}", LIVES, 0.0)
    assert len(duplicates) == ADDRESSES_MAX
