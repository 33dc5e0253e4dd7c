"""Two nodes, and an attacker between them that records everything and has no key."""

from __future__ import annotations

from random import Random

import pytest
from loops import over

from subord.sealing.header import HEADER_BYTES, TICKET_BYTES
from subord.sealing.keys import Key, Keyring, key_of, keyring_of
from subord.sealing.sealer import (
    CHALLENGES_OF_ONE_PER_S,
    CHALLENGES_PER_S,
    UNANSWERED_MAX,
    Broken,
    End,
    Opened,
    Sealer,
)
from subord.sealing.turns import chosen
from subord.wire.codec import DATAGRAM_BYTES_MAX

A, B, C = ("10.0.0.1", 7117), ("10.0.0.2", 7117), ("fd00::3", 7117)
NOW = 100.0
HELLO, ANSWER = b"hello there", b"answer"


def key(number: int) -> Key:
    return key_of(bytes([number]) * 32)


RING = keyring_of(key(1))


def node(own: End, boot: int = 1000, ring: Keyring = RING, secret: int = 0) -> Sealer:
    chance = Random(f"{own}/{boot}/{secret}")
    return Sealer(ring, own, boot, chance.randbytes(32), NOW)


def meet(a: Sealer, b: Sealer) -> None:
    """A and B exchange datagrams, so each holds the other's ticket."""
    first = b.open(a.seal(HELLO, B), A, NOW)
    assert (first.content, first.broken) == (None, Broken.FIRST_CONTACT)
    (challenge,) = first.replies
    second = a.open(challenge, B, NOW)
    assert second.content is None
    (again,) = second.replies
    assert b.open(again, A, NOW) == Opened(HELLO)
    assert a.open(b.seal(ANSWER, A), B, NOW) == Opened(ANSWER)


def state(sealer: Sealer) -> str:
    """What it keeps of peers."""
    peers = {
        end: [getattr(peer, name) for name in ("boot", "key_id", "ticket")] for end, peer in sealer._peers.items()
    }
    windows = {end: (peer.window._highest, peer.window._seen) for end, peer in sealer._peers.items()}
    return repr((peers, windows, sealer.boot, list(sealer._receivers)))


def test_a_first_contact_takes_one_round_more_and_then_none() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    for words in (b"", b"one", b"x" * DATAGRAM_BYTES_MAX):
        assert b.open(a.seal(words, B), A, NOW) == Opened(words)
        assert a.open(b.seal(words, A), B, NOW) == Opened(words)


def repeated(a: Sealer, b: Sealer, data: bytes) -> list[bytes]:
    """What B opens after A has repeated what B challenged."""
    first = b.open(data, A, NOW)
    assert first.broken is Broken.FIRST_CONTACT
    (challenge,) = first.replies
    return [opened.content or b"" for again in a.open(challenge, B, NOW).replies if (opened := b.open(again, A, NOW))]


def test_a_restarted_peer_is_reached_after_one_more_round() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    for _ in range(2):
        assert b.open(a.seal(HELLO, B, is_routine=True), A, NOW) == Opened(HELLO)
        assert a.open(b.seal(ANSWER, A, is_routine=True), B, NOW) == Opened(ANSWER)
    b = node(B, boot=2000, secret=1)
    assert repeated(a, b, a.seal(HELLO, B)) == [HELLO]
    assert a.open(b.seal(ANSWER, A), B, NOW) == Opened(ANSWER)


def test_timed_content_is_not_repeated() -> None:
    a, b = node(A), node(B)
    assert repeated(a, b, a.seal(HELLO, B, is_repeatable=False)) == []
    assert b.open(a.seal(HELLO, B, is_repeatable=False), A, NOW) == Opened(HELLO)


def test_unanswered_routine_carries_the_ticket_again() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    b = node(B, boot=2000, secret=1)
    unheard = a.seal(b"beat one", B, is_routine=True)
    assert b.open(unheard, A, NOW) == Opened(broken=Broken.REPLAY)
    heard = a.seal(b"beat two", B, is_routine=True)
    assert len(heard) == len(unheard) + TICKET_BYTES
    assert repeated(a, b, heard) == [b"beat two"]


