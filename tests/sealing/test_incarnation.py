"""Numbers of incarnations: none is pushed to the end of the range, and one that was there is soon heard again."""

from __future__ import annotations

from random import Random

import pytest
from loops import over

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


def exchange(source: Sealer, target: Sealer, ends: tuple[End, End], now: float) -> bytes | None:
    """Seal, open, and repeat as often as challenged; returns what arrives."""
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


def newer(neighbour: Sealer, number: int) -> bytes:
    """A false report to A: an incarnation of yours had this number."""
    ticket = neighbour._peers[A].ticket
    content = neighbour._ticket_for(A) + number.to_bytes(8, "big")
    return neighbour._encrypt(What.NEWER, content, A, RING.primary, ticket, with_ticket=True)[0]


def push_ahead(a: Sealer, times: int = 800) -> list[Opened]:
    """Make A take higher and higher numbers, as high as possible."""
    neighbour = node(LIAR, TODAY_MS)
    assert exchange(a, neighbour, (A, LIAR), 0.0) == HELLO == exchange(neighbour, a, (LIAR, A), 0.0)
    top = LIFE_MAX - 1
    steps = [top - (top >> number % 42) for number in range(times)]
    return [a.open(newer(neighbour, max(life << CHANCE_BITS, a.boot + 1)), LIAR, 0.0) for life in steps]


@pytest.mark.parametrize("clock_ms", [TODAY_MS, 0, CLOCK_MS_MAX + 7], ids=["set", "never set", "far ahead"])
def test_a_neighbour_cannot_push_an_incarnation_to_the_end_of_the_range(clock_ms: int) -> None:
    a, b = node(A, next_life(clock_ms)), node(B, TODAY_MS)
    assert exchange(a, b, (A, B), 0.0) == HELLO
    answers = push_ahead(a)
    assert Broken.LEAP in {each.broken for each in answers}, "the drop reason names the cause"
    assert a.boot >> CHANCE_BITS <= max(TODAY_MS, CLOCK_MS_MIN) + LEAP_MS_MAX
    assert exchange(a, b, (A, B), 1.0) == HELLO
    again = node(A, next_life(clock_ms + 2 * MINUTE_MS), secret=1)
    assert exchange(again, b, (A, B), 2.0) == HELLO or exchange(again, b, (A, B), 2.0 + FORGET_S) == HELLO


def test_an_incarnation_at_the_end_of_the_range_is_forgotten_when_silent() -> None:
    """Its clock was wrong until it was corrected; the others go on exchanging datagrams meanwhile."""
    a, b, other = node(A, LIFE_MAX - 1), node(B, TODAY_MS), node(LIAR, TODAY_MS)
    assert exchange(a, b, (A, B), 0.0) == HELLO == exchange(b, a, (B, A), 0.0)
    captured = [a.seal(HELLO, B) for _ in range(3)]
    a = node(A, next_life(TODAY_MS, LIFE_MAX), secret=1)
    for second in range(1, int(2 * FORGET_S)):
        assert exchange(other, b, (LIAR, B), float(second)) == HELLO
        if exchange(a, b, (A, B), float(second)) == HELLO:
            break
    assert second == FORGET_S
    opened = [b.open(data, A, float(second)) for data in captured]
    assert not any(each.content for each in opened), "datagrams of the old incarnation are no new ones"
    assert exchange(a, b, (A, B), second + 1.0) == HELLO


def test_forgetting_a_peer_does_not_affect_others() -> None:
    a, b, c = node(A, TODAY_MS), node(B, TODAY_MS), node(LIAR, TODAY_MS)
    now = 0.0
    assert exchange(a, b, (A, B), now) == HELLO == exchange(b, a, (B, A), now)
    assert exchange(c, b, (LIAR, B), now) == HELLO
    for number in range(100):  # an older incarnation of C follows a later one again and again
        now += FORGET_S
        assert b.open(a.seal(HELLO, B, is_routine=True), A, now) == Opened(HELLO)
        assert a.open(b.seal(HELLO, A, is_routine=True), B, now) == Opened(HELLO)
        c = node(LIAR, TODAY_MS - 1 - number)
        assert exchange(c, b, (LIAR, B), now) == HELLO
    assert len(b._peers) == 2


LIVES = [
    (TODAY_MS, (0, 0), TODAY_MS),
    (TODAY_MS, (TODAY_MS + 5, 0), TODAY_MS + 5),
    (TODAY_MS, (0, TODAY_MS + 1), TODAY_MS + 1),
    (0, (TODAY_MS, 0), TODAY_MS),  # without a clock the disk counts
    (5, (0, 0), 5),
    (TODAY_MS, (LIFE_MAX + 1, 0), TODAY_MS + LEAP_MS_MAX),  # the clock was once past 2109
    (TODAY_MS, ((1 << 62) + 1, 0), TODAY_MS + LEAP_MS_MAX),
    (LIFE_MAX + 7, (0, 0), CLOCK_MS_MIN),  # it is now
    (LIFE_MAX + 7, (TODAY_MS, 0), TODAY_MS),
    (1 << 62, (1 << 62, 1 << 62), CLOCK_MS_MIN + LEAP_MS_MAX),
]


@over(("clock_ms", "lowest", "expected"), LIVES)
def test_the_number_of_the_next_incarnation(clock_ms: int, lowest: tuple[int, ...], expected: int) -> None:
    assert next_life(clock_ms, *lowest) == expected
    assert expected < LIFE_MAX


def test_incarnations_rise_after_a_wrong_clock() -> None:
    """The disk keeps each incarnation; the clock was far ahead once."""
    life = next_life(CLOCK_MS_MAX - 1)
    lives = [life := next_life(TODAY_MS + number * MINUTE_MS, life + 1) for number in range(5)]
    assert lives == sorted(set(lives))
    assert lives[-1] <= TODAY_MS + 4 * MINUTE_MS + LEAP_MS_MAX
