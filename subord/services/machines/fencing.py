"""When a deciding process may decide, so that two of them never start machines for the same job.

Each question and order carries a fence (orders.py). A server that has answered a question obeys no older fence any
more, and its answer has everything that it has accepted before. A process that replaces another one waits until the
other can have no answer that counts and no order or command that is still obeyed. Invariants: a process that has
heard of a higher fence decides nothing again; one that no server answers decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from subord.services.machines.orders import Fence
from subord.services.machines.plan import Waits


class Process(NamedTuple):
    """A deciding process. `began`, `awake_at`, `asked_at`: when it started, last looked at its clock, and last asked
    all servers. `is_alone`: the process before it was on the same node, and has ended. `has_slept`: it has begun
    anew, as it was paused."""

    fence: Fence
    began: float
    awake_at: float
    asked_at: float
    is_alone: bool = False
    has_slept: bool = False


class Answer(NamedTuple):
    """The last one of a server: when it was asked, and which fence it obeys."""

    asked_at: float
    fence: Fence


def awake(process: Process, now: float, waits: Waits) -> Process:
    """A process that has slept, as with a machine that was paused, starts again: its picture is old, and another one
    may have replaced it."""
    if now - process.awake_at > waits.answer_s:
        return process._replace(began=now, awake_at=now, is_alone=False, has_slept=True)
    return process._replace(awake_at=now)


def hold_s(process: Process, waits: Waits) -> int:
    """How long a process only asks: until orders of an earlier one have expired, and each answer that still counts
    is from later than that. An earlier one that may still run also has answers, which have to be too old first."""
    hold = waits.order_s + waits.answer_s
    return hold if process.is_alone else hold + waits.answer_s


def hindrance(process: Process, answers: Mapping[str, Answer], now: float, waits: Waits) -> str:
    """Why nothing is decided now; ""."""
    for name, answer in answers.items():
        if answer.fence > process.fence:
            return (
                f"the server {name} obeys life {answer.fence.life} of plan {answer.fence.version}, which is newer "
                "than this one: another process decides; nothing is done here: if there is none, publish the plan "
                "again"
            )
    if (left_s := hold_s(process, waits) - (now - process.began)) > 0:
        return f"{_beginning(process)}; servers are only asked, and the first decision is in {left_s:.0f} s"
    if now - process.asked_at > waits.order_s:
        return (
            f"servers were last asked {now - process.asked_at:.0f} s ago, and order_s is {waits.order_s}: they are "
            "asked first; if this does not end, the batch system or a server answers slowly: raise order_s in the "
            "plan"
        )
    if not any(is_fresh(answer, now, waits) for answer in answers.values()):
        return f"no server has answered for {waits.answer_s} s"
    return ""


def _beginning(process: Process) -> str:
    """Why it does not decide at once."""
    if process.has_slept:
        return "the process that decides was paused, and another one may have taken its place"
    if process.is_alone:
        return "the agent of this node has just started, and orders of the process before may still be carried out"
    return f"version {process.fence.version} of the plan is new here, and a node may still decide by an older one"


def is_fresh(answer: Answer, now: float, waits: Waits) -> bool:
    """Whether the server counts as reachable."""
    return now - answer.asked_at <= waits.answer_s
