"""How this node takes part in transfer queues: has its agent follow the plan, and keeps what the agent says.

Inputs are the document `transfer/plan`, and states of the agent; output is the last state. The agent of the transfer
host says a state whenever something has changed; that of another node says that it takes no further part.
"""

from __future__ import annotations

from subord.config.schema import TransferConfig
from subord.core.carriage.documents import TRANSFER
from subord.runtime.counters import Counters
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.keeping import Keeper
from subord.runtime.state.tracker import Tracker
from subord.runtime.transfer.state import State
from subord.runtime.transfer.talk import FRAME_BYTES_MAX, decode_said


class TransferKeeper(Keeper[State]):
    """Transfer queues at one daemon. `config`: of its node."""

    SERVICE = "transfer"
    FORM = State

    def __init__(
        self, agent: Agent, tracker: Tracker, counters: Counters, config: TransferConfig | None = None
    ) -> None:
        super().__init__(TRANSFER, agent, tracker, counters, FRAME_BYTES_MAX)
        self.config = config or TransferConfig()

    def hear(self, data: bytes) -> bool:
        """A state of the agent."""
        said = decode_said(data)
        if said is None:
            return False
        self._become(said.state)
        return True

    def _changed(self, before: State) -> None:
        found = self.state
        for now, then in ((found.fault, before.fault), (found.link_fault, before.link_fault)):
            if now and now != then:
                self._note(now)
