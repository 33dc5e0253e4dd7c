"""Connects the shares of this node with the document of the operator, and with the agent that sets the weights.

Inputs are documents, actions of the part (core/carriage/shares), and what the agent says; outputs are events for the
part, frames for the agent, and the state of this node. The agent is handed a document that counts over a connection,
which lasts as long as the document does; one that breaks is opened again. Invariants: one question is open at the
agent at a time; a node that cannot measure or set says so, and has no part in what is divided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final, NoReturn

import trio

from subord.core.carriage.documents import SHARES, Document
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.shares import plan as plans
from subord.core.carriage.shares.bodies import thousandths
from subord.core.carriage.shares.interface import Arithmetic, Measure, Measured, Obey, Overview, Planned
from subord.core.carriage.shares.plan import Plan
from subord.core.carriage.shares.shares import Shares
from subord.core.pacing.backoff import Backoff
from subord.core.roster_tree import RosterTree
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, frame
from subord.runtime.orders.agent import DONE_BYTES_MAX, Agent, Done, decode_done
from subord.runtime.shares import state
from subord.runtime.shares.state import State
from subord.runtime.shares.talk import Ask, Give, Said, decode_said, encode_talk
from subord.runtime.state.tracker import Tracker

logger = logging.getLogger("subord")
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 30.0
OFF_RETRY_S_MAX: Final = 600.0
"""While shares are off, an agent has only to put back what an earlier process of it may have left."""
STEADY_S: Final = 10.0
"""After a connection that has lasted so long, the next one comes soon."""
ANSWER_ROUNDS: Final = 3
ANSWER_S_MIN: Final = 5.0
"""For the answer of the agent, which waits for the kernel or for systemd."""
ROWS_APART_ROUNDS: Final = 0.25
ROWS_APART_S_MAX: Final = 1.0
"""An honest leader decides twice in a round at most; the agent may have to call systemd for each row."""
NO_ANSWER: Final = "the agent does not answer; restart subord-agent"
OFF_ALONE: Final = "there is no agent; what one has left is put back when it starts"
LATER_RELEASE: Final = "the document is of a later release"


class _Talk:
    """What is to be sent on the connection to the agent. `row` None: nothing to give."""

    def __init__(self, row: tuple[int, ...] | None) -> None:
        self.row = row
        self.is_asked = False
        """An Ask is to be sent."""
        self.asked_at: float | None = None
        """Since when an answer is awaited."""
        self.fault = ""
        """Of the last answer."""
        self.changed = trio.Event()
        self.changed.set()

    def tell(self) -> None:
        self.changed.set()


class SharesKeeper:
    """The shares of one daemon. `classes`: the names in [shares] of its configuration; without one it never needs its
    agent."""

    def __init__(
        self, arithmetic: Arithmetic, classes: Sequence[str], agent: Agent, tracker: Tracker, counters: Counters
    ) -> None:
        self.feed: Callable[[PartEvent], None]
        self.classes = tuple(classes)
        self.state = State(state.NONE)
        self._arithmetic = arithmetic
        self._agent = agent
        self._tracker = tracker
        self._counters = counters
        self._part: Shares
        self._document: Document | None = None
        self._scope = trio.CancelScope()
        """Of all that is done for the present document."""
        self._row: tuple[int, ...] | None = None
        self._talk: _Talk | None = None
        self._changed = trio.Event()
        self._nursery: trio.Nursery | None = None

    def part_of(self, tree: RosterTree) -> Shares:
        """The part of the engine."""
        self._part = Shares(tree, self._arithmetic)
        return self._part

    @property
    def actions(self) -> dict[Any, Callable[[Any], None]]:
        """What carries out the actions of the part."""
        return {Measure: self._measure, Obey: self._obey}

    def overview(self) -> Overview:
        """What the branch of this node reports, and what the node has decided."""
        return self._part.overview(trio.current_time())

    # -- documents ----------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Follow the document until cancelled."""
        self._tracker.on_documents.append(self._note)
        try:
            async with trio.open_nursery() as self._nursery:
                while True:
                    self._look(self._tracker.membership.documents.by_name.get(SHARES))
                    await self._changed.wait()
                    self._changed = trio.Event()
        finally:
            self._nursery = None
        raise AssertionError("unreachable")

    def _note(self, _: Iterable[Document]) -> None:
        self._changed.set()

    def _look(self, document: Document | None) -> None:
        """Begin with another document, and end what was done for the one before."""
        if document == self._document:
            return
        self._document = document
        self._scope.cancel()
        self._scope, self._talk = trio.CancelScope(), None
        plan = None if document is None else plans.read(document.order)
        if document is None or plan is None:
            self.state = State(state.NONE, LATER_RELEASE if document is not None else "")
        elif not self.classes:
            self.state = State(state.OFF if plan.is_off else state.NO_CLASSES)
        else:
            self.state = State(state.STARTING)
            assert self._nursery is not None
            self._nursery.start_soon(self._follow, document, plan, self._scope)
        self.feed(Planned(plan))

    # -- the agent ----------------------------------------------------------------------------------------

    async def _follow(self, document: Document, plan: Plan, scope: trio.CancelScope) -> None:
        """Have the agent follow a document until another one counts."""
        pause = Backoff(RETRY_S)
        with scope:
            while True:
                began = trio.current_time()
                done = await self._attended(document, plan)
                if plan.is_off and done is not None and not done.cause:
                    self._become(State(state.OFF))
                    return
                if trio.current_time() - began >= STEADY_S:
                    pause = Backoff(RETRY_S)
                await trio.sleep(pause.step(OFF_RETRY_S_MAX if plan.is_off else RETRY_S_MAX))

    async def _attended(self, document: Document, plan: Plan) -> Done | None:
        """How a connection to the agent has ended; None: there was none, or it broke."""
        stream = await self._agent.attend(document)
        if stream is None:
            await _demand_current()
            self._become(_without_agent(plan))
            return None
        done, talk = None, _Talk(self._row)
        try:
            async with stream, trio.open_nursery() as nursery:
                await _demand_current()
                self._talk = talk
                nursery.start_soon(self._send, stream, talk, min(plan.round_s * ROWS_APART_ROUNDS, ROWS_APART_S_MAX))
                done = await self._heard(stream, talk, plan)
                nursery.cancel_scope.cancel()
        finally:
            if self._talk is talk:
                self._talk = None
        await _demand_current()
        if done is None:
            self._become(_without_agent(plan))
        elif done.refused and done.cause:
            self._become(State(state.REFUSED, _detail(done)))
        elif done.cause:
            self._become(State(state.FAILED, talk.fault or _detail(done)))
        elif not plan.is_off:
            self._become(State(state.STARTING))
        self._cannot_measure(plan)
        return done

    async def _heard(self, stream: trio.SocketStream, talk: _Talk, plan: Plan) -> Done | None:
        frames = Frames(stream)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while (data := await frames.next(DONE_BYTES_MAX)) is not None:
                await _demand_current()
                said = decode_said(data)
                if said is None:
                    return decode_done(data)
                talk.asked_at, talk.fault = None, said.fault
                self._take(said, plan)
        return None

    @staticmethod
    async def _send(stream: trio.SocketStream, talk: _Talk, apart_s: float) -> None:
        """What has gathered; a question before the row that ends the time that it is about. Rows are `apart_s` from
        each other."""
        row_at = -inf
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                with trio.move_on_at(inf if talk.row is None else row_at):
                    await talk.changed.wait()
                talk.changed = trio.Event()
                data, now = b"", trio.current_time()
                if talk.is_asked:
                    talk.is_asked = False
                    data += frame(encode_talk(Ask()))
                if talk.row is not None and now >= row_at:
                    data += frame(encode_talk(Give(talk.row)))
                    talk.row, row_at = None, now + apart_s
                if data:
                    await stream.send_all(data)

    def _take(self, said: Said, plan: Plan) -> None:
        """What the agent has measured, or why it could not. What makes no sense has no part in what is divided."""
        branch, fault = said.branch, said.fault
        if branch is not None and (nonsense := self._arithmetic.fault_of(branch, len(plan.classes))):
            branch, fault = None, f"the agent {nonsense}"
        if fault:
            self._become(State(state.FAILED, fault, said.notes))
        elif branch is not None:
            self._become(State(state.OBEYS, notes=said.notes))
        if not plan.is_off:
            self.feed(Measured(plan, branch))

    def _become(self, found: State) -> None:
        """A new fault is a problem of this node (`subord errors`)."""
        if found[:2] != self.state[:2] and found.word in (state.FAILED, state.REFUSED):
            logger.error("shares: %s", found.detail)
            self._counters.problems.note("shares", found.detail)
        self.state = found

    # -- actions ------------------------------------------------------------------------------------------

    def _measure(self, action: Measure) -> None:
        talk, now = self._talk, trio.current_time()
        if talk is None:
            self._cannot_measure_later(action.plan)
        elif talk.asked_at is None:
            talk.is_asked, talk.asked_at = True, now
            talk.tell()
        elif now - talk.asked_at >= max(ANSWER_S_MIN, ANSWER_ROUNDS * action.plan.round_s):
            self._become(State(state.FAILED, NO_ANSWER))
            self._cannot_measure_later(action.plan)

    def _obey(self, action: Obey) -> None:
        self._row = None if action.plan is None else tuple(thousandths(action.row))
        if self._talk is not None and self._row is not None:
            self._talk.row = self._row
            self._talk.tell()

    def _cannot_measure(self, plan: Plan) -> None:
        if not plan.is_off:
            self.feed(Measured(plan, None))

    def _cannot_measure_later(self, plan: Plan) -> None:
        """Not at once: this is an action of an event that is still being handled; and not after the end of `run`,
        when streams that end still wake the engine."""
        if self._nursery is not None:
            self._nursery.start_soon(self._answer_none, plan)

    async def _answer_none(self, plan: Plan) -> None:
        await trio.lowlevel.checkpoint()
        self._cannot_measure(plan)


async def _demand_current() -> None:
    """The document still counts: it may have ended since what a task has waited for came. Raises Cancelled."""
    await trio.lowlevel.checkpoint_if_cancelled()


def _without_agent(plan: Plan) -> State:
    return State(state.OFF, OFF_ALONE) if plan.is_off else State(state.NO_AGENT)


def _detail(done: Done) -> str:
    return sentence(done.cause)[: state.DETAIL_CHARS_MAX]
