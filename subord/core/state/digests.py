"""Digests, by which two nodes compare their rows in a few bytes (docs/protocol.md, section 5).

The digest of a list is the sum of the digests of its rows, so a changed row costs two additions and the order does
not matter. The age of a row is left out, because it changes all the time. The proof of a row adds a part of its own,
because a leader without identity gets and counts the rows without proofs.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from subord.core.messages import Change, Guidance

DIGEST_BYTES: Final = 4
PROOF_BYTES: Final = 8  # of a proof that count
MODULUS: Final = 1 << 8 * DIGEST_BYTES

_encode = msgspec.msgpack.Encoder().encode


def _digest(content: tuple[object, ...]) -> int:
    return int.from_bytes(blake2b(_encode(content), digest_size=DIGEST_BYTES).digest(), "big")


def of_row(change: Change) -> int:
    """The digest of a row. Its fields are part of the wire: fields that a later release appends stay out."""
    return of_proof(change) + _digest(
        (
            change.position,
            change.leader,
            change.place,
            change.incarnation,
            change.moves,
            change.missing,
            change.performance,
            change.standing,
            change.round_trip,
        )
    )


def of_proof(change: Change) -> int:
    """The part that the proof adds; 0 without one."""
    return int.from_bytes(change.proof[:PROOF_BYTES], "big")


def of_guidance(guidance: Guidance) -> int:
    """The digest of a guidance without its version. Never 0, which stands for none."""
    content = guidance.path, guidance.alternates, guidance.siblings, guidance.adrift
    return _digest(content) or 1


def shown(total: int) -> int:
    """The sum of digests as sent on the wire. Never 0, which stands for none."""
    return total % MODULUS or 1
