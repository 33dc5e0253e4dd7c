"""Carries out orders of `subord files` on this node, and the documents of sets (sets/).

Input is a payload (task.py) and the context of the order, or a document; output is a result (results.py). The daemon
of this node gets the content from others; this process checks it, and writes it. A push goes on whether the command
that gave it waits or not. All work is in a thread, which ends early when the time of the order is over, but never
while files become visible.
"""

from __future__ import annotations

import logging
import os
from typing import Final

import trio

from subord.services.acting import Context, Handed
from subord.services.exec.account import Account, account_of, environment
from subord.services.exec.task import Run
from subord.services.files import delivery, outcome
from subord.services.files.content import Content
from subord.services.files.outcome import FilesError, Pushed, refused
from subord.services.files.plan import tag_at
from subord.services.files.records import Records
from subord.services.files.sets import agent as sets
from subord.services.files.sets import keeping
from subord.services.files.sets.record import Sets
from subord.services.files.sets.results import Result, encode
from subord.services.files.sets.words import Followed, encode_followed
from subord.services.files.staging import Owner
from subord.services.files.stream import Stream
from subord.services.files.task import Await, Collect, Compare, Look, Push, Task, decode
from subord.services.looking import LookError, looked_up

logger = logging.getLogger("subord")
LEASED: Final = False
PUSHES_MAX: Final = 8
"""At once; each takes one of the requests that the control socket of the daemon answers at once. More wait."""
_limiter: Final = trio.CapacityLimiter(PUSHES_MAX)


def recover(directory: str) -> None:
    """Called when the agent starts, if an earlier one has left something."""
    delivery.recover(directory)
    keeping.recover(Sets(directory))


async def act(payload: bytes, context: Context) -> bytes:
    """The result of this node."""
    task = decode(payload)
    if task is None:
        return encode(refused(outcome.OTHER_RELEASE))
    try:
        account = await looked_up(context.left_s, account_of, context.user)
    except LookError as error:
        return encode(refused(outcome.FAILED, str(error)))
    if account is None:
        return encode(refused(outcome.NO_USER, context.user))
    if account.uid != os.geteuid():
        return encode(refused(outcome.NOT_ROOT, context.user))
    return encode(await _result(task, account, context))


async def _result(task: Task, account: Account, context: Context) -> Result:
    match task:
        case Push():
            return await _push(task, account, context)
        case Look():
            return await sets.looked(task.sets, account, context)
        case Await():
            return await sets.awaited(task.set, task.wait_ms / 1000, context)
        case Compare():
            return await sets.compared(task.set, account, context)
        case Collect():
            return await sets.collected(context, takes_previous=task.takes_previous)


async def follow(handed: Handed, context: Context) -> bytes:
    """What came of the document of a set, as the daemon is told. Raises LookError: the daemon keeps what it holds for
    the set, and hands the document over again."""
    account = await looked_up(context.left_s, account_of, context.user)
    if account is None or account.uid != os.geteuid():
        return encode_followed(Followed(outcome.FAILED, outcome.NOT_ROOT))
    return await sets.follow(handed, account, context)


async def _push(task: Push, account: Account, context: Context) -> Pushed:
    found = await trio.to_thread.run_sync(_pushed, task, account, context, limiter=_limiter)
    fields = {"principal": context.principal, "tag": context.tag.hex(), "how": found.how, "detail": found.detail}
    logger.info("push of %(principal)s ended, %(how)s (tag %(tag)s) %(detail)s", fields)
    return found


def _pushed(task: Push, account: Account, context: Context) -> Pushed:
    pause = trio.from_thread.check_cancelled
    content = Content(context.socket, task.blob, task.source, context.tag.hex())
    own = Owner(account.uid, account.gid)
    shell = environment(account, Run((b"sh",)), context)
    push = delivery.Delivery(Records(context.directory), tag_at(context.tag, context.node), own, shell, pause)
    try:
        content.fetch(pause)
        return push.run(Stream(content.chunks(pause)), is_trial=task.is_trial)
    except FilesError as error:
        return refused(error.how, error.detail)
    finally:
        content.release()
