"""Runs the command of an order on this node, once, as the user that the operator has signed.

Input is a payload (task.py) and the context of the order; output is a result (outcome.py). The command gets a session
of its own. Invariant: when `act` ends before the command, because its time is over or the order is cancelled, no
process of the session is left (session.py).
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Final

import trio

from subord.client.text import printable
from subord.services.acting import Context
from subord.services.exec import commands, kept, outcome, session
from subord.services.exec.account import ROOT_DIRECTORY, Account, account_of, options
from subord.services.exec.kept import Sink
from subord.services.exec.outcome import Ended, Listing, Piece, Result
from subord.services.exec.reading import Output
from subord.services.exec.task import PIECE_BYTES_MAX, Fetch, List, Run, Stop, Task, decode
from subord.services.looking import LookError, limit_of, looked_up

logger = logging.getLogger("subord")

LEASED: Final = True
"""No command runs longer than the one that ordered it waits."""
DRAIN_S: Final = 0.5
"""For output of processes that the command has left in the background, after its end."""
WORDS_CHARS_LOGGED: Final = 200
STARTS_MAX: Final = 16
"""Processes that are started at once. Each start takes a thread, for as long as a file system with the program hangs,
so these are fewer than there are."""
_starts: Final = trio.CapacityLimiter(STARTS_MAX)


async def act(payload: bytes, context: Context) -> bytes:
    """The result of this node."""
    task = decode(payload)
    if task is None:
        return outcome.encode(Ended(outcome.OTHER_RELEASE))
    try:
        return outcome.encode(await _result(task, context))
    except LookError as error:
        return outcome.encode(Ended(outcome.NOT_STARTED, detail=str(error)))


async def _result(task: Task, context: Context) -> Result:
    """Raises LookError."""
    account, given = await looked_up(context.left_s, _look_for, task, context)
    if account is None:
        return Ended(outcome.NO_USER, detail=context.user)
    match task:
        case Fetch():
            return await _fetched(task, account, context)
        case Stop():
            how = outcome.EXITED if commands.stop(task.of, account) else outcome.NOT_RUNNING
            logger.info("exec of %s as %s ends tag %s: %s", context.principal, context.user, task.of.hex(), how)
            return Ended(how)
        case List():
            return Listing(commands.seen_by(account))
        case Run():
            return await _logged(task, account, given, context)


def _look_for(task: Task, context: Context) -> tuple[Account | None, dict[str, Any]]:
    """The user of an order, None: there is none; and what makes a command one of this user."""
    account = account_of(context.user)
    if account is None or not isinstance(task, Run):
        return account, {}
    return account, options(account, task, context)


async def _logged(task: Run, account: Account, given: dict[str, Any], context: Context) -> Ended:
    _log(task, context, "tries" if task.is_trial else "runs")
    how = "was ended before its time:"
    try:
        if task.is_trial:
            ended = await looked_up(context.left_s, _tried, task, given)
        else:
            ended = await _accounted(task, account, given, context)
        how = f"ended, {ended.how} ({ended.code}):"
    finally:
        _log(task, context, how)
    return ended


async def _accounted(task: Run, account: Account, given: dict[str, Any], context: Context) -> Ended:
    """Also a command that was cancelled gets its record."""
    began, ended = time.time(), None
    try:
        ended = await _run(task, account, given, context)
        return ended
    except LookError:
        ended = Ended(outcome.NOT_STARTED)
        raise
    finally:
        if context.accounts:
            _write_record(task, context, began, ended)


def _write_record(task: Run, context: Context, began: float, ended: Ended | None) -> None:
    """The record does not hold up the result. `ended` None: the command was ended before its time."""
    number = signal.SIGTERM if ended is None else ended.number if ended.how == outcome.KILLED else None
    status = None if ended is None or number is not None else ended.code
    tag, who = context.tag.hex(), (context.principal, context.user, context.node)
    try:
        from subord.services.account import of_commands

        of_commands.write(context.socket, of_commands.Ran(tag, *who, _words(task), began, status, number))
    except (ImportError, OSError, RuntimeError) as error:  # another release took the place of this one; no threads
        logger.error("no record of the command with tag %s is written: %s", tag, error)


async def _fetched(task: Fetch, account: Account, context: Context) -> Ended | Piece:
    path = kept.path_of(context.directory, task.of, account.uid, task.stream)
    found = await trio.to_thread.run_sync(kept.piece, path, task.offset, PIECE_BYTES_MAX)
    return Ended(outcome.NOT_KEPT) if found is None else Piece(*found)


def _log(task: Run, context: Context, what: str) -> None:
    """A line of the audit."""
    words = _words(task)
    if len(words) > WORDS_CHARS_LOGGED:
        words = f"{words[:WORDS_CHARS_LOGGED]}... ({len(words)} characters)"
    fields = {"principal": context.principal, "user": context.user, "tag": context.tag.hex(), "words": words}
    logger.info(f"exec of %(principal)s as %(user)s {what} %(words)s (tag %(tag)s)", fields)


def _words(task: Run) -> str:
    return printable(shlex.join(each.decode("utf-8", "replace") for each in task.words))


# -- the command ------------------------------------------------------------------------------------------------


async def _run(task: Run, account: Account, given: dict[str, Any], context: Context) -> Ended:
    waiting = trio.CancelScope()
    with commands.running(context, account, _words(task), waiting) as command:  # it may run before its start is known
        try:
            process = await _started(task, given, context)
        except OSError as error:
            return _not_started(error)
        first, second = (Sink(context.directory, context.tag, account.uid, stream) for stream in (1, 2))
        output = Output(first, second, task.output_bytes, keeps_all=task.keeps_all)
        try:
            is_over = await _ended(process, task, output, waiting)
            how, number = outcome.signal_of(process.returncode or 0)
            if not is_over:
                how, number = outcome.STOPPED if command.is_stopped else outcome.TIMED_OUT, 0
            return Ended(how, number, *output.parts(), is_kept=output.is_kept)
        finally:
            output.close()


async def _ended(process: trio.Process, task: Run, output: Output, waiting: trio.CancelScope) -> bool:
    """Serve the command until it ends; False: its time was over, or `waiting` was cancelled, and it was ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    is_over = is_stopped = False
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.read, process.stdout, 0)
            nursery.start_soon(output.read, process.stderr, 1)
            if process.stdin is not None:
                nursery.start_soon(_feed, process.stdin, task.stdin)
            waiting.deadline = trio.current_time() + task.time_ms / 1000
            with waiting:
                await process.wait()
                is_over = True
            if not is_over:
                is_stopped = True
                with trio.move_on_after(session.END_S_MAX, shield=True):
                    await _stopped(process)
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN_S
    finally:
        if not (is_over or is_stopped):
            with trio.move_on_after(session.END_S_MAX, shield=True):
                await _stopped(process)
    return is_over


