"""Carries out one order of the queue's node on an added node.

Inputs are the order, the plan that this node holds, and its configuration; output is a result, whose fault says what
is wrong. Invariants: nothing is raised for what fails; what comes from the order itself is a step and an address, and
never a word of a command that means something else. The caller has compared the version of the plan, and has one
order carried out after the other.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Final

import trio

from subord.config.schema import ElasticConfig
from subord.runtime.elastic.state import TEXT_CHARS_MAX
from subord.services.acting import Context
from subord.services.elastic.plan import Plan
from subord.services.elastic.preparing import checks, daemon, mounts, users
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.machine import REAL, Machine
from subord.services.elastic.task import Result, Step, Task

MARGIN_S: Final = 2.0
"""So that a result comes before the order expires."""


async def carry_out(
    task: Task, plan: Plan, config: ElasticConfig, context: Context, machine: Machine = REAL
) -> Result:
    """What the operator's plan and this node's configuration say for the step."""
    if task.step is Step.LOOK:
        return Result(slots=slots())
    with trio.move_on_after(max(1.0, context.left_s - MARGIN_S)):
        try:
            master = _master(task, plan, context)
            is_changed = await _work(task.step, master, plan, config, machine)
            return Result("", is_changed, slots())
        except PreparingError as error:
            return Result(str(error)[:TEXT_CHARS_MAX], slots=slots())
    return Result(
        f"the step {task.step} has not ended in the {context.left_s:.0f} s of its order, and was stopped on this "
        "node; what is done stays, and the order is given again",
        slots=slots(),
    )


def slots() -> int:
    """The processors that the agent, and so the batch daemon, may use."""
    return len(os.sched_getaffinity(0))


def _master(task: Task, plan: Plan, context: Context) -> str:
    """The address of the queue's node, whose orders count here. Raises PreparingError."""
    if plan.is_off or plan.is_trial:
        why = "is a trial" if plan.is_trial else "is off"
        raise PreparingError(f"the plan that this node has {why}, so it does nothing for {task.step}")
    try:
        master = str(ip_address(task.master))
        is_own = bool(context.node) and ip_address(context.node) == ip_address(master)
    except ValueError:
        raise PreparingError(f"the order names {task.master!r}, which is no address; nothing was changed") from None
    if is_own:
        raise PreparingError("this node has the queue itself, so it was not added; nothing was changed")
    if fault := next(checks.faults(plan.users, plan.mounts), ""):
        raise PreparingError(f"{fault}; nothing was changed: publish a plan without that")
    return master


async def _work(step: Step, master: str, plan: Plan, config: ElasticConfig, machine: Machine) -> bool:
    """Whether something was changed. Raises PreparingError."""
    match step:
        case Step.USERS:
            return await users.make(plan.users, plan.mounts, machine)
        case Step.MOUNTS:
            return await mounts.mount(plan.mounts, master, machine)
        case Step.DAEMON:
            return await daemon.start(config.batch_daemon, config.batch_environment, machine)
        case Step.LEAVE:
            return await _leave(master, plan, config, machine)
        case Step.LOOK:
            return False


async def _leave(master: str, plan: Plan, config: ElasticConfig, machine: Machine) -> bool:
    """First the daemon, which may have files open there. One that cannot be stopped is no reason to stay mounted.
    Raises PreparingError."""
    fault = ""
    try:
        is_changed = await daemon.stop(config.batch_daemon_stop, config.batch_environment, machine)
    except PreparingError as error:
        fault, is_changed = str(error), False
    try:
        is_changed |= await mounts.unmount(plan.mounts, master, machine)
    except PreparingError as error:
        fault = f"{fault}; {error}" if fault else str(error)
    if fault:
        raise PreparingError(fault)
    return is_changed
