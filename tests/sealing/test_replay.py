"""The replay window of one peer (subord/sealing/replay.py)."""

from __future__ import annotations

from subord.sealing.replay import WINDOW, Window


def test_each_number_is_new_once_within_the_window() -> None:
    window = Window()
    assert window.accept(3 * WINDOW)
    assert [window.accept(number) for number in (3 * WINDOW, 2 * WINDOW + 1, 2 * WINDOW + 1)] == [False, True, False]
    assert not window.accept(2 * WINDOW), "older than the window"


def test_the_memory_of_a_window_is_bounded() -> None:
    window = Window()
    for number in range(1, 3 * WINDOW):
        assert window.accept(number)
    assert window._seen.bit_length() == WINDOW
