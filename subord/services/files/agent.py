"""Writes the files of a push on this node, once, as the operator has signed.

Input is a payload (task.py) and the context of the order; output is a result (outcome.py). The daemon of this node
gets the content from others; this process checks it, and writes it. A push goes on whether the command that gave it
waits or not. All work is in a thread, which ends early when the time of the order is over, but never while files
become visible.
"""

from __future__ import annotations

import logging
import os
from typing import Final

import trio

from subord.services.acting import Context
from subord.services.exec.account import Account, account_of, environment
from subord.services.exec.task import Run
from subord.services.files import delivery, outcome
from subord.services.files.content import Content
from subord.services.files.outcome import FilesError, Pushed, refused
from subord.services.files.plan import tag_at
from subord.services.files.records import Records
from subord.services.files.staging import Owner
from subord.services.files.stream import Stream
from subord.services.files.task import Push, decode

logger = logging.getLogger("subord")
LEASED: Final = False
PUSHES_MAX: Final = 8
"""At once; each takes one of the requests that the control socket of the daemon answers at once. More wait."""
_limiter: Final = trio.CapacityLimiter(PUSHES_MAX)
recover = delivery.recover
"""Called when the agent starts, if an earlier one has left something."""


async def act(payload: bytes, context: Context) -> bytes:
    """The result of this node."""
    task, account = decode(payload), account_of(context.user)
    if task is None:
        return outcome.encode(refused(outcome.OTHER_RELEASE))
    if account is None:
        return outcome.encode(refused(outcome.NO_USER, context.user))
    if account.uid != os.geteuid():
        return outcome.encode(refused(outcome.NOT_ROOT, context.user))
    found = await trio.to_thread.run_sync(_pushed, task, account, context, limiter=_limiter)
    fields = {"principal": context.principal, "tag": context.tag.hex(), "how": found.how, "detail": found.detail}
    logger.info("push of %(principal)s ended, %(how)s (tag %(tag)s) %(detail)s", fields)
    return outcome.encode(found)


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
