"""Digests: two nodes compare in a few bytes whether they hold the same (protocol section 5).

The digest of a list of rows is the sum of the digests of its rows, so one changed row costs two additions, and the
order does not matter. It covers what is reported whenever it changes; the age of a row is not covered, because it
changes all the time.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from subord.core.messages import Change, Guidance

DIGEST_BYTES: Final = 4
MODULUS: Final = 1 << 8 * DIGEST_BYTES

_encode = msgspec.msgpack.Encoder().encode


def _digest(content: tuple[object, ...]) -> int:
    return int.from_bytes(blake2b(_encode(content), digest_size=DIGEST_BYTES).digest(), "big")


def of_row(change: Change) -> int:
    """Which fields count is part of the wire: a field that a later release appends to a row must stay out."""
    return _digest(
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


def of_guidance(guidance: Guidance) -> int:
    """All its fields but the version, which is compared by itself. Never 0, which says that there is none."""
    content = guidance.path, guidance.alternates, guidance.siblings, guidance.adrift
    return _digest(content) or 1


def shown(total: int) -> int:
    """The sum of digests as it goes over the wire. Never 0, which says that there is none."""
    return total % MODULUS or 1
