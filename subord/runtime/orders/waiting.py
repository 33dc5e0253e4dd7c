"""A command of this node that waits for the answer to an order, and others that follow what comes.

Inputs are answers as they grow, and at last the end; each listener gets them. Invariant: a follower has no effect on
the order, nor on the command that waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import NONE


class Waiting:
    """A command that waits for an answer. `progress`: takes what is known so far; None: nothing counts before the
    end."""

    def __init__(self, service: str, progress: Callable[[Answer], None] | None) -> None:
        self.service = service
        self.began = trio.current_time()
        self.answer: Answer | None = None
        self.is_over = trio.Event()
        self.listeners = [] if progress is None else [progress]
        self.is_live = progress is not None

    def take(self, answer: Answer) -> None:
        self.answer = answer
        for each in self.listeners:
            each(answer)

    async def follow(self, progress: Callable[[Answer], None] | None) -> Answer:
        """The answer, for another reader; `progress` gets what is known so far until then."""
        listeners = [] if progress is None else [progress]
        self.listeners += listeners
        try:
            if self.answer is not None and progress is not None:
                progress(self.answer)
            await self.is_over.wait()
        finally:
            for each in listeners:
                self.listeners.remove(each)
        return self.answer or Answer(targets=NONE)