def test_a_node_whose_clock_was_set_back_is_told_when_it_only_receives() -> None:
    """It cannot open datagrams, challenges them in an incarnation that seems over, and is told so."""
    a, b = node(A), node(B, boot=2000 << 22)
    meet(a, b)
    b = node(B, boot=1000 << 22, secret=1)
    heard: list[bytes] = []
    for _ in range(4):
        post = [(B, a.seal(HELLO, B))]
        while post:
            target, data = post.pop(0)
            source, reader = (A, b) if target == B else (B, a)
            opened = reader.open(data, source, NOW)
            heard += [opened.content] if opened.content is not None and target == B else []
            post += [(source, reply) for reply in opened.replies]
    assert HELLO in heard
    assert b.boot > 2000 << 22


def test_what_was_overtaken_does_not_bring_back_an_old_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = node(A), node(B)
    meet(a, b)
    late = b.seal(ANSWER, A)  # with the present ticket
    before = a._peers[B].ticket
    assert a.open(b.seal(ANSWER, A), B, NOW) == Opened(ANSWER)
    a._peers[B].ticket = b"a newer1"
    assert a.open(late, B, NOW) == Opened(ANSWER)
    assert a._peers[B].ticket == b"a newer1" != before


def test_a_replayed_datagram_does_not_use_up_the_challenges_of_others() -> None:
    b = node(B)
    recorded = node(A).seal(HELLO, B)
    asked = sum(bool(b.open(recorded, A, NOW).replies) for _ in range(5000))
    assert asked == CHALLENGES_OF_ONE_PER_S
    others = [(f"10.0.7.{number}", 7117) for number in range(1, 21)]
    heard = [bool(b.open(node(end).seal(HELLO, B), end, NOW).replies) for end in others]
    assert sum(heard) >= 18  # two may share a bucket with the flood


@pytest.mark.slow
def test_challenges_per_second_are_limited() -> None:
    b = node(B)
    ends = [(f"10.{number >> 8}.{number & 255}.9", 7117) for number in range(1, 3001)]
    heard = [bool(b.open(node(end).seal(HELLO, B), end, NOW).replies) for end in ends]
    assert sum(heard) == CHALLENGES_PER_S
    assert b.open(node(A).seal(HELLO, B), A, NOW + 1).replies


def test_pairs_of_datagrams_use_all_keys() -> None:
    """A node with a single key opens datagrams under each of them, however many are sent at once."""
    ring = keyring_of(key_of(b"1" * 32), [key_of(b"2" * 32)])
    a, b = node(A, ring=ring), node(B, ring=keyring_of(key_of(b"2" * 32)))
    heard = [[b.open(a.seal(HELLO, B), A, NOW).broken is Broken.FIRST_CONTACT for _ in range(2)] for _ in range(8)]
    assert any(first for first, _ in heard)
    assert any(second for _, second in heard)


def test_nothing_is_kept_of_a_node_without_a_ticket() -> None:
    a, b = node(A), node(B)
    before = state(b)
    for _ in range(3):
        assert b.open(a.seal(HELLO, B), A, NOW).broken is Broken.FIRST_CONTACT
    assert state(b) == before


def test_a_challenge_is_no_longer_than_its_cause() -> None:
    a, b = node(A), node(B)
    question = a.seal(b"x" * 8, B)
    (answer,) = b.open(question, A, NOW).replies
    assert len(answer) <= len(question)


@over("index", [*range(HEADER_BYTES + 20), -1])
def test_every_changed_byte_is_noticed(index: int) -> None:
    a, b = node(A), node(B)
    meet(a, b)
    data = bytearray(a.seal(HELLO, B))
    if index >= len(data):
        pytest.skip("shorter")
    data[index] ^= 1
    before = state(b)
    opened = b.open(bytes(data), A, NOW)
    assert (opened.content, opened.replies) == (None, ())
    assert opened.broken in {Broken.BAD_TAG, Broken.FOREIGN, Broken.VERSION, Broken.NO_KEY, Broken.STALE_BOOT}
    assert state(b) == before


@over("length", range(0, 53, 4))
def test_a_truncated_one_is_noticed(length: int) -> None:
    a, b = node(A), node(B)
    meet(a, b)
    before = state(b)
    opened = b.open(a.seal(HELLO, B)[:length], A, NOW)
    assert opened.content is None
    assert opened.broken in {Broken.SHORT, Broken.BAD_TAG}
    assert state(b) == before


def test_each_datagram_is_opened_once() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    data = a.seal(HELLO, B)
    assert b.open(data, A, NOW) == Opened(HELLO)
    before = state(b)
    assert b.open(data, A, NOW) == Opened(broken=Broken.REPLAY)
    assert state(b) == before


