"""Has the agent of this node write the table of hosts that counts, and keeps what the agent says.

Inputs are the document `hosts/table`, and what the agent says of it; output is the state of this node. A table is
handed over again every AGAIN_S, because other programs write the file too. Invariant: a new fault is a problem of
this node (`subord errors`).
"""

from __future__ import annotations

import logging
from typing import Final, NoReturn

import trio

from subord.core.carriage.documents import HOSTS, Document
from subord.core.carriage.engine.causes import sentence
from subord.runtime.counters import Counters
from subord.runtime.hosts import state
from subord.runtime.hosts.state import DETAIL_CHARS_MAX, State, decode_said, mark_of
from subord.runtime.orders.agent import DONE_BYTES_MAX, Agent, Done
from subord.runtime.orders.attending import REFUSED_RETRY_S_MAX, RETRY_S_MAX, SETTLED, Attending
from subord.runtime.state.tracker import Tracker

logger = logging.getLogger("subord")
AGAIN_S: Final = 3_600.0


class HostsKeeper:
    """The table of hosts at one daemon. `path`: of the file; "": this node follows no table."""

    def __init__(self, path: str, agent: Agent, tracker: Tracker, counters: Counters) -> None:
        self.state = State(state.NONE if path else state.OFF)
        self._is_off = not path
        self._counters = counters
        self._attending = Attending(HOSTS, self, agent, tracker, DONE_BYTES_MAX)

    async def run(self) -> NoReturn:
        """Follow the table until cancelled."""
        if self._is_off:
            await trio.sleep_forever()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._attending.run)
            while True:
                await trio.sleep(AGAIN_S)
                if self.state.word == state.APPLIED:
                    self._attending.hand_again()
        raise AssertionError("unreachable")

    # -- what the agent does with the table ---------------------------------------------------------------

    def begin(self, document: Document | None) -> None:
        """Another table counts now, or the same is handed over again."""
        if document is None:
            self.state = State(state.NONE)
            return
        mark = mark_of(document.body)
        if (self.state.version, self.state.mark) != (document.version, mark):
            self.state = State(state.STARTING, document.version, mark)

    def hear(self, data: bytes) -> bool:
        """What the agent says of the table."""
        said = decode_said(data)
        if said is None:
            return False
        self._become(said.word, said.detail, said.notes)
        return True

    def end(self, done: Done | None) -> float:
        """A connection to the agent has ended."""
        if done is None:
            if self.state.word != state.APPLIED:
                self._become(state.NO_AGENT)
            return RETRY_S_MAX
        if done.refused and done.cause:
            self._become(state.REFUSED, sentence(done.cause))
            return REFUSED_RETRY_S_MAX
        if done.cause:
            detail = self.state.detail if self.state.word == state.FAILED else ""
            self._become(state.FAILED, detail or sentence(done.cause))
            return REFUSED_RETRY_S_MAX
        return SETTLED

    def _become(self, word: str, detail: str = "", notes: tuple[str, ...] = ()) -> None:
        found = self.state._replace(word=word, detail=detail[:DETAIL_CHARS_MAX], notes=notes)
        is_fault = word in (state.FAILED, state.REFUSED)
        if is_fault and (word, found.detail) != (self.state.word, self.state.detail):
            logger.error("hosts: %s", found.detail)
            self._counters.problems.note("hosts", found.detail)
        self.state = found
