"""Numbers of lives: nobody is driven to the end of their range, and whoever was there is soon heard again."""

from __future__ import annotations

from random import Random

import pytest

from subord.sealing.header import What
from subord.sealing.incarnation import CLOCK_MS_MAX, CLOCK_MS_MIN, LEAP_MS_MAX, LIFE_MAX, next_life
from subord.sealing.keys import key_of, keyring_of
from subord.sealing.sealer import CHANCE_BITS, FORGET_S, Broken, End, Opened, Sealer, boot_of

A, B, LIAR = ("10.0.0.1", 7117), ("10.0.0.2", 7117), ("10.0.0.3", 7117)
RING = keyring_of(key_of(bytes(32)))
TODAY_MS = 1_790_000_000_000
MINUTE_MS = 60_000
HELLO = b"hello there"


def node(own: End, life: int, secret: int = 0) -> Sealer:
    words = Random(f"{own}/{life}/{secret}").randbytes(32)
    return Sealer(RING, own, boot_of(life, words), words, 0.0)


def says(source: Sealer, target: Sealer, ends: tuple[End, End], now: float) -> bytes | None:
    """Something is said, and repeated as often as it is asked for; what arrives."""
    here, there = ends
    waiting = [source.seal(HELLO, there)]
    for _ in range(6):
        opened = [target.open(data, here, now) for data in waiting]
        heard = next((each.content for each in opened if each.content is not None), None)
        if heard is not None:
            return heard
        answers = [source.open(reply, there, now) for each in opened for reply in each.replies]
        waiting = [reply for each in answers for reply in each.replies]
    return None


def newer(liar: Sealer, number: int) -> bytes:
    """What A is told by somebody whom it has heard: a life of yours had this number."""
    ticket = liar._peers[A].ticket
    content = liar._ticket_for(A) + number.to_bytes(8, "big")
    return liar._encrypt(What.NEWER, content, A, RING.primary, ticket, with_ticket=True)[0]


def driven(a: Sealer, times: int = 800) -> list[Opened]:
    """The liar makes A believe in higher and higher lives, as high as it can."""
    liar = node(LIAR, TODAY_MS)
    assert says(a, liar, (A, LIAR), 0.0) == HELLO == says(liar, a, (LIAR, A), 0.0)
    top = LIFE_MAX - 1
    steps = [top - (top >> number % 42) for number in range(times)]
    return [a.open(newer(liar, max(life << CHANCE_BITS, a.boot + 1)), LIAR, 0.0) for life in steps]


@pytest.mark.parametrize("clock_ms", [TODAY_MS, 0, CLOCK_MS_MAX + 7], ids=["set", "never set", "far ahead"])
def test_a_neighbour_cannot_drive_a_life_to_the_end_of_the_range(clock_ms: int) -> None:
    a, b = node(A, next_life(clock_ms)), node(B, TODAY_MS)
    assert says(a, b, (A, B), 0.0) == HELLO
    answers = driven(a)
    assert Broken.LEAP in {each.broken for each in answers}, "the liar is named by the daemon"
    assert a.boot >> CHANCE_BITS <= max(TODAY_MS, CLOCK_MS_MIN) + LEAP_MS_MAX
    assert says(a, b, (A, B), 1.0) == HELLO
    again = node(A, next_life(clock_ms + 2 * MINUTE_MS), secret=1)
    assert says(again, b, (A, B), 2.0) == HELLO or says(again, b, (A, B), 2.0 + FORGET_S) == HELLO


def test_a_life_that_was_once_at_the_end_is_forgotten_with_the_node() -> None:
    """Its clock was wrong until it was set right; the others go on beating to each other meanwhile."""
    a, b, other = node(A, LIFE_MAX - 1), node(B, TODAY_MS), node(LIAR, TODAY_MS)
    assert says(a, b, (A, B), 0.0) == HELLO == says(b, a, (B, A), 0.0)
    captured = [a.seal(HELLO, B) for _ in range(3)]
    a = node(A, next_life(TODAY_MS, LIFE_MAX), secret=1)
    for second in range(1, int(2 * FORGET_S)):
        assert says(other, b, (LIAR, B), float(second)) == HELLO
        if says(a, b, (A, B), float(second)) == HELLO:
            break
    assert second == FORGET_S
    opened = [b.open(data, A, float(second)) for data in captured]
    assert not any(each.content for each in opened), "what the old life said is not new"
    assert says(a, b, (A, B), second + 1.0) == HELLO


def test_to_forget_a_peer_is_no_matter_for_the_others() -> None:
    a, b, c = node(A, TODAY_MS), node(B, TODAY_MS), node(LIAR, TODAY_MS)
    now = 0.0
    assert says(a, b, (A, B), now) == HELLO == says(b, a, (B, A), now)
    assert says(c, b, (LIAR, B), now) == HELLO
    for number in range(100):  # an earlier life of C follows a later one again and again
        now += FORGET_S
        assert b.open(a.seal(HELLO, B, is_routine=True), A, now) == Opened(HELLO)
        assert a.open(b.seal(HELLO, A, is_routine=True), B, now) == Opened(HELLO)
        c = node(LIAR, TODAY_MS - 1 - number)
        assert says(c, b, (LIAR, B), now) == HELLO
    assert len(b._peers) == 2


LIVES = [
    (TODAY_MS, (0, 0), TODAY_MS),
    (TODAY_MS, (TODAY_MS + 5, 0), TODAY_MS + 5),
    (TODAY_MS, (0, TODAY_MS + 1), TODAY_MS + 1),
    (0, (TODAY_MS, 0), TODAY_MS),  # no clock: the disk knows
    (5, (0, 0), 5),
    (TODAY_MS, (LIFE_MAX + 1, 0), TODAY_MS + LEAP_MS_MAX),  # the clock was once past 2109
    (TODAY_MS, ((1 << 62) + 1, 0), TODAY_MS + LEAP_MS_MAX),
    (LIFE_MAX + 7, (0, 0), CLOCK_MS_MIN),  # it is so now
    (LIFE_MAX + 7, (TODAY_MS, 0), TODAY_MS),
    (1 << 62, (1 << 62, 1 << 62), CLOCK_MS_MIN + LEAP_MS_MAX),
]


@pytest.mark.parametrize(("clock_ms", "lowest", "expected"), LIVES)
def test_the_number_of_the_next_life(clock_ms: int, lowest: tuple[int, ...], expected: int) -> None:
    assert next_life(clock_ms, *lowest) == expected
    assert expected < LIFE_MAX


def test_lives_go_up_after_a_wrong_clock() -> None:
    """The disk remembers each life; the clock was far ahead once."""
    life = next_life(CLOCK_MS_MAX - 1)
    lives = [life := next_life(TODAY_MS + number * MINUTE_MS, life + 1) for number in range(5)]
    assert lives == sorted(set(lives))
    assert lives[-1] <= TODAY_MS + 4 * MINUTE_MS + LEAP_MS_MAX
