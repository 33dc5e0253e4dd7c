"""How this node takes part in what a lasting document wants: has its agent follow it, and keeps what the agent says.

Inputs are a document, and states of the agent; output is the last state. A service has a subclass with its frames. An
agent whose node has no part in it says so and is done; then it gets the document again every AGAIN_S. Invariants: the
state is of the document that counts; a new fault is a problem of this node (`subord errors`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import ClassVar, Final, Generic, NoReturn, TypeVar

import msgspec
import trio

from subord.core.carriage.documents import Document
from subord.core.carriage.engine.causes import sentence
from subord.runtime.counters import Counters
from subord.runtime.orders import told
from subord.runtime.orders.agent import Agent, Done
from subord.runtime.orders.attending import REFUSED_RETRY_S_MAX, RETRY_S_MAX, SETTLED, Attending
from subord.runtime.state.tracker import Tracker

logger = logging.getLogger("subord")
FINAL: Final = frozenset((told.OFF, told.OTHER_NODE))
"""Words of an agent that is done with the document."""
AGAIN_S: Final = 3_600.0
"""Then it gets the document again: it may have lost its files, or the policy of the node may have changed."""
State = TypeVar("State", bound=told.Told)


class Keeper(ABC, Generic[State]):
    """Of one document at one daemon. `SERVICE`: its name, for problems and the log. `FORM`: of its states."""

    SERVICE: ClassVar[str]
    FORM: type[State]

    def __init__(self, name: str, agent: Agent, tracker: Tracker, counters: Counters, frame_bytes_max: int) -> None:
        """`name`: of the document."""
        self.state: State = self.FORM(word=told.NONE)
        self._counters = counters
        self._version = 0
        self._document: Document | None = None
        self._attending = Attending(name, self, agent, tracker, frame_bytes_max)

    async def run(self) -> NoReturn:
        """Follow the document until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._attending.run)
            while True:
                await trio.sleep(AGAIN_S)
                if self.state.word in FINAL:
                    self._attending.hand_again()
        raise AssertionError("unreachable")

    def begin(self, document: Document | None) -> None:
        """Another document counts now, or the same is handed over again."""
        if document is not None and document == self._document:
            return
        self._document = document
        self._version = 0 if document is None else document.version
        self._become(self.FORM(word=told.NONE if document is None else told.STARTING, version=self._version))

    @abstractmethod
    def hear(self, data: bytes) -> bool:
        """A frame of the agent; False: it is none of the service."""

    def end(self, done: Done | None) -> float:
        """A connection to the agent has ended."""
        if done is None:
            self._become(self._as(told.NO_AGENT, ""))
            return RETRY_S_MAX
        if done.refused and done.cause:
            self._become(self._as(told.REFUSED, sentence(done.cause)))
            return REFUSED_RETRY_S_MAX
        if done.cause:
            detail = self.state.detail if self.state.word == told.FAILED else ""
            self._become(self._as(told.FAILED, detail or sentence(done.cause)))
        return SETTLED if self.state.word in FINAL and self._may_settle else RETRY_S_MAX

    @property
    def _may_settle(self) -> bool:
        """Whether an agent that is done with the document needs no connection."""
        return True

    def _as(self, word: str, detail: str) -> State:
        """With the figures from before, which tell their age."""
        return msgspec.structs.replace(self.state, word=word, detail=detail[: told.DETAIL_CHARS_MAX])

    def _become(self, found: State) -> None:
        before, self.state = self.state, found
        if found.word in (told.FAILED, told.REFUSED) and found.detail != before.detail:
            self._note(found.detail)
        self._changed(before)

    def _changed(self, before: State) -> None:
        """For problems that are of the service."""

    def _note(self, text: str) -> None:
        logger.error("%s: %s", self.SERVICE, text)
        self._counters.problems.note(self.SERVICE, text)
