"""The version of the wire for each peer, step by step; no false claim silences a peer (wire/versions.py)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from loops import over

from subord.wire.versions import PEERS_MAX, TELL_S, PeerVersions

Move = tuple[str, object, bool]
"""(method, argument, result); a second passes with each move."""

TABLE: list[tuple[str, tuple[int, ...], Sequence[Move], int]] = [
    ("a stranger gets the lowest", (1, 3), [], 1),
    ("a peer with a better version is answered in it", (1, 3), [("heard", 3, False)], 3),
    ("a peer with the lowest version is told the others", (1, 3), [("heard", 1, True)], 1),
    ("once in a while", (1, 3), [("heard", 1, True), ("heard", 1, False), ("heard", 1, False)], 1),
    ("a peer that states a better version is answered in it", (1, 3), [("told", (1, 3), True)], 3),
    ("of better ones the best", (1, 3, 4), [("told", (1, 3), True), ("told", (3, 4, 5), True)], 4),
    ("one plain word on the way changes nothing", (1, 3), [("heard", 3, False), ("heard", 1, False)], 3),
    ("a peer that returns with an older release states it", (1, 3), [("heard", 3, False), ("told", (1,), True)], 1),
    ("and is told the versions again", (1, 3), [("heard", 3, False), ("told", (1,), True), ("heard", 1, True)], 1),
    ("a peer that returns with a newer release is understood", (1, 3), [("heard", 1, True), ("heard", 3, False)], 3),
    (
        "a false statement about a peer ends with its next own one",
        (1, 3),
        [("told", (1,), True), ("heard", 3, False)],
        3,
    ),
    (
        "a peer that states no common version is answered as before",
        (1, 3),
        [("heard", 3, False), ("told", (7,), False)],
        3,
    ),
    ("or nothing at all", (1, 3), [("told", (), False)], 1),
    ("the plainest may be none of 1", (3,), [("told", (1,), False)], 3),
    ("one version: no peer is told anything", (1,), [("heard", 1, False), ("told", (1, 3), True)], 1),
]


@over(("spoken", "moves", "version"), [pytest.param(*row[1:], id=row[0]) for row in TABLE])
def test_moves(spoken: tuple[int, ...], moves: Sequence[Move], version: int) -> None:
    versions = PeerVersions(spoken)
    for now, (what, said, returns) in enumerate(moves):
        assert getattr(versions, what)("b", said, float(now)) is returns, (what, said)
    assert versions.version_for("b") == version
    assert versions.version_for("a stranger") == spoken[0]


def test_a_peer_that_keeps_the_lower_version_is_told_again_after_a_while() -> None:
    versions = PeerVersions((1, 3))
    told = [now for now in range(35) if versions.heard("b", 1, float(now))]
    assert told == [0, TELL_S, 2 * TELL_S, 3 * TELL_S]


def test_with_one_version_the_table_stays_empty() -> None:
    versions = PeerVersions((1,))
    for peer in range(100):
        versions.heard(peer, 1, 0.0)
        versions.told(peer, (1, 3), 0.0)
    assert len(versions) == 0


def test_the_table_is_bounded_and_a_dropped_peer_is_unknown() -> None:
    versions = PeerVersions((1, 3))
    for peer in range(PEERS_MAX + 10):
        versions.heard(peer, 3, 0.0)
    assert len(versions) == PEERS_MAX
    assert [versions.version_for(peer) for peer in (0, 9, 10, PEERS_MAX)] == [1, 1, 3, 3]


class _End:
    """One of two peers: the versions it speaks, and what it knows of the other."""

    def __init__(self, spoken: tuple[int, ...]) -> None:
        self.spoken = spoken
        self.versions = PeerVersions(spoken)


def _speak(one: _End, other: _End, now: float, *, lost: bool = False) -> bool:
    """One message, and what follows from it; returns whether it was understood. `lost`: what follows is lost."""
    version = one.versions.version_for("peer")
    understood = version in other.spoken
    if (not understood or other.versions.heard("peer", version, now)) and not lost:
        one.versions.told("peer", other.spoken, now)
    return understood


@over(
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
def test_two_peers_find_their_best_version_after_loss_forgery_and_restarts(
    one: tuple[int, ...], other: tuple[int, ...], best: int
) -> None:
    """After any past, one undisturbed turn of TELL_S is enough, with at most two messages of each in unanswered."""
    for seed in range(200):
        chance, now = Random(seed), 0.0
        ends = [_End(one), _End(other)]
        for _ in range(chance.randrange(30)):
            now += chance.random()
            speaker, hearer = chance.sample(ends, 2)
            _speak(speaker, hearer, now, lost=chance.random() < 0.5)
            if chance.random() < 0.3:  # a false claim about the other
                hearer.versions.told("peer", chance.sample(range(6), chance.randrange(4)), now)
            if chance.random() < 0.1:
                speaker.versions = PeerVersions(speaker.spoken)  # a restart
        unanswered = 0
        for _ in range(int(TELL_S) + 2):
            now += 1
            unanswered += sum(not _speak(*pair, now) for pair in (ends, ends[::-1]))
        assert unanswered <= 4, seed
        assert [end.versions.version_for("peer") for end in ends] == [best, best], seed