def test_an_overtaken_datagram_is_no_replay() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    said = [a.seal(bytes([number]), B) for number in range(100)]
    chance = Random(1)
    chance.shuffle(said)
    assert sorted(b.open(data, A, NOW).content or b"" for data in said) == [bytes([n]) for n in range(100)]


def test_a_redirected_datagram_is_refused() -> None:
    a, b, c = node(A), node(B), node(C)
    meet(a, b)
    data = a.seal(HELLO, B)
    assert c.open(data, A, NOW).broken is Broken.BAD_TAG  # for another receiver
    assert b.open(data, C, NOW).broken is Broken.BAD_TAG  # as if from another sender
    assert b.open(data, ("10.0.0.1", 7118), NOW).broken is Broken.BAD_TAG  # from another port
    assert a.open(data, B, NOW).broken is Broken.BAD_TAG  # back to its sender


def test_a_datagram_for_an_older_incarnation_has_no_effect() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    late = a.seal(HELLO, B)  # recorded, and never delivered
    b = node(B, boot=2000, secret=1)
    opened = b.open(late, A, NOW)
    assert opened.content is None
    assert opened.broken in {Broken.REPLAY, Broken.FIRST_CONTACT}


def test_a_peer_notices_a_restart() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    b = node(B, boot=2000, secret=1)
    question = b.seal(HELLO, A)  # b has no peers yet
    (challenge,) = a.open(question, B, NOW).replies
    (again,) = b.open(challenge, A, NOW).replies
    assert a.open(again, B, NOW) == Opened(HELLO)
    assert b.open(a.seal(ANSWER, B), A, NOW) == Opened(ANSWER)


def test_an_older_incarnation_is_refused_and_may_take_a_higher_number() -> None:
    a, b = node(A, boot=5000), node(B)
    meet(a, b)
    a = node(A, boot=400, secret=1)  # no disk, and the clock was set back
    before = state(b)
    first = b.open(a.seal(HELLO, B), A, NOW)
    assert first.broken is Broken.STALE_BOOT
    assert state(b) == before
    newer = a.open(first.replies[0], B, NOW)
    assert newer.lives_again
    assert a.boot > 5000
    (said,) = newer.replies
    assert b.open(said, A, NOW) == Opened(HELLO)


def test_a_replay_of_an_older_incarnation_only_causes_a_reply() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    old = a.seal(HELLO, B)
    a = node(A, boot=2000, secret=1)
    (challenge,) = b.open(a.seal(HELLO, B), A, NOW).replies
    (again,) = a.open(challenge, B, NOW).replies
    assert b.open(again, A, NOW) == Opened(HELLO)
    (challenge,) = b.open(old, A, NOW).replies or (b"",)  # sent with a ticket, by an incarnation that is over
    assert a.open(challenge, B, NOW).content is None
    assert a.boot == 2000


@pytest.mark.parametrize("ring", [keyring_of(key(2)), keyring_of(key(2), [key(3)])])
def test_another_key_is_refused(ring: Keyring) -> None:
    a, b = node(A, ring=ring), node(B)
    opened = b.open(a.seal(HELLO, B), A, NOW)
    assert opened == Opened(broken=Broken.NO_KEY)


def test_unsealed_datagrams_are_refused() -> None:
    b = node(B)
    assert b.open(b"\x73\x01\x93\x01\x02\x03", A, NOW) == Opened(broken=Broken.UNSEALED)


def test_a_rotation_reaches_a_node_with_the_old_key_alone() -> None:
    old, new = key(1), key(2)
    a, b = node(A, ring=keyring_of(old, [new])), node(B, ring=keyring_of(old))
    meet(a, b)
    a.take(keyring_of(new, [old]))
    heard = [b.open(a.seal(HELLO, B), A, NOW).content for _ in range(4)]
    assert heard == [None, HELLO, HELLO, None]  # under the new key, under the old one, and in reverse
    b.take(keyring_of(new, [old]))
    assert a.open(b.seal(ANSWER, A), B, NOW).content == ANSWER
    assert [b.open(a.seal(HELLO, B), A, NOW).content for _ in range(3)] == [HELLO] * 3


@over("period", range(1, 25))
def test_every_message_of_a_fixed_order_reaches_a_peer_that_lacks_the_primary_key(period: int) -> None:
    """With turns of period 4 each proposal of a search went under the wrong key for ever (seed 599)."""
    old, new = key(1), key(2)
    a, b = node(A, ring=keyring_of(old, [new])), node(B, ring=keyring_of(old))
    meet(a, b)
    a.take(keyring_of(new, [old]))
    heard = [b.open(a.seal(HELLO, B), A, NOW).content == HELLO for _ in range((period + 5) * period)]
    assert all(any(heard[place::period]) for place in range(period))