async def _stopped(process: trio.Process) -> None:
    """End the session of a command. The caller shields it, so that a late cancellation leaves no process. The first
    process may end before the others, so its end says nothing of them."""
    await session.end(process.pid)
    await process.wait()


async def _feed(pipe: trio.abc.SendStream, data: bytes) -> None:
    """A command need not read its input."""
    async with pipe:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await pipe.send_all(data)


async def _started(task: Run, given: dict[str, Any], context: Context) -> trio.Process:
    """Raises OSError, LookError."""
    with trio.move_on_after(limit_of(context.left_s)) as waiting:
        await _starts.acquire()
    if waiting.cancelled_caught:
        logger.warning("a command is not started: %d of %d starts are under way", _starts.borrowed_tokens, STARTS_MAX)
        raise LookError("starts of commands do not end in time")
    try:
        return await _opened(task, given)
    finally:
        _starts.release()


async def _opened(task: Run, given: dict[str, Any]) -> trio.Process:
    """Raises OSError."""
    try:
        return await _open(task, given)
    except PermissionError as error:
        if task.directory or error.filename != given["cwd"] or given["cwd"] == ROOT_DIRECTORY:
            raise
    return await _open(task, {**given, "cwd": ROOT_DIRECTORY})


async def _open(task: Run, given: dict[str, Any]) -> trio.Process:
    return await trio.lowlevel.open_process(
        list(task.words),
        stdin=subprocess.PIPE if task.stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **given,
    )


def _not_started(error: OSError) -> Ended:
    """`subprocess` names the directory in errors from before the program was looked for."""
    detail = (error.strerror or str(error))[: outcome.DETAIL_CHARS_MAX]
    if not isinstance(error.filename, bytes):
        how = outcome.NOT_PERMITTED if error.errno == errno.EPERM else outcome.NO_DIRECTORY
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        how = outcome.NOT_FOUND
    elif error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR):
        how = outcome.NOT_EXECUTABLE
    else:
        how = outcome.NOT_STARTED
    return Ended(how, detail=detail)


def _tried(task: Run, given: dict[str, Any]) -> Ended:
    """Whether the command would be found, without running anything of it."""
    word, place = os.fsdecode(task.words[0]), given["cwd"]
    if "/" not in word and shutil.which(word, path=os.fsdecode(given["env"][b"PATH"])) is None:
        return Ended(outcome.NOT_FOUND)
    if not os.path.isdir(place):
        return Ended(outcome.NO_DIRECTORY, detail=place[: outcome.DETAIL_CHARS_MAX])
    return Ended(outcome.TRIAL)
