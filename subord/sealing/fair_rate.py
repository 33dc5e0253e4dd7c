"""A rate limit in which no source uses up the share of the others, in constant memory.

Input are sources and times; output is whether one more is allowed. A keyed hash maps each source to one of BUCKETS
token buckets, so no source can choose a bucket.
"""

from __future__ import annotations

import hmac
from typing import Final

from subord.core.pacing.token_bucket import TokenBucket

BUCKETS: Final = 256


class FairRate:
    """`per_s` for all sources together, `of_one_per_s` for each bucket of them."""

    def __init__(self, secret: bytes, per_s: float, of_one_per_s: float, now: float) -> None:
        self._secret = secret
        self._all = TokenBucket(per_s, now)
        self._buckets = [TokenBucket(of_one_per_s, now) for _ in range(BUCKETS)]

    def admit(self, source: bytes, now: float) -> bool:
        """Take a token of `source`; False when none is left."""
        bucket = self._buckets[hmac.digest(self._secret, b"share" + source, "sha256")[0]]
        return bucket.admit(now) and self._all.admit(now)
