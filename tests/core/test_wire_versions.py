"""In which version whom is spoken to: move by move, and that no claim by whomever makes anybody silent."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from subord.wire.versions import PEERS_MAX, TELL_S, PeerVersions

Move = tuple[str, object, bool]
"""(what happened, in which version or versions, what it returns); at each move a second passes."""

TABLE: list[tuple[str, tuple[int, ...], Sequence[Move], int]] = [
    ("a stranger gets the lowest", (1, 3), [], 1),
    ("who speaks better is answered so", (1, 3), [("heard", 3, False)], 3),
    ("who speaks plainly is told what we speak, and goes on plainly", (1, 3), [("heard", 1, True)], 1),
    ("once in a while", (1, 3), [("heard", 1, True), ("heard", 1, False), ("heard", 1, False)], 1),
    ("who says that it speaks better is spoken to so", (1, 3), [("told", (1, 3), True)], 3),
    ("of better ones the best", (1, 3, 4), [("told", (1, 3), True), ("told", (3, 4, 5), True)], 4),
    ("one plain word on the way changes nothing", (1, 3), [("heard", 3, False), ("heard", 1, False)], 3),
    ("who came back older says so", (1, 3), [("heard", 3, False), ("told", (1,), True)], 1),
    ("and is told anew what we speak", (1, 3), [("heard", 3, False), ("told", (1,), True), ("heard", 1, True)], 1),
    ("who came back newer is heard", (1, 3), [("heard", 1, True), ("heard", 3, False)], 3),
    (
        "a false word about somebody is over with the next true one",
        (1, 3),
        [("told", (1,), True), ("heard", 3, False)],
        3,
    ),
    (
        "who claims to speak nothing of ours is spoken to as before",
        (1, 3),
        [("heard", 3, False), ("told", (7,), False)],
        3,
    ),
    ("or nothing at all", (1, 3), [("told", (), False)], 1),
    ("the plainest may be none of 1", (3,), [("told", (1,), False)], 3),
    ("one version: nobody is told anything", (1,), [("heard", 1, False), ("told", (1, 3), True)], 1),
]


@pytest.mark.parametrize(("spoken", "moves", "version"), [pytest.param(*row[1:], id=row[0]) for row in TABLE])
def test_moves(spoken: tuple[int, ...], moves: Sequence[Move], version: int) -> None:
    dialects = PeerVersions(spoken)
    for now, (what, said, returns) in enumerate(moves):
        assert getattr(dialects, what)("b", said, float(now)) is returns, (what, said)
    assert dialects.version_for("b") == version
    assert dialects.version_for("a stranger") == spoken[0]


def test_who_is_not_believed_to_speak_better_is_told_again_after_a_while() -> None:
    dialects = PeerVersions((1, 3))
    told = [now for now in range(35) if dialects.heard("b", 1, float(now))]
    assert told == [0, TELL_S, 2 * TELL_S, 3 * TELL_S]


def test_where_one_version_is_spoken_nothing_is_remembered() -> None:
    dialects = PeerVersions((1,))
    for peer in range(100):
        dialects.heard(peer, 1, 0.0)
        dialects.told(peer, (1, 3), 0.0)
    assert len(dialects) == 0


def test_the_table_is_bounded_and_who_is_forgotten_is_a_stranger() -> None:
    dialects = PeerVersions((1, 3))
    for peer in range(PEERS_MAX + 10):
        dialects.heard(peer, 3, 0.0)
    assert len(dialects) == PEERS_MAX
    assert [dialects.version_for(peer) for peer in (0, 9, 10, PEERS_MAX)] == [1, 1, 3, 3]


class _End:
    """One of two who talk: what it speaks, and what it knows of the other."""

    def __init__(self, spoken: tuple[int, ...]) -> None:
        self.spoken = spoken
        self.dialects = PeerVersions(spoken)


def _speak(one: _End, other: _End, now: float, *, lost: bool = False) -> bool:
    """One message, and what follows from it; whether it was understood. `lost`: what follows does not arrive."""
    version = one.dialects.version_for("peer")
    understood = version in other.spoken
    if (not understood or other.dialects.heard("peer", version, now)) and not lost:
        one.dialects.told("peer", other.spoken, now)
    return understood


@pytest.mark.parametrize(
    ("one", "other", "best"),
    [
        ((1,), (1,), 1),
        ((1, 3), (1,), 1),
        ((1, 3), (1, 3), 3),
        ((1, 3), (3,), 3),
        ((1, 3), (3, 4), 3),
        ((3, 4), (1, 3), 3),
    ],
)
def test_two_find_their_best_whatever_was_lost_forged_or_restarted(
    one: tuple[int, ...], other: tuple[int, ...], best: int
) -> None:
    """After any past, one undisturbed turn of TELL_S is enough, and of each at most two words in it are in vain."""
    for seed in range(200):
        chance, now = Random(seed), 0.0
        ends = [_End(one), _End(other)]
        for _ in range(chance.randrange(30)):
            now += chance.random()
            speaker, hearer = chance.sample(ends, 2)
            _speak(speaker, hearer, now, lost=chance.random() < 0.5)
            if chance.random() < 0.3:  # somebody lies about the other
                hearer.dialects.told("peer", chance.sample(range(6), chance.randrange(4)), now)
            if chance.random() < 0.1:
                speaker.dialects = PeerVersions(speaker.spoken)  # a new life
        vain = 0
        for _ in range(int(TELL_S) + 2):
            now += 1
            vain += sum(not _speak(*pair, now) for pair in (ends, ends[::-1]))
        assert vain <= 4, seed
        assert [end.dialects.version_for("peer") for end in ends] == [best, best], seed
