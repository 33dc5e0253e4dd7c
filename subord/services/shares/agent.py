"""Follows the document of shares on one node: measures its classes for the daemon, and sets their weights.

Inputs are the document, and what the daemon says as long as it counts (runtime/shares/talk.py); outputs are
measurements, weights, and at last a cause. One document is followed at a time; another one takes over without a
change between. Invariants: a weight is set only under a document that an operator has signed and the policy allows;
when shares are off, when the daemon is gone for GRACE_S, or the agent ends, each group has the weight from before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import trio

from subord.config.schema import SharesConfig
from subord.core.carriage.engine.causes import FAILED, MALFORMED, of_verdict
from subord.core.carriage.shares import plan as plans
from subord.core.carriage.shares.bodies import thousandths
from subord.core.carriage.shares.bounds import THOUSANDTHS
from subord.core.carriage.shares.plan import Plan
from subord.runtime.shares.state import DETAIL_CHARS_MAX, NOTES_MAX
from subord.runtime.shares.talk import Ask, Give, Said, decode_asked, encode_talk
from subord.services import newest
from subord.services.acting import Context, Handed, Talk
from subord.services.shares.actuators import putting_back
from subord.services.shares.actuators.actuator import Actuator, Load
from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.saved import FOLDER
from subord.services.shares.given import Given
from subord.services.shares.tickets import whole

logger = logging.getLogger("subord")
GRACE_S: Final = 30.0
"""A daemon that restarts, or finds a newer document, is back by then."""
PUT_BACK_S_MAX: Final = 8.0
"""At the end of the agent, which has 10 s."""
LATE: Final = "the weights from before are not put back in time; the next start of the agent tries again"
REPLAYED: Final = of_verdict("replayed")
_Result = TypeVar("_Result")


async def attend(handed: Handed, context: Context, talk: Talk) -> str:
    """Follow a document until another one takes over, or the daemon is gone; the cause why it was not followed."""
    plan = plans.read(handed.document.order)
    if plan is None:
        return MALFORMED
    node = _node(context)
    try:
        if not await node.run(newest.accepted, handed, context.directory, FOLDER):
            return REPLAYED
    except newest.NotKeptError as error:
        logger.error("shares: %s", error)
        await _tell(str(error), talk)
        return FAILED
    mine = node.take_over(plan)
    logger.info("shares: version %d of %s is followed", plan.version, handed.principal)
    if plan.is_off:
        if fault := await _put_back(node, mine):
            await _tell(fault, talk)
        return FAILED if fault else ""
    try:
        cause = await _converse(node, mine, talk)
        with trio.move_on_after(0 if cause else GRACE_S):
            await mine.is_over.wait()
        if not cause and not mine.is_over.is_set():
            logger.info("shares: no daemon for %g s: the weights from before are put back", GRACE_S)
    finally:
        if not mine.is_over.is_set():
            with trio.CancelScope(shield=True, deadline=trio.current_time() + PUT_BACK_S_MAX):
                await node.put_back(mine)
    return cause


async def _put_back(node: _Node, mine: _Followed) -> str:
    """Also when the agent is to end meanwhile. Why it is not done; "": it is."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + PUT_BACK_S_MAX):
        return await node.put_back(mine)
    return LATE


def recover(directory: str) -> None:
    """Put back what an earlier process has left. Blocks."""
    for note in putting_back.recover(directory):
        logger.info("shares: %s", note)


async def _tell(fault: str, talk: Talk) -> None:
    """The cause at the end is a word only."""
    await talk.send(encode_talk(Said(fault=fault[:DETAIL_CHARS_MAX])))


async def _converse(node: _Node, mine: _Followed, talk: Talk) -> str:
    """Until the daemon ends, or another document takes over."""
    cause = ""
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            await mine.is_over.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end)
        cause = await _obey(node, mine, talk)
        nursery.cancel_scope.cancel()
    return cause


async def _obey(node: _Node, mine: _Followed, talk: Talk) -> str:
    """Do what the daemon says until it ends."""
    classes = mine.plan.classes
    while (data := await talk.next()) is not None:
        asked = decode_asked(data)
        if isinstance(asked, Ask):
            await talk.send(encode_talk(await node.measured(mine)))
        elif isinstance(asked, Give) and len(asked.row) == len(classes) and sum(asked.row) == THOUSANDTHS:
            mine.tickets = dict(zip(classes, whole(asked.row), strict=True))
            await node.give(mine)
        else:
            return MALFORMED
    return ""


