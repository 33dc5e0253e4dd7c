"""What is counted on the link, for `subord transfer status` and the metrics.

Times are of the clock of the event loop, but for `refused_at`. Invariants: each refusal and each failure has one
cause of a fixed set, so a stranger cannot add causes; what was told last is bounded.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

SENTENCE_MAX: Final = 400

STRANGER: Final = "stranger"
"""The other end showed no certificate, or one that the plan does not name."""
BROKEN: Final = "broken"
"""It speaks no TLS 1.3, or the connection was cut."""
SLOW: Final = "slow"
CROWDED: Final = "crowded"
"""There were too many connections."""
UNREADABLE: Final = "unreadable"
UNREACHABLE: Final = "unreachable"
"""The connection was refused, or there is no way."""
CAUSES: Final = (STRANGER, BROKEN, SLOW, CROWDED, UNREADABLE, UNREACHABLE)


class Counts:
    """Of one process. `messages`, `bytes`: "asked", "answered" of this end, and "served", "told" of the one that
    answers. `refused`: connections of others. `failed`: connections and questions of this end."""

    def __init__(self, now: float = 0.0) -> None:
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.is_up = False
        self.since = now
        """When it came up, or went down."""
        self.fault = ""
        """Why it is down."""
        self.cause = UNREACHABLE
        """Of the last fault."""
        self.refused_last = ""
        """The address that was refused last, and why."""
        self.refused_at = 0.0
        """When, in seconds since 1970; 0: none was."""

    def note(self, kind: str, size: int) -> None:
        self.messages[kind] += 1
        self.bytes[kind] += size

    def refuse(self, cause: str, address: str) -> None:
        self.refused[cause] += 1
        self.refused_last = f"{address}: {cause}"[:SENTENCE_MAX]
        self.refused_at = time.time()

    def up(self, now: float) -> None:
        if not self.is_up:
            self.is_up, self.since = True, now
        self.fault = ""

    def down(self, now: float, cause: str, fault: str) -> None:
        self.failed[cause] += 1
        if self.is_up:
            self.is_up, self.since = False, now
        self.fault, self.cause = fault[:SENTENCE_MAX], cause
