"""A rate that one of many cannot use up for the others, in memory that does not grow with them.

Intuition: a soup kitchen with one kettle and 256 ladles. Who comes to which ladle is drawn by a secret, so nobody can
choose to stand in somebody else's way; and who comes a hundred times finds his ladle empty, not the kettle.
"""

from __future__ import annotations

import hmac
from typing import Final

from subord.core.pacing.token_bucket import TokenBucket

LADLES: Final = 256


class Shares:
    """`per_s` for all together, `of_one_per_s` for each and those who happen to share with it."""

    def __init__(self, secret: bytes, per_s: float, of_one_per_s: float, now: float) -> None:
        self._secret = secret
        self._all = TokenBucket(per_s, now)
        self._ladles = [TokenBucket(of_one_per_s, now) for _ in range(LADLES)]

    def admit(self, who: bytes, now: float) -> bool:
        """Take a share; False when there is none."""
        ladle = self._ladles[hmac.digest(self._secret, b"share" + who, "sha256")[0]]
        return ladle.admit(now) and self._all.admit(now)