@over("keys", [2, 3, 4])
def test_each_row_of_turns_has_all_keys(keys: int) -> None:
    order = [chosen(range(keys), turn) for turn in range(keys * 100)]
    assert all(len(set(order[first : first + keys])) == keys for first in range(0, len(order), keys))


def test_a_peer_that_restarts_with_the_old_key_alone_is_reached() -> None:
    """It used the new key before, and restarts without disk and with an old file."""
    old, new = key(1), key(2)
    a, b = (node(end, ring=keyring_of(new, [old])) for end in (A, B))
    meet(a, b)
    b = node(B, boot=2000, ring=keyring_of(old), secret=1)
    heard = [b.open(a.seal(HELLO, B), A, NOW).broken for _ in range(UNANSWERED_MAX + 4)]
    assert heard[:UNANSWERED_MAX] == [Broken.NO_KEY] * UNANSWERED_MAX
    assert Broken.FIRST_CONTACT in heard[UNANSWERED_MAX:]


def test_a_peer_that_answers_under_the_new_key_gets_it_alone() -> None:
    a, b = (node(end, ring=keyring_of(key(2), [key(1)])) for end in (A, B))
    meet(a, b)
    b.take(keyring_of(key(2)))
    for _ in range(3):
        assert [b.open(a.seal(HELLO, B), A, NOW).content for _ in range(UNANSWERED_MAX)] == [HELLO] * UNANSWERED_MAX
        assert a.open(b.seal(ANSWER, A), B, NOW).content == ANSWER


def test_multicasts_are_opened_with_each_key_of_the_ring() -> None:
    group = ("239.255.71.17", 7117)
    a = node(A, ring=keyring_of(key(2), [key(1)]))
    said = a.seal_for_all(HELLO, group)
    for ring in (keyring_of(key(1)), keyring_of(key(2))):
        opened = [node(B, ring=ring).open(each, A, NOW, group=group) for each in said]
        assert sorted(each.content or b"" for each in opened) == [b"", HELLO]


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subord.sealing.sealer.PEERS_MAX", 8)
    b = node(B)
    for number in range(20):
        end = (f"10.0.1.{number}", 7117)
        a = node(end)
        (challenge,) = b.open(a.seal(HELLO, B), end, NOW).replies
        (again,) = a.open(challenge, B, NOW).replies
        assert b.open(again, end, NOW) == Opened(HELLO)
    assert b.sizes()["sealed_peers"] <= 8


def test_a_replayed_first_datagram_causes_no_repetition() -> None:
    a, b = node(A), node(B)
    first = a.seal(HELLO, B)
    (challenge,) = b.open(first, A, NOW).replies
    (again,) = a.open(challenge, B, NOW).replies
    assert b.open(again, A, NOW).content == HELLO
    assert b.open(first, A, NOW + 86400) == Opened(broken=Broken.REPLAY)


def test_a_peer_that_lost_the_ticket_is_challenged_again() -> None:
    """It dropped its peers when the table was full."""
    a, b = node(A), node(B)
    meet(a, b)
    a._peers.clear()
    first = b.open(a.seal(HELLO, B), A, NOW)
    assert first.broken is Broken.FIRST_CONTACT
    (again,) = a.open(first.replies[0], B, NOW).replies
    assert b.open(again, A, NOW) == Opened(HELLO)


def test_each_report_of_a_later_incarnation_raises_the_number_once() -> None:
    """A replay of the datagram that caused the report does not raise it again."""
    b = node(B)
    meet(node(A, boot=5000 << 22), b)
    a = node(A)
    met_by_hand = b.open(a.seal(HELLO, B), A, NOW)
    assert met_by_hand.broken is Broken.STALE_BOOT
    raised = a.open(met_by_hand.replies[0], B, NOW)
    known = a.boot
    for reply in raised.replies:
        for answer in b.open(reply, A, NOW).replies:
            for last in a.open(answer, B, NOW).replies:
                b.open(last, A, NOW)
    assert b._peers[A].boot == known
    first = node(A).seal(HELLO, B)  # of the incarnation before
    for _ in range(3):
        for reply in b.open(first, A, NOW).replies:
            a.open(reply, B, NOW)
    assert a.boot == known


def test_only_a_peer_that_has_shown_the_key_is_known() -> None:
    a, b = node(A), node(B)
    meet(a, b)
    assert [a.has_met(end) for end in (B, C)] == [True, False]
