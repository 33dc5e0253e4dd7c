"""How this node takes part in elastic growth: has its agent follow the plan, and keeps what the agent says.

Inputs are the document `elastic/plan`, and states of the agent; outputs are the last state, and the polls. The agent
of the queue's node says a state after each poll; that of another node says that it takes no further part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from subord.core.carriage.documents import ELASTIC
from subord.runtime.counters import Counters
from subord.runtime.elastic import state
from subord.runtime.elastic.state import Poll, State
from subord.runtime.elastic.talk import FRAME_BYTES_MAX, decode_said, encode_poll_soon
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.keeping import Keeper
from subord.runtime.state.tracker import Tracker

POLLS_KEPT: Final = 2_000


class ElasticKeeper(Keeper[State]):
    """Elastic growth at one daemon. `batch`, `kinds`: of its configuration. `polls`: the last ones, the oldest
    first."""

    SERVICE = "elastic"
    FORM = State

    def __init__(
        self, agent: Agent, tracker: Tracker, counters: Counters, batch: str = "", kinds: Sequence[str] = ()
    ) -> None:
        super().__init__(ELASTIC, agent, tracker, counters, FRAME_BYTES_MAX)
        self.batch = batch
        self.kinds = tuple(kinds)
        self.polls: deque[Poll] = deque(maxlen=POLLS_KEPT)
        self._is_asking = False

    async def poll_soon(self) -> bool:
        """Whether the agent, which manages, is told to look at the queue now."""
        if self.state.word != state.MANAGES:
            await trio.lowlevel.checkpoint()
            return False
        if self._is_asking:  # one is as good as two
            await trio.lowlevel.checkpoint()
            return True
        self._is_asking = True
        try:
            return await self._attending.say(encode_poll_soon())
        finally:
            self._is_asking = False

    def hear(self, data: bytes) -> bool:
        """A state of the agent. Polls may come again after the connection was opened again."""
        said = decode_said(data)
        if said is None:
            return False
        if said.state.polls:
            known = {each.time for each in self.polls}  # the clock may have been set back since the last one
            self.polls.extend(each for each in said.state.polls if each.time not in known)
        self._become(msgspec.structs.replace(said.state, polls=()))
        return True

    def _changed(self, before: State) -> None:
        found = self.state
        if found.fault and found.fault != before.fault:
            self._note(found.fault)
        known = {(each.name, each.fault) for each in before.nodes}
        for each in found.nodes:
            if each.fault and (each.name, each.fault) not in known:
                self._note(f"{each.name}: {each.fault}")
