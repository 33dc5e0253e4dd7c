"""The two directions of the exchange: messages of our home side to the other cluster, and its messages to our away
side.

Inputs are a link and messages; outputs are messages and answers. Invariants: one message is under way at a time; it
is sent when all that it says is on the disk; an answer is given when all that it says is on the disk; a message that
cannot be read is answered with nothing, and counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from subord.runtime.log.formats import printable
from subord.services.transfer.driving.waking import Wake
from subord.services.transfer.driving.writing import Sides
from subord.services.transfer.exchange import (
    Answer,
    ExchangeError,
    Message,
    decode_answer,
    decode_message,
    encode,
)
from subord.services.transfer.linking import counts as causes
from subord.services.transfer.linking.asking import LinkError

logger = logging.getLogger("subord")
BUSY_S: Final = 2.0
"""Between two messages while jobs cross."""
GAP_S: Final = 0.2
"""The least time between two messages, whatever the other side says."""
REFUSES: Final = "refuses"
"""The other side does not heed our messages: a cause beside those of the link."""
Ask = Callable[[bytes], Awaitable[bytes]]
"""Raises LinkError."""


class Exchanging:
    """`act`: is called when the batch system has something to do. `fault`: why the last message has no answer; "": it
    has. `heard_at`: of the last answer, `asked_at`: of the last message of the other cluster, in seconds since 1970;
    0: there was none."""

    def __init__(
        self, sides: Sides, ask: Ask, poll_s: float, changed: Callable[[], None], act: Callable[[], None]
    ) -> None:
        self.fault = ""
        self.heard_at = 0.0
        self.asked_at = 0.0
        self.unreadable = 0
        self._cause = ""
        """Of the fault."""
        self._sides = sides
        self._ask = ask
        self._poll_s = poll_s
        self._changed = changed
        self._act = act
        self._wake = Wake()

    def attend(self) -> None:
        """There may be something to say."""
        self._wake.call()

    async def run(self) -> None:
        """Until it is cancelled. Raises RecordsError."""
        while True:
            message = self._sides.home.message(self._sides.clock())
            is_more = message is not None and await self._send(message)
            if not is_more:
                await self._wake.wait(self._pause_s - GAP_S)
            await trio.sleep(GAP_S)

    @property
    def _pause_s(self) -> float:
        desk = self._sides.home.desk
        is_busy = bool(desk.open or desk.forgetting or desk.strange)
        return min(BUSY_S, self._poll_s) if is_busy else self._poll_s

    async def _send(self, message: Message) -> bool:
        """Whether there is more to be said at once, by either side."""
        sides = self._sides
        await sides.commit()
        try:
            answer = decode_answer(await self._ask(encode(message)))
        except LinkError as error:
            self._failed(error.cause, str(error))
            return False
        except ExchangeError as error:
            self._failed(causes.UNREADABLE, str(error))
            return False
        was_synced = sides.home.sending.is_synced
        if not sides.home.heard(answer, sides.clock()):
            return False
        self._heard(answer)
        await sides.commit()
        if answer.states or was_synced != sides.home.sending.is_synced:
            self._act()
        self._changed()
        return answer.is_more or bool(answer.grants)

    def _failed(self, cause: str, why: str) -> None:
        """The other side has written a part of it, and may write something else each time."""
        self.fault = printable(why)
        if cause != self._cause:
            logger.warning("transfer: %s", self.fault)
        self._cause = cause
        self._changed()

    def _heard(self, answer: Answer) -> None:
        if answer.refused:
            self._failed(REFUSES, f"the other cluster refuses: {answer.refused}")
            return
        if self.fault:
            logger.info("transfer: the other cluster answers")
        self.fault = self._cause = ""
        self.heard_at = time.time()

    async def answer(self, body: bytes) -> bytes:
        """To a message of the other cluster. Raises ExchangeError."""
        sides = self._sides
        try:
            message = decode_message(body)
        except ExchangeError:
            self.unreadable += 1
            raise
        answer = sides.away.hear(message, sides.clock())
        await sides.commit()
        if not answer.refused:
            self.asked_at = time.time()
            if message.submits or message.cares or message.forgets:
                self._act()
        self._changed()
        return encode(answer)
