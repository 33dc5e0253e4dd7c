"""Follows the plan of machines on one node: decides for the queue, and obeys as a server. A node may do both.

Inputs are plans that operators have signed and the policy allows, the daemon's connection, orders of the queue's
node, and libvirt; outputs are states for the daemon, answers and results, and the work of a manager. Invariants: a
server obeys the node that the operator's plan names, by the plan that the server itself holds; with the plan off it
starts and stops nothing, and still tells what is there; a node has at most one manager, that of the newest plan.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import trio

from subord.core.carriage.documents import MACHINES
from subord.core.carriage.engine.causes import FAILED, MALFORMED, of_verdict
from subord.runtime.machines import state
from subord.runtime.machines.state import State
from subord.runtime.machines.talk import encode_said
from subord.services.acting import Context, Handed, Talk
from subord.services.machines.orders import Fence
from subord.services.machines.plan import Plan, PlanError, read
from subord.services.machines.power.interface import power_of
from subord.services.machines.serving.host import FOLDER, Host
from subord.services.machines.serving.telling import Telling, answer_of
from subord.services.machines.task import USER, Ask, Do, Drain, NoServer, Results, Said, decode_task, encode
from subord.services.newest import NotKeptError, accepted, held
from subord.services.role import Place, Role

logger = logging.getLogger("subord")
REPLAYED: Final = of_verdict("replayed")
OTHER_RELEASE: Final = (
    "the order is of another release of subord; nothing was changed: install the same release on all nodes"
)
NO_PLAN: Final = "this node has no plan of an operator that counts yet; nothing was changed, and it is asked again"
OLDER: Final = (
    "this node has version {held} of the plan, not {wanted}, yet; nothing was changed, and it is asked again"
)
OFF: Final = "version {held} of the plan has ended it; nothing was changed"
TRIAL: Final = "version {held} of the plan is a trial; nothing was changed"
OTHER_MASTER: Final = (
    "by the plan of the operator the node {master} does not have the queue; nothing was changed: publish a plan with "
    "the right manager"
)
NOT_ROOT: Final = (
    "a server is drained by an operator, as root; nothing was changed: sign the order with the key of one whose "
    "policy allows machines as root"
)
NOT_STEPS: Final = (
    "only the queue's node asks servers and gives them orders, as the user steps; nothing was changed: sign them "
    "with its machines.key"
)
ROOT: Final = "root"
NO_SERVER: Final = "machines.uri of this node is empty, so it is no server; nothing was changed"


# -- orders ---------------------------------------------------------------------------------------------------------


async def act(payload: bytes, context: Context) -> bytes:
    """Answer the queue's node, or obey it; or drain this server for an operator."""
    task = decode_task(payload)
    if task is None:
        return encode(Results(OTHER_RELEASE))
    host = _node_of(context).host_of(context)
    if isinstance(task, Drain):
        return encode(await _drained(task, host, context))
    if context.user != USER:
        return encode(Results(NOT_STEPS))
    return encode(NoServer()) if host is None else await _obeyed(task, host, context)


async def _obeyed(task: Ask | Do, host: Host, context: Context) -> bytes:
    found = await _plan_for(task, context)
    if isinstance(found, str):
        return encode(Results(found))
    plan, version = found
    host.follow(plan)
    if isinstance(task, Ask):
        view, fence = await host.ask(Fence(task.version, task.life))
        return answer_of(host, view, fence)
    if plan.is_off or plan.is_trial:
        return encode(Results((OFF if plan.is_off else TRIAL).format(held=version)))
    return encode(await host.do(task))


async def _drained(task: Drain, host: Host | None, context: Context) -> Said:
    if context.user != ROOT:
        return Results(NOT_ROOT)
    if host is None:
        return Results(NO_SERVER)
    return await host.drain(is_drained=task.is_drained)


