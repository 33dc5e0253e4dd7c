"""Jobs whose files or results have not crossed: how many by cause, and the last one.

Inputs are faults as they come; outputs are counts, a line of the log for each, and what `subord transfer status`
shows. Invariant: what another cluster or a user has written is one line.
"""

from __future__ import annotations

import logging
import time
from collections import Counter

logger = logging.getLogger("subord")


class FileFaults:
    """`failed`: jobs by cause. `last`: a sentence without a full stop, "": there was none. `at`: of the last one, in
    seconds since 1970."""

    def __init__(self) -> None:
        self.failed = Counter[str]()
        self.last = ""
        self.at = 0.0

    def note(self, cause: str, text: str) -> None:
        """`text`: printable."""
        self.failed[cause] += 1
        self.last, self.at = text, time.time()
        logger.warning("transfer: %s", text)
