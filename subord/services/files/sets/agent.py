"""The sets of a node, as its agent looks after them: follows documents that the daemon hands it, and answers orders.

Inputs are documents with the verdict on their signature, and tasks; outputs are states and results. One document of a
set is carried out at a time; a newer one ends the work on an older one. All work is in threads. Invariant: the files
of a set change only for a document that was accepted, and is not older than one before.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any, Final, NamedTuple

import msgspec
import trio

from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.published import SETS_MAX, Published, mark_of, read
from subord.services.acting import Context, Handed
from subord.services.control import ControlError, post
from subord.services.exec.account import Account, environment
from subord.services.exec.task import Run
from subord.services.files.content import ANSWER_BYTES_MAX, ASK_S_MAX, Content
from subord.services.files.outcome import FAILED, NO_CONTENT, FilesError, word_for
from subord.services.files.places import detail_of
from subord.services.files.plan import tag_at
from subord.services.files.sets import accepting, answering, words
from subord.services.files.sets.keeping import Keeping
from subord.services.files.sets.record import Failure, Record, Sets
from subord.services.files.sets.words import Collected, Followed, Looked, Seen, encode_followed
from subord.services.files.staging import Owner, Pause
from subord.services.files.stream import Stream
from subord.services.files.task import Wanted

logger = logging.getLogger("subord")

ASKS_MAX: Final = 3
"""Questions for a blob from one source, of 5 s each, before another source is named."""
ROUNDS_MAX: Final = 8
"""Sources that are named, some of them again, before an attempt has failed."""
LOOK_S: Final = 1.0
MARGIN_S: Final = 1.0
"""For the answer to come back."""
COMPARISONS_MAX: Final = 8
"""At once, and deletions for `gc`. More wait."""
_following: Final = trio.CapacityLimiter(SETS_MAX)
"""Each set has one thread at most (`_turns`), so one that hangs holds no other one up."""
_answering: Final = trio.CapacityLimiter(COMPARISONS_MAX)
_newest: dict[str, bytes] = {}
"""By set, the mark of the document that was handed over last."""
_turns: dict[str, trio.Lock] = defaultdict(trio.Lock)
_changed: list[trio.Event] = [trio.Event()]


class _OvertakenError(Exception):
    """A newer document of the set has come."""


# -- documents --------------------------------------------------------------------------------------------------


async def follow(handed: Handed, account: Account, context: Context) -> bytes:
    """What came of a document, as the daemon is told."""
    document, said = handed.document, read(handed.document.order)
    if said is None:
        return encode_followed(Followed(words.FAILED, words.REFUSED))
    name, mark = document.tag, mark_of(document.order)
    _newest[name] = mark
    work = _Work(Sets(context.directory), name, handed, said, account, context)
    async with _turns[name]:
        found = await trio.to_thread.run_sync(_followed, work, limiter=_following)
    _tell()
    return encode_followed(found)


def _tell() -> None:
    event, _changed[0] = _changed[0], trio.Event()
    event.set()


class _Work(NamedTuple):
    """A document at this node."""

    sets: Sets
    name: str
    handed: Handed
    said: Published
    account: Account
    context: Context

    @property
    def signer(self) -> tuple[str, str]:
        return self.handed.principal, self.handed.fingerprint

    def keeping(self, record: Record, **options: Any) -> Keeping:
        return Keeping(self.sets, self.name, record.tag, **options)


def _followed(work: _Work) -> Followed:
    sets, document, name = work.sets, work.handed.document, work.name
    try:
        return _outcome(work)
    except FilesError as error:
        return _failed(sets, name, Failure(mark_of(document.order), document.version, error.how, error.detail))
    except OSError as error:
        detail = detail_of(error, work.said.folder)
        return _failed(sets, name, Failure(mark_of(document.order), document.version, word_for(error), detail))
    except _OvertakenError:
        return Followed(words.STAGED)


def _outcome(work: _Work) -> Followed:
    """Raises FilesError, OSError, _OvertakenError."""
    handed, said, record = work.handed, work.said, work.sets.get(work.name)
    is_wanted = said.is_for(handed.position) and not said.is_withdrawn
    if record is None and not is_wanted:
        return Followed(words.RELEASED)
    if handed.cause:
        raise FilesError(words.REFUSED, sentence(handed.cause))
    if record is not None and accepting.is_older(handed.document, record, handed.is_revoked):
        return Followed(words.OVERTAKEN, holds=record.holds)
    if record is not None and not is_wanted:
        found = _released(work, record)
    else:
        found = _carried_out(work, _accepted(work, record))
    work.sets.fail(work.name, None)
    return Followed(words.RELEASED if found.is_released else words.CURRENT, holds=found.holds)


def _failed(sets: Sets, name: str, failure: Failure) -> Followed:
    failure = msgspec.structs.replace(failure, detail=failure.detail[: words.DETAIL_CHARS_MAX])
    logger.warning("version %d of the set %s: %s %s", failure.version, name, failure.cause, failure.detail)
    record = None
    try:
        sets.fail(name, failure)
        record = sets.get(name)
    except OSError as error:
        logger.error("the failure of the set %s is not kept: %s", name, error)
    return Followed(words.FAILED, failure.cause, () if record is None else record.holds)


def _released(work: _Work, record: Record) -> Record:
    """The files stay, and are not looked after any more. Raises FilesError, OSError."""
    mended = work.keeping(record, pause=trio.from_thread.check_cancelled).mended(record)
    found = accepting.released(work.handed.document, work.signer, mended)
    work.sets.put(work.name, found)
    for each in record.holds:
        Content(work.context.socket, each, 1, _holder(work.name)).release()
    logger.info("the set %s is released by %s: its files stay", work.name, work.handed.principal)
    return found


def _accepted(work: _Work, record: Record | None) -> Record:
    """Raises FilesError, OSError."""
    handed, sets = work.handed, work.sets
    others = {name: each for name, each in sets.all() if name != work.name}
    if record is not None:
        keeping = work.keeping(record, pause=trio.from_thread.check_cancelled)
        record = keeping.mended(record)
        if record.is_released and record.placed is not None and record.placed.to != work.said.to:
            keeping.remove_previous(record)
    tag = tag_at(b"set " + work.name.encode(), work.context.node)
    found = accepting.accepted(handed.document, work.said, work.signer, tag, record=record, others=others)
    if found != record:
        sets.put(work.name, found)
        words_of_log = "version %d of the set %s is accepted of %s"
        logger.info(words_of_log, handed.document.version, work.name, handed.principal)
    return found


def _carried_out(work: _Work, record: Record) -> Record:
    """Raises FilesError, OSError, _OvertakenError."""
    name, account, context = work.name, work.account, work.context

    def pause() -> None:
        trio.from_thread.check_cancelled()
        if _newest.get(name) != record.mark:
            raise _OvertakenError

    shell = environment(account, Run((b"sh",)), context._replace(principal=record.principal, tag=record.mark))
    shell |= {b"SUBORD_SET": name.encode(), b"SUBORD_VERSION": str(record.document.version).encode()}
    keeping = work.keeping(record, own=Owner(account.uid, account.gid), environment=shell, pause=pause)
    return keeping.carry_out(record, lambda: Stream(_content(work, pause).chunks(pause)))


def _content(work: _Work, pause: Pause) -> Content:
    """The blob, when the daemon has it: of the node that the document names, or of others that should have it too. It
    stays for a while after this, until the daemon keeps it by itself. Raises FilesError."""
    content_of = work.said.content
    sources = cycle(dict.fromkeys((content_of.source, *work.handed.sources)))
    for _ in range(ROUNDS_MAX):
        content = Content(work.context.socket, content_of.blob, next(sources), _holder(work.name))
        if content.fetch(pause, ASKS_MAX):
            return content
        content.release()
    raise FilesError(NO_CONTENT, "no node that was asked gives it")


def _holder(name: str) -> str:
    """Under this name the daemon keeps the blob for a while."""
    return f"set.{name}"


# -- orders -----------------------------------------------------------------------------------------------------


async def awaited(wanted: Wanted, wait_s: float, context: Context) -> Looked:
    """How a version is when it is in place or has failed, or when the time is over."""
    sets = Sets(context.directory)
    found = Seen(wanted.name, words.MISSING)
    with trio.move_on_after(max(0.0, min(wait_s, context.left_s - MARGIN_S))):
        while True:
            changed = _changed[0]
            found = await trio.to_thread.run_sync(answering.progress, sets, wanted)  # reads the agent's disk only
            if found.state not in (words.MISSING, words.STAGED):
                break
            with trio.move_on_after(LOOK_S):
                await changed.wait()
    return Looked((found,))


async def looked(wanted: Sequence[Wanted], account: Account, context: Context) -> Looked:
    """How sets are."""
    return Looked(tuple([(await compared(each, account, context)).seen for each in wanted]))


async def compared(wanted: Wanted, account: Account, context: Context) -> words.Differing:
    """Which paths of a set differ."""
    sets, own = Sets(context.directory), Owner(account.uid, account.gid)
    pause = trio.from_thread.check_cancelled
    return await trio.to_thread.run_sync(answering.compare, sets, wanted, own, pause, limiter=_answering)


async def collected(context: Context, *, takes_previous: bool) -> Collected:
    """What was deleted."""
    sets = Sets(context.directory)
    prune = partial(_pruned, context.socket)
    collect: Callable[[], Collected] = partial(answering.collect, sets, takes_previous=takes_previous, prune=prune)
    return await trio.to_thread.run_sync(collect, limiter=_answering)


def _pruned(socket: str) -> tuple[int, int]:
    try:
        found = post(socket, "/v1/blobs/prune", ASK_S_MAX, ANSWER_BYTES_MAX).document()
    except ControlError as error:
        raise FilesError(FAILED, str(error)) from None
    return int(found["chunks"]), int(found["bytes"])
