"""Follows the plan of elastic growth on one node: manages the cluster, or carries out steps of the node that does.

Inputs are plans that operators have signed and the policy allows, the daemon's connection, and orders of the queue's
node; outputs are states for the daemon, results, and the work of a Manager. The queue's node manages as long as the
plan counts and its daemon is connected, or was within GRACE_S: without its daemon it can reach no node. Then works
under way end, and records stay. Invariants: a node has at most one Manager, that of the newest plan; the same plan
handed over again, by a daemon that was away, goes on without a break; a step is carried out by the operator's plan,
for the node that this plan names; a node that manages no more leaves no node drained that could serve.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from subord.core.carriage.documents import ELASTIC
from subord.core.carriage.engine.causes import FAILED, MALFORMED, of_verdict
from subord.runtime.elastic import state
from subord.runtime.elastic.state import State
from subord.runtime.elastic.talk import encode_said
from subord.services.acting import Context, Handed, Talk
from subord.services.elastic.plan import Plan, decode_plan
from subord.services.elastic.task import USER, Result, Step, Task, decode_task, encode
from subord.services.newest import NotKeptError, accepted, held
from subord.services.role import Place

if TYPE_CHECKING:
    from subord.services.elastic.managing.role import Role

logger = logging.getLogger("subord")
FOLDER: Final = "elastic"
REPLAYED: Final = of_verdict("replayed")
OTHER_RELEASE: Final = (
    "the order is of another release of subord; nothing was changed: install the same release on all nodes"
)
NOT_STEPS: Final = (
    "only the queue's node orders steps, as the user steps; nothing was changed: sign them with its elastic.key"
)
NO_PLAN: Final = "this node has no plan of an operator that counts yet; nothing was changed, and it is asked again"
OLDER: Final = (
    "this node has version {held} of the plan, not {wanted}, yet; nothing was changed, and it is asked again"
)
OFF: Final = "elastic growth is off by version {held} of the plan; nothing was changed"
OTHER_MASTER: Final = (
    "by the plan of the operator the node {master} does not have the queue; nothing was changed: publish a plan with "
    "the right manager"
)
_turns: dict[str, trio.Lock] = {}
"""By the directory of the agent; steps of one node do not overlap."""


# -- orders ---------------------------------------------------------------------------------------------------------


async def act(payload: bytes, context: Context) -> bytes:
    """Carry out a step of the queue's node; the Result."""
    task = decode_task(payload)
    if task is None:
        return encode(Result(OTHER_RELEASE))
    if context.user != USER:
        return encode(Result(NOT_STEPS))
    if task.step == Step.LOOK:
        return encode(await _carried_out(task, context))
    async with _turns.setdefault(context.directory, trio.Lock()):
        return encode(await _carried_out(task, context))


async def _carried_out(task: Task, context: Context) -> Result:
    from subord.services.elastic.preparing.carrying import carry_out

    try:
        found = await trio.to_thread.run_sync(held, context.directory, FOLDER, context.cluster, context.is_revoked)
    except NotKeptError as error:
        return Result(str(error)[: state.TEXT_CHARS_MAX])
    plan = None if found is None else decode_plan(found.body)
    if found is None or plan is None:
        return Result(NO_PLAN)
    if found.version < task.version:
        return Result(OLDER.format(held=found.version, wanted=task.version))
    if fault := _unfit(task, plan, found.version, context):
        return Result(fault)
    return await carry_out(task, plan, context.elastic, context)


def _unfit(task: Task, plan: Plan, version: int, context: Context) -> str:
    """Why the plan does not allow the step; "": it does."""
    if plan.is_off:
        return "" if task.step == Step.LOOK else OFF.format(held=version)
    if context.network is None or context.network.position_of(task.master) != plan.manager:
        return OTHER_MASTER.format(master=task.master)
    return ""


# -- the plan -------------------------------------------------------------------------------------------------------


async def attend(handed: Handed, context: Context, talk: Talk) -> str:
    """Follow a plan until another one takes over, or the daemon is gone; the cause why it was not followed."""
    plan = decode_plan(handed.document.body)
    if handed.document.name != ELASTIC or plan is None:
        return MALFORMED
    node = _nodes.setdefault(context.directory, Place())
    version = handed.document.version
    async with node.turn:
        try:
            if not await trio.to_thread.run_sync(accepted, handed, context.directory, FOLDER):
                return REPLAYED
        except NotKeptError as error:
            logger.error("elastic: %s", error)
            await talk.send(encode_said(State(word=state.FAILED, version=version, detail=str(error))))
            return FAILED
        manages = not plan.is_off and plan.manager == handed.position
        role, is_new = await node.role_in(handed, partial(_made, handed, plan, context) if manages else None)
        detail = "" if role is not None else await _left_over(context, plan)
    if role is None:
        word = state.OFF if plan.is_off else state.OTHER_NODE
        logger.info("elastic: version %d of %s is followed: %s", version, handed.principal, state.SENTENCES[word])
        await talk.send(encode_said(State(word=word, version=version, detail=detail)))
        return ""
    if is_new:
        logger.info("elastic: version %d of %s is followed: this node manages", version, handed.principal)
        return await role.run(talk)
    return await role.tell(talk)


async def _left_over(context: Context, plan: Plan) -> str:
    """Of a node that does not manage, what it has added before; "": nothing."""
    from subord.services.elastic.records import FILE_NAME

    if not (Path(context.directory) / FOLDER / FILE_NAME).exists():
        return ""
    from subord.services.elastic.managing import role
    from subord.services.elastic.managing.leftover import left_over

    return await left_over(context, plan, role.make_clock())


def _made(handed: Handed, plan: Plan, context: Context) -> Role:
    from subord.services.elastic.managing.role import Role

    return Role(handed, plan, context)


_nodes: dict[str, Place] = {}
"""By the directory of the agent; a process has one."""
