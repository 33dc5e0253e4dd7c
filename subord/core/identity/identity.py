"""The identity of one node: it signs what the node says, and judges what others say in their names.

Inputs are messages and rows; outputs are proofs, and the reason not to take a message or a row. A key counts for an
address once it is pinned (pins.py). Only a node that speaks for itself pins its key: a row comes from another node,
which could give a key of its own to an address that is not used yet. Invariant: a proof that was verified with the
same content is not verified again. A node without identity believes nothing and refuses nothing, as releases before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from subord.core.carriage.orders import Cluster
from subord.core.identity import contents
from subord.core.identity.pins import Pins
from subord.core.identity.signer import KEY_BYTES, PROOF_BYTES, Signer
from subord.core.messages import Change, Propose, Signed
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.tables import BoundedMap
from subord.core.view import Position

SIGNED_MAX: Final = 256  # proofs of own messages that are kept: a repeated message is not signed again
VERIFIED_MAX: Final = 256
VERIFIED_PER_S: Final = 1000.0  # messages; a member that sends more is answered late
FOREIGN_KEY, NO_IDENTITY, BAD_PROOF, PROOFS_BUSY = "foreign_key", "no_identity", "bad_proof", "proofs_busy"
ROW_FOREIGN_KEY, ROW_NO_IDENTITY, ROW_BAD_PROOF = "row_foreign_key", "row_no_identity", "row_bad_proof"
REVOKED_KEY, ROW_REVOKED_KEY = "revoked_key", "row_revoked_key"
UNPROVEN: Final = (ROW_FOREIGN_KEY, ROW_NO_IDENTITY, ROW_REVOKED_KEY)
"""Reasons that a correct subordinate may cause, which holds other pins or does not ask for identities yet."""
WORDS: Final = {
    FOREIGN_KEY: "another key is pinned to this address; if its host was replaced, an operator must forget the node",
    NO_IDENTITY: "a key is pinned to this address, or the cluster is strict, and the message proves no identity; "
    "install a release with identities there, or forget the node",
    REVOKED_KEY: "the key of this node is revoked, or not certified: see `subord operator revoked`",
}
"""What both sides show."""


class Seen(NamedTuple):
    """`reason`: why the message is dropped; None: it counts. `is_new`: its key is pinned since now."""

    reason: str | None
    is_new: bool = False


class Identity:
    """One per node. `strict`: nodes without identity are refused."""

    def __init__(self, position: Position, cluster: Cluster, signer: Signer, pins: Pins, now: float) -> None:
        self.pins = pins
        self.strict = False
        self.revoked: frozenset[bytes] = frozenset()
        """Keys that count nowhere."""
        self.is_on = bool(signer.key)
        self._position = position
        self._cluster = cluster
        self._signer = signer
        self._signed: BoundedMap[bytes, bytes] = BoundedMap(SIGNED_MAX)  # content -> proof
        self._verified: BoundedMap[bytes, bytes] = BoundedMap(VERIFIED_MAX)  # proof -> key and content
        self._bucket = TokenBucket(VERIFIED_PER_S, now)
        self._row = b""
        self._row_proof = b""

    # -- signing ------------------------------------------------------------------------------------------

    def signed(self, target: Position, message: Signed) -> Signed:
        """The message with key and proof."""
        if not self.is_on:
            return message
        content = contents.of_message(self._cluster, self._position, target, message)
        proof = self._signed.get(content)
        if proof is None:
            proof = self._signed[content] = self._signer.sign(content)
        return msgspec.structs.replace(message, key=self._signer.key, proof=proof)

    def signed_row(self, change: Change) -> Change:
        """The own row with key and proof; signed again only when a signed field has changed."""
        if not self.is_on:
            return change
        content = contents.of_row(self._cluster, change)
        if content != self._row:
            self._row, self._row_proof = content, self._signer.sign(content)
        return msgspec.structs.replace(change, key=self._signer.key, proof=self._row_proof)

    # -- judging ------------------------------------------------------------------------------------------

    def judge(self, source: Position, message: Signed, now: float, *, pins: bool = True) -> Seen:
        """Whether `source` has signed a message to this node. `pins`: the message may pin its key."""
        if not self.is_on:
            return Seen(None)
        pinned = self.pins.key_of(source)
        if not message.key:
            return Seen(NO_IDENTITY if pinned or self.strict else None)
        if message.key in self.revoked:
            return Seen(REVOKED_KEY)
        if (reason := self._reason_to_doubt(source, message, now)) is not None:
            return Seen(reason)
        if pinned and pinned != message.key:
            return Seen(FOREIGN_KEY)
        return Seen(None, pins and self.pins.see(source, message.key))

    def _reason_to_doubt(self, source: Position, message: Signed, now: float) -> str | None:
        """Why the message does not prove that the owner of its key has sent it."""
        if isinstance(message, Propose) and not message.exchange:
            return BAD_PROOF  # the row that is made of it would pass for one that its node signed
        content = contents.of_message(self._cluster, source, self._position, message)
        if self._verified.get(message.proof) == message.key + content:
            return None
        if not self._bucket.admit(now):
            return PROOFS_BUSY
        if not self._verify(message.key, content, message.proof):
            return BAD_PROOF
        self._verified[message.proof] = message.key + content
        return None

    def reason_to_drop(self, change: Change, held: Iterable[Change]) -> str | None:
        """Why a row is not taken; None: it is. `held`: rows of the node that are verified."""
        if not change.key:
            return ROW_NO_IDENTITY if self.strict else None
        if change.key in self.revoked and not change.missing:
            return ROW_REVOKED_KEY
        content = contents.of_row(self._cluster, change)
        if not any(is_proven_alike(change, each) for each in held) and not (
            _is_whole(change) and self._verify(change.key, content, change.proof)
        ):
            return ROW_BAD_PROOF
        return ROW_FOREIGN_KEY if self.is_foreign(change) else None

    def is_foreign(self, change: Change) -> bool:
        """Whether a row has another key than the one that is pinned to its node."""
        return bool(change.key) and self.pins.key_of(change.position) not in (b"", change.key)

    def _verify(self, key: bytes, content: bytes, proof: bytes) -> bool:
        return len(key) == KEY_BYTES and len(proof) == PROOF_BYTES and self._signer.verify(key, content, proof)


def _is_whole(change: Change) -> bool:
    """Whether the proof of a proposal stands for a row that says no more than that."""
    return not change.exchange or not (change.moves or change.performance)


def is_proven_alike(change: Change, other: Change) -> bool:
    """Whether the proof of `other` proves `change`."""
    signed = change.key, change.proof, change.exchange, change.wish, change.leader, change.incarnation
    if signed != (other.key, other.proof, other.exchange, other.wish, other.leader, other.incarnation):
        return False
    rest = change.place, change.moves, change.standing, change.performance
    return bool(change.key) and rest == (other.place, other.moves, other.standing, other.performance)
