"""How this node takes part with virtual machines: has its agent follow the plan, and keeps what the agent says.

Inputs are the document `machines/plan`, and states of the agent; outputs are the last State, and the last ServerState
of a node with `machines.uri`. Invariant: the agent of a server stays connected, also while the plan is ended, so that
its machines are known.
"""

from __future__ import annotations

from subord.core.carriage.documents import MACHINES, Document
from subord.runtime.counters import Counters
from subord.runtime.machines.state import ServerState, State
from subord.runtime.machines.talk import FRAME_BYTES_MAX, Said, decode_said
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.keeping import Keeper
from subord.runtime.state.tracker import Tracker


class MachinesKeeper(Keeper[State]):
    """Virtual machines at one daemon. `uri`, `batch`: of its configuration. `server`: what is on it; None: the agent
    has not told it."""

    SERVICE = "machines"
    FORM = State

    def __init__(self, agent: Agent, tracker: Tracker, counters: Counters, uri: str = "", batch: str = "") -> None:
        super().__init__(MACHINES, agent, tracker, counters, FRAME_BYTES_MAX)
        self.uri = uri
        self.batch = batch
        self.server: ServerState | None = None

    def begin(self, document: Document | None) -> None:
        """As Keeper. What is on the server stays known while there is a document."""
        if document is None:
            self.server = None
        super().begin(document)

    def hear(self, data: bytes) -> bool:
        """A state of the agent."""
        said = decode_said(data)
        if said is None:
            return False
        if isinstance(said, Said):
            self._become(said.state)
        else:
            self._hear_server(said.server)
        return True

    @property
    def _may_settle(self) -> bool:
        return not self.uri

    def _hear_server(self, found: ServerState) -> None:
        before, self.server = self.server, found
        if found.fault and (before is None or found.fault != before.fault):
            self._note(found.fault)
        known = set() if before is None else {(each.name, each.fault) for each in before.machines}
        for each in found.machines:
            if each.fault and (each.name, each.fault) not in known:
                self._note(f"{each.name}: {each.fault}")

    def _changed(self, before: State) -> None:
        if self.state.fault and self.state.fault != before.fault:
            self._note(self.state.fault)