async def _plan_for(task: Ask | Do, context: Context) -> tuple[Plan, int] | str:
    """The plan that this node holds, and its version; the text: why the order does not count."""
    try:
        found = await trio.to_thread.run_sync(held, context.directory, FOLDER, context.cluster, context.is_revoked)
    except NotKeptError as error:
        return str(error)[: state.TEXT_CHARS_MAX]
    plan = None if found is None else _plan_of(found.body)
    if found is None or plan is None:
        return NO_PLAN
    if found.version < task.version:
        return OLDER.format(held=found.version, wanted=task.version)
    is_master = context.network is not None and context.network.position_of(task.master) == plan.manager
    return (plan, found.version) if is_master or plan.is_off else OTHER_MASTER.format(master=task.master)


def _plan_of(body: bytes) -> Plan | None:
    """None: it is of a later release, or makes no sense."""
    try:
        return read(body)
    except PlanError:
        return None


# -- the plan -------------------------------------------------------------------------------------------------------


async def attend(handed: Handed, context: Context, talk: Talk) -> str:
    """Follow a plan until another one takes over, or the daemon is gone; the cause why it was not followed."""
    plan = _plan_of(handed.document.body)
    if handed.document.name != MACHINES or plan is None:
        return MALFORMED
    node, version = _node_of(context), handed.document.version
    async with node.turn:
        try:
            if not await trio.to_thread.run_sync(accepted, handed, context.directory, FOLDER):
                return REPLAYED
        except NotKeptError as error:
            logger.error("machines: %s", error)
            await talk.send(encode_said(State(word=state.FAILED, version=version, detail=str(error))))
            return FAILED
        host = node.host_of(context)
        if host is not None:
            host.follow(plan)
        manages = not plan.is_off and plan.manager == handed.position
        role, is_new = await node.role_in(handed, partial(_made, handed, plan, context) if manages else None)
    word = _word(plan, host, role)
    logger.info("machines: version %d of %s is followed: %s", version, handed.principal, state.SENTENCES[word])
    if role is None:
        await talk.send(encode_said(State(word=word, version=version)))
    if host is None:
        return "" if role is None else await (role.run(talk) if is_new else role.tell(talk))
    return await node.serve(host, talk, role, is_new=is_new)


def _word(plan: Plan, host: Host | None, role: Role | None) -> str:
    if plan.is_off:
        return state.OFF
    if role is not None:
        return state.MANAGES
    return state.OTHER_NODE if host is None else state.SERVES


def _made(handed: Handed, plan: Plan, context: Context) -> Role:
    from subord.services.machines.managing.role import Role

    return Role(handed, plan, context)


class _Node(Place):
    """This node, for as long as the process lives."""

    def __init__(self) -> None:
        super().__init__()
        self._host: Host | None = None
        self._telling: Telling | None = None

    def host_of(self, context: Context) -> Host | None:
        """Its part as a server; None: it is none."""
        if self._host is None and context.machines.uri:
            power = power_of(context.machines.uri, context.cluster[0], context.node)
            self._host = Host(context.node, context.machines, context.directory, power)
        return self._host

    async def serve(self, host: Host, talk: Talk, role: Role | None, *, is_new: bool) -> str:
        """Tell a daemon what is on this server, until it is gone, and have it hear what the queue's node decides, if
        this is it. What is under way on the server goes on without it. The cause why the plan is not followed: then
        the daemon hands it over again."""
        cause = ""
        self._telling = self._telling or Telling(host)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._telling.watch)
            nursery.start_soon(self._telling.tell, talk)
            if role is not None:
                cause = await (role.run(talk) if is_new else role.tell(talk))
            while not cause and await talk.next() is not None:
                pass
            nursery.cancel_scope.cancel()
        return cause


def _node_of(context: Context) -> _Node:
    return _nodes.setdefault(context.directory, _Node())


_nodes: dict[str, _Node] = {}
"""By the directory of the agent; a process has one."""