class _Followed:
    """A document from when it was handed over until another one is. `tickets` empty: no row has come."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.is_over = trio.Event()
        self.given = Given()
        self.tickets: dict[str, int] = {}
        self.fault = ""
        self.notes: tuple[str, ...] = ()

    def become(self, fault: str) -> None:
        if fault != self.fault:
            logger.error("shares: %s", fault)
        self.fault = fault

    def said(
        self, allocation: tuple[int, ...] = (), usage: tuple[int, ...] = (), needy: tuple[bool, ...] = ()
    ) -> Said:
        notes = tuple(each[:DETAIL_CHARS_MAX] for each in self.notes[:NOTES_MAX])
        return Said(allocation, usage, needy, self.fault[:DETAIL_CHARS_MAX], notes)


class _Node:
    """The classes of this node, for as long as the process lives."""

    def __init__(self, directory: str, config: SharesConfig) -> None:
        self._directory = directory
        self._config = config
        self._actuator: Actuator | None = None
        self._turn = trio.Lock()
        self._followed: _Followed | None = None

    def take_over(self, plan: Plan) -> _Followed:
        """Another document is followed from now on, until yet another one is."""
        if self._followed is not None:
            self._followed.is_over.set()
        self._followed = _Followed(plan)
        return self._followed

    async def run(self, work: Callable[..., _Result], *words: object) -> _Result:
        """In a thread; calls of the actuator do not overlap."""
        async with self._turn:
            return await trio.to_thread.run_sync(work, *words)

    async def give(self, mine: _Followed) -> None:
        """Set the weights for its tickets. What fails is told with the next measurement, and tried again then."""
        await self.run(self._apply, mine)

    async def measured(self, mine: _Followed) -> Said:
        """What each class was given and has used since the last call."""
        return await self.run(self._measured, mine)

    async def put_back(self, mine: _Followed) -> str:
        """Each group has its weight from before, or another document is followed now, which goes on from the weights
        as they are; or the reason why neither is so."""
        async with self._turn:
            return "" if mine.is_over.is_set() else await trio.to_thread.run_sync(self._put_back)

    # -- in a thread --------------------------------------------------------------------------------------

    def _acting(self) -> Actuator:
        """Raises ActuatorError."""
        if self._actuator is None:
            self._actuator = Actuator(self._config, self._directory)
            self._log(self._actuator.notes)
        return self._actuator

    def _apply(self, mine: _Followed) -> None:
        """New groups of the classes get their weights, too."""
        tickets = mine.tickets
        if not tickets:
            mine.fault = ""
            return
        try:
            mine.notes = self._acting().apply(tickets)
            mine.fault = ""
        except ActuatorError as error:
            mine.become(str(error))
            return
        total = sum(tickets.values())
        mine.given.set([100 * each / total for each in tickets.values()], _now())

    def _measured(self, mine: _Followed) -> Said:
        now = _now()
        try:
            reading = self._acting().read(now)
        except ActuatorError as error:
            mine.become(str(error))
            return mine.said()
        allocation = mine.given.taken(now)
        self._apply(mine)
        if mine.fault or reading is None or not allocation:
            return mine.said()
        none = Load(0.0, is_needy=False)
        loads = [reading.loads.get(name, none) for name in mine.plan.classes]
        mine.notes = (*mine.notes, *(each for each in reading.notes if each not in mine.notes))
        return mine.said(
            tuple(thousandths(allocation)),
            tuple(int(load.usage * 1000) for load in loads),
            tuple(load.is_needy for load in loads),
        )

    def _put_back(self) -> str:
        try:
            if self._actuator is not None:
                self._log(self._actuator.restore())
            else:
                self._log(putting_back.recover(self._directory))
        except ActuatorError as error:
            logger.error("shares: %s", error)
            return str(error)
        return ""

    @staticmethod
    def _log(notes: Iterable[str]) -> None:
        for each in notes:
            logger.info("shares: %s", each)


def _now() -> float:
    return trio.from_thread.run_sync(trio.current_time)


_nodes: dict[str, _Node] = {}
"""By the directory of the agent; a process has one."""


def _node(context: Context) -> _Node:
    return _nodes.setdefault(context.directory, _Node(context.directory, context.shares))
