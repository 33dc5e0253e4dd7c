"""What nodes sign, which proofs count, and which key is pinned to an address (core/identity)."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import pytest
from loops import over

from subord.core.claims import Claim
from subord.core.identity import contents
from subord.core.identity.identity import (
    BAD_PROOF,
    FOREIGN_KEY,
    NO_IDENTITY,
    PROOFS_BUSY,
    ROW_BAD_PROOF,
    ROW_FOREIGN_KEY,
    ROW_NO_IDENTITY,
    VERIFIED_PER_S,
    Identity,
)
from subord.core.identity.pins import PINS_MAX, Pin, Pins
from subord.core.identity.signer import KEY_BYTES, NO_SIGNER, PROOF_BYTES
from subord.core.messages import Accept, Change, Goodbye, Guidance, Propose, Signed, Terms, Why, Wish

CLUSTER = "a cluster", "10.0.0.0/24"
TERMS = Terms("10.0.0.0/24", 2, 2, "ip", "complete", "lan")
GUIDANCE = Guidance(1, (1, 2), (), (), adrift=False)
PROPOSE = Propose(1000, 7, TERMS, Wish.GUEST, 3, 128)
MESSAGES: list[Signed] = [PROPOSE, Accept(1000, 7, GUIDANCE), Goodbye(1000, Why.MOVED, (5,))]
ROW = Change(5, 2, 1, 1000, 3, 60, False, 128, 130, 90)


class Toy:
    """Signs with a hash of its name, which is its key as well. Counts its work."""

    def __init__(self, name: str) -> None:
        self.key = name.encode().ljust(KEY_BYTES, b".")
        self.signed = self.verified = 0

    def sign(self, content: bytes) -> bytes:
        self.signed += 1
        return blake2b(content, key=self.key, digest_size=PROOF_BYTES).digest()

    def verify(self, key: bytes, content: bytes, proof: bytes) -> bool:
        self.verified += 1
        return proof == blake2b(content, key=key, digest_size=PROOF_BYTES).digest()


def node(position: int, name: str = "") -> Identity:
    return Identity(position, CLUSTER, Toy(name or f"key of {position}"), Pins(254), 0.0)


# -- what is signed -------------------------------------------------------------------------------------------------

CONTENTS: list[tuple[Signed, list[object]]] = [
    (MESSAGES[0], ["subord 1 propose", list(CLUSTER), 5, 2, 1000, 7, 1, 128]),
    (MESSAGES[1], ["subord 1 accept", list(CLUSTER), 5, 2, 1000, 7, [1, 2]]),
    (MESSAGES[2], ["subord 1 goodbye", list(CLUSTER), 5, 2, 1000, 2]),
]


@over(("message", "fields"), CONTENTS)
def test_the_content_of_a_message_is_written_out(message: Signed, fields: list[object]) -> None:
    assert msgspec.msgpack.decode(contents.of_message(CLUSTER, 5, 2, message)) == fields


def test_the_content_of_a_row_is_written_out() -> None:
    row = ["subord 1 row", list(CLUSTER), 5, 2, 1, 1000, 3, 130, 128]
    assert msgspec.msgpack.decode(contents.of_row(CLUSTER, ROW)) == row


def test_the_row_of_a_node_that_was_just_accepted_is_proven_by_its_proposal() -> None:
    row = Change(5, 2, 2, 1000, 0, 0, standing=128, exchange=7, wish=Wish.GUEST)
    assert contents.of_row(CLUSTER, row) == contents.of_message(CLUSTER, 5, 2, PROPOSE)


# -- messages -------------------------------------------------------------------------------------------------------


@over("message", MESSAGES)
def test_a_signed_message_counts_and_pins_its_key(message: Signed) -> None:
    five, two = node(5), node(2)
    assert two.judge(5, five.signed(2, message), 0.0) == (None, True)
    assert two.pins.key_of(5) == Toy("key of 5").key
    assert two.judge(5, five.signed(2, message), 0.0) == (None, False)


OTHERS: list[tuple[str, Signed, Signed]] = [
    ("another incarnation", PROPOSE, msgspec.structs.replace(PROPOSE, incarnation=1001)),
    ("another exchange", PROPOSE, msgspec.structs.replace(PROPOSE, exchange=8)),
    ("another wish", PROPOSE, msgspec.structs.replace(PROPOSE, wish=Wish.SWAP)),
    ("another standing", PROPOSE, msgspec.structs.replace(PROPOSE, standing=1)),
    ("another path", MESSAGES[1], Accept(1000, 7, Guidance(1, (9,), (), (), adrift=False))),
    ("another reason", MESSAGES[2], Goodbye(1000, Why.LEFT, (5,))),
    ("another kind", MESSAGES[2], Accept(1000, 2, GUIDANCE)),
]


@over(("said", "told"), [pytest.param(*row[1:], id=row[0]) for row in OTHERS])
def test_a_proof_proves_one_statement(said: Signed, told: Signed) -> None:
    signed = node(5).signed(2, said)
    told = msgspec.structs.replace(told, key=signed.key, proof=signed.proof)
    assert node(2).judge(5, told, 0.0) == (BAD_PROOF, False)


def test_a_proof_is_for_one_receiver_one_sender_and_one_cluster() -> None:
    signed = node(5).signed(2, PROPOSE)
    assert node(3).judge(5, signed, 0.0).reason == BAD_PROOF
    assert node(2).judge(6, signed, 0.0).reason == BAD_PROOF
    other = Identity(2, ("another", "10.0.0.0/24"), Toy("key of 2"), Pins(254), 0.0)
    assert other.judge(5, signed, 0.0).reason == BAD_PROOF


def test_another_key_is_refused_until_the_node_is_forgotten() -> None:
    two = node(2)
    assert two.judge(5, node(5).signed(2, PROPOSE), 0.0).reason is None
    stranger = node(5, "an intruder").signed(2, PROPOSE)
    assert two.judge(5, stranger, 0.0) == (FOREIGN_KEY, False)
    assert two.pins.release(5, at_ms=1)
    assert two.judge(5, stranger, 0.0) == (None, True)


@over(("pinned", "strict", "reason"), [(False, False, None), (True, False, NO_IDENTITY), (False, True, NO_IDENTITY)])
def test_messages_without_identity(pinned: bool, strict: bool, reason: str | None) -> None:
    two = node(2)
    two.strict = strict
    if pinned:
        two.judge(5, node(5).signed(2, PROPOSE), 0.0)
    assert two.judge(5, PROPOSE, 0.0).reason == reason


@over("key", [b"k", b"k" * (KEY_BYTES - 1)])
def test_a_short_key_or_proof_proves_nothing(key: bytes) -> None:
    signed = node(5).signed(2, PROPOSE)
    assert node(2).judge(5, msgspec.structs.replace(signed, key=key), 0.0).reason == BAD_PROOF
    assert node(2).judge(5, msgspec.structs.replace(signed, proof=signed.proof[:-1]), 0.0).reason == BAD_PROOF


def test_a_proposal_without_number_is_refused() -> None:
    """Its row would be judged as one that the node signed, and its leader would pass it on in good faith."""
    signed = node(5).signed(2, msgspec.structs.replace(PROPOSE, exchange=0))
    assert node(2).judge(5, signed, 0.0).reason == BAD_PROOF


def test_a_node_without_identity_signs_nothing_and_refuses_nothing() -> None:
    bare = Identity(2, CLUSTER, NO_SIGNER, Pins(254), 0.0)
    bare.strict = True
    assert bare.signed(5, PROPOSE) is PROPOSE
    assert bare.signed_row(ROW) is ROW
    assert bare.judge(5, node(5, "an intruder").signed(3, PROPOSE), 0.0) == (None, False)
    assert not bare.pins.size


def test_a_repeated_message_is_neither_signed_nor_verified_again() -> None:
    five, two = node(5), node(2)
    for _ in range(3):
        assert two.judge(5, five.signed(2, PROPOSE), 0.0).reason is None
    assert (five._signer.signed, two._signer.verified) == (1, 1)  # type: ignore[attr-defined]


def test_the_work_for_false_proofs_is_bounded() -> None:
    two = node(2)
    false = [Goodbye(number, Why.LEFT, (), b"k" * KEY_BYTES, b"p" * PROOF_BYTES) for number in range(3000)]
    reasons = [two.judge(5, each, 0.0).reason for each in false]
    assert reasons.count(BAD_PROOF) == VERIFIED_PER_S
    assert reasons.count(PROOFS_BUSY) == len(false) - VERIFIED_PER_S


# -- rows -----------------------------------------------------------------------------------------------------------


def test_a_row_is_signed_again_only_when_a_signed_field_changes() -> None:
    five = node(5)
    proofs = [five.signed_row(each).proof for each in (ROW, msgspec.structs.replace(ROW, age_s=90, round_trip=7))]
    assert proofs[0] == proofs[1]
    assert five.signed_row(msgspec.structs.replace(ROW, moves=4)).proof != proofs[0]
    assert five._signer.signed == 2  # type: ignore[attr-defined]


ALTERED: dict[str, int] = {"leader": 3, "place": 2, "incarnation": 1001, "moves": 4, "standing": 1, "performance": 1}


@over(("field", "value"), list(ALTERED.items()))
def test_a_row_with_an_altered_field_is_not_taken(field: str, value: int) -> None:
    """Neither alone, nor where the genuine row is held: the comparison with a held row covers each signed field."""
    row = node(5).signed_row(ROW)
    altered = msgspec.structs.replace(row, **{field: value})
    assert node(2).reason_to_drop(altered, ()) == ROW_BAD_PROOF
    assert node(2).reason_to_drop(altered, (row,)) == ROW_BAD_PROOF


def test_a_row_that_is_held_is_not_verified_again() -> None:
    row, two = node(5).signed_row(ROW), node(2)
    assert two.reason_to_drop(row, ()) is None
    assert two.reason_to_drop(msgspec.structs.replace(row, age_s=99, missing=True, round_trip=1), (row,)) is None
    assert two._signer.verified == 1  # type: ignore[attr-defined]


def test_the_row_of_a_proposal_says_no_more_than_the_proposal() -> None:
    signed = node(5).signed(2, PROPOSE)
    row = Change(5, 2, 2, 1000, 0, 0, standing=128, key=signed.key, proof=signed.proof, exchange=7, wish=signed.wish)
    assert node(1).reason_to_drop(row, ()) is None
    for field in ("moves", "performance"):
        assert node(1).reason_to_drop(msgspec.structs.replace(row, **{field: 9}), ()) == ROW_BAD_PROOF
    assert node(1).reason_to_drop(msgspec.structs.replace(row, leader=3), ()) == ROW_BAD_PROOF


def test_a_row_gives_no_key_to_an_address() -> None:
    """Its reporter could give a key of its own to an address that is not used yet."""
    two = node(2)
    assert two.reason_to_drop(node(5).signed_row(ROW), ()) is None
    assert not two.pins.key_of(5)


def test_rows_of_another_key_and_without_any() -> None:
    two = node(2)
    assert two.reason_to_drop(ROW, ()) is None, "of an older release on the way"
    two.judge(5, node(5).signed(2, PROPOSE), 0.0)
    assert two.reason_to_drop(ROW, ()) is None
    assert two.reason_to_drop(node(5, "an intruder").signed_row(ROW), ()) == ROW_FOREIGN_KEY
    two.strict = True
    assert two.reason_to_drop(ROW, ()) == ROW_NO_IDENTITY


def test_a_signed_row_counts_before_an_unsigned_one_unless_that_is_of_a_later_incarnation() -> None:
    """In the order of claims: the last one counts."""
    signed, proposed = {"key": b"k", "proof": b"p"}, {"key": b"k", "proof": b"p", "exchange": 7}
    order = [
        Change(5, 2, 1, 999, 0, 0, **signed),  # type: ignore[arg-type]
        Change(5, 2, 1, 1000, 9, 0, missing=True),
        Change(5, 2, 1, 1000, 0, 0, missing=True, **signed),  # type: ignore[arg-type]
        Change(5, 2, 1, 1000, 9, 0),
        Change(5, 2, 1, 1000, 0, 0, **proposed),  # type: ignore[arg-type]
        Change(5, 2, 1, 1000, 0, 0, **signed),  # type: ignore[arg-type]
        Change(5, 2, 1, 1000, 1, 0, **signed),  # type: ignore[arg-type]
        Change(5, 2, 1, 1001, 0, 0),
    ]
    weights = [Claim(each, 0.0).weight for each in order]
    assert weights == sorted(weights)
    assert len(set(weights)) == len(weights)


# -- pins -----------------------------------------------------------------------------------------------------------

A, B, C = (bytes([value]) * KEY_BYTES for value in (1, 2, 3))
EARLY, LATE, LESSER = Pin(5, 10, B), Pin(5, 20, A), Pin(5, 10, A)


def test_all_nodes_agree_on_the_earliest_pin_and_of_two_on_the_lesser_key() -> None:
    orders = [(EARLY, LATE, LESSER), (LATE, LESSER, EARLY), (LESSER, EARLY, LATE)]
    nodes = [Pins(254, order) for order in orders]
    assert {each.digest for each in nodes} == {nodes[0].digest}
    assert [each.items() for each in nodes] == [[LESSER]] * 3


def test_no_neighbour_replaces_the_key_that_a_node_holds() -> None:
    pins = Pins(254)
    assert pins.see(5, C)
    pins.merge([LATE])
    assert pins.key_of(5) == C
    assert pins.conflicts == [5]
    assert pins.saved() == [Pin(5, 20, C)], "the disk keeps what counts here"
    taken = Pins(254, [LATE])
    taken.merge([EARLY])
    assert taken.key_of(5) == A
    assert taken.conflicts == [5]


def test_a_key_that_neighbours_confirm_is_no_conflict() -> None:
    pins = Pins(254)
    pins.see(5, B)
    pins.merge([EARLY])
    assert (pins.key_of(5), pins.conflicts, len(pins), pins.size) == (B, [], 1, 1)


def test_what_an_operator_forgot_comes_back_from_no_neighbour() -> None:
    pins = Pins(254, [EARLY])
    assert pins.release(5, at_ms=15)
    assert not pins.release(5, at_ms=15)
    assert not pins.merge([EARLY])
    assert not pins.key_of(5)
    assert pins.merge([LATE])
    assert not pins.release(5, at_ms=14), "the later key was not meant"
    assert pins.key_of(5) == A


def test_a_new_pin_is_stamped_after_what_was_forgotten() -> None:
    pins = Pins(254)
    pins.release(5, at_ms=500)
    assert pins.stamped(5, A, now_ms=100) == Pin(5, 501, A)
    assert pins.stamped(6, A, now_ms=100) == Pin(6, 100, A)


def test_addresses_whose_key_came_or_went_are_told_to_the_node() -> None:
    pins = Pins(254)
    pins.see(5, A)
    pins.merge([Pin(6, 1, B), Pin(5, 1, A)])
    pins.release(6, 5)
    assert pins.fresh == [5, 6, 6]


@pytest.mark.slow
def test_pins_are_bounded() -> None:
    pins = Pins(1 << 20, (Pin(position, 1, A) for position in range(1, PINS_MAX + 1)))
    assert not pins.see(PINS_MAX + 1, A)
    assert not pins.merge([Pin(PINS_MAX + 1, 1, A)])
    assert pins.refused == 1
    assert pins.merge([Pin(1, 0, B)]), "a known address is no further one"


def test_pins_travel() -> None:
    pins = Pins(254, [EARLY, Pin(6, 1, C)])
    waiting = pins.empty()
    waiting.merge(pins.items())
    taken = waiting.take(10)
    assert (len(waiting), waiting.digest) == (0, Pins(254).digest)
    other = Pins(254, pins.decode(pins.encode(taken), 0))
    assert other.digest == pins.digest
    with pytest.raises(ValueError, match="network"):
        Pins(5).decode(pins.encode(taken), 0)
