"""The changes of the tree, and how a reader continues after the last change that it read.

Input: the history of this node or the answer of the root, and the reader's token. Output: at most `CHANGES_MAX`
changes, oldest first, and the token for the next question. A token names the log (by the incarnation of its node),
the number of a line and its time. If another node keeps the log now, the time decides where reading continues. A
reader never misses changes silently: `missed` says that some are surely missing.
"""

from __future__ import annotations

import re

import msgspec
import trio

from subord.api.http.server import EventStream, Query, Response, Send, failure
from subord.api.models.fields import ChangeDocument, ChangesDocument
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.view import Place, Position
from subord.runtime.state.history import Happening
from subord.wire.codec import UNREADABLE

CHANGES_MAX = 256  # in one answer
ASK_S_MAX = 0.8
POLL_S = 0.5
KEEP_ALIVE_S = 15.0
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOKEN = re.compile(r"[0-9a-z]{1,10}\.[0-9a-z]{1,10}\.[0-9a-z]{1,10}")  # fits a word of a question
PAUSE_S = 0.05  # between two portions of many
NEW_ROOT_S = 60.0
"""A root that is one for less than this gives a reader with another root's token all its notices."""


class Bookmark(msgspec.Struct, frozen=True):
    """The last change that was read: in which log, its number, and when it was written."""

    life: int  # the incarnation of the node that keeps the log
    number: int
    wall_ms: int

    @property
    def token(self) -> str:
        return ".".join(map(_text_of, (self.life, self.number, self.wall_ms)))

    @classmethod
    def of(cls, token: str) -> Bookmark | None:
        """None: not such a token."""
        if not TOKEN.fullmatch(token):
            return None
        life, number, wall_ms = (int(part, 36) for part in token.split("."))
        return cls(life, number, wall_ms)


def own(node: NodeApi, token: str | None = None) -> ChangesDocument:
    """The changes of this node's subtree; at the root these are all. Without a token: the last ones."""
    attendance = node.attendance
    attendance.look()
    log = attendance.register
    life, bookmark = node.snapshot().incarnation, None if token is None else Bookmark.of(token)
    missed = False
    if bookmark is None:
        found = list(log.happenings)[-CHANGES_MAX:]
    elif bookmark.life == life:
        found = [each for each in log.happenings if each.number > bookmark.number]
        missed = bool(found) and found[0].number > bookmark.number + 1
    else:
        found, missed = _of_another_log(node, bookmark)
    found = found[:CHANGES_MAX]
    last = found[-1].number if found else (bookmark.number if bookmark and bookmark.life == life else log.number)
    wall_ms = max([int(each.wall * 1000) for each in found] + [bookmark.wall_ms if bookmark else 0])
    return ChangesDocument(
        source=node.address,
        token=Bookmark(life, last, wall_ms).token,
        missed=missed,
        changes=tuple(_change(node, each) for each in found),
    )


def _of_another_log(node: NodeApi, bookmark: Bookmark) -> tuple[list[Happening], bool]:
    """The changes after a bookmark of another log, and whether some are surely missing.

    The only common measure is time, and clocks differ. All that a new root logged since it became root is therefore
    new to the reader. What an older root logged before the bookmark may have been missed.
    """
    happenings, view = node.attendance.register.happenings, node.snapshot()
    first = happenings[0].number if happenings else 0
    own_terms = [each.number for each in happenings if each.position == view.position and each.place is Place.ROOT]
    term_start = own_terms[-1] if own_terms else first
    is_root, is_new_root = view.place is Place.ROOT, view.since_s < NEW_ROOT_S
    found, missed = [], False
    for each in happenings:
        is_later, is_own = each.wall * 1000 > bookmark.wall_ms, is_root and each.number >= term_start
        if is_later or (is_own and is_new_root):
            found.append(each)
        missed = missed or (is_own and not is_later and not is_new_root)
    has_forgotten = first > 1 and bool(found) and found[0].number == first
    return found, missed or has_forgotten


async def of_cluster(node: NodeApi, token: str | None) -> ChangesDocument:
    """The changes as the root saw them. If it does not answer: none and a note; without a token, this subtree's."""
    root = node.snapshot().root
    address = None if root is None else node.settings.network.address_text_of(root)
    if address == node.address:
        return own(node, token)
    found = f"{node.address} knows no root just now" if address is None else await _asked(node, address, token)
    if isinstance(found, ChangesDocument):
        return found
    if token is None:
        return msgspec.structs.replace(own(node), note=f"{found}: these are of the branch of {node.address}")
    return ChangesDocument(source=node.address, token=token, missed=False, changes=(), note=found)


async def changes(node: NodeApi, query: Query) -> Response:
    """`/v1/changes`."""
    token = query.get("since")
    if token is not None and Bookmark.of(token) is None:
        return failure(400, "since must be the token of an earlier answer")
    return Response(msgspec.json.encode(await of_cluster(node, token)))


async def events(node: NodeApi, query: Query) -> Response | EventStream:
    """`/v1/events`: the same as server-sent events (HTML, section 9.2)."""
    token = query.get("since")
    if token is not None and Bookmark.of(token) is None:
        return failure(400, "since must be the token of an earlier answer")

    async def run(send: Send) -> None:
        await _stream(node, token, send)

    return EventStream(run)


async def _stream(node: NodeApi, token: str | None, send: Send) -> None:
    sent_at, noted = trio.current_time(), None
    await send(b"retry: 1000\n\n")
    while True:
        document = await of_cluster(node, token)
        pieces = [b"event: missed\ndata: {}\n\n"] if document.missed else []
        # The substitute for the answer of a silent root is sent once.
        new = () if document.note is not None and document.note == noted else document.changes
        if document.note != noted:
            noted = document.note
            pieces.append(b"event: note\ndata: " + msgspec.json.encode(noted) + b"\n\n")
        pieces += [b"event: change\ndata: " + msgspec.json.encode(each) + b"\n\n" for each in new]
        if document.note is None and document.token != token:
            token = document.token
            pieces.append(f"id: {token}\n\n".encode())  # covers all pieces before it
        now = trio.current_time()
        if not pieces and now - sent_at >= KEEP_ALIVE_S:
            pieces.append(b": still here\n\n")
        if pieces:
            sent_at = now
            await send(b"".join(pieces))
        await trio.sleep(POLL_S if len(new) < CHANGES_MAX else PAUSE_S)


async def _asked(node: NodeApi, address: str, token: str | None) -> ChangesDocument | str:
    with trio.move_on_after(ASK_S_MAX):
        question = Question("changes", () if token is None else (token,))
        answer = await node.ask(address, question, ASK_S_MAX)
        if isinstance(answer, AskFailure):
            return f"{address} (root) {answer.reason}"
        try:
            return msgspec.json.decode(answer, type=ChangesDocument)
        except UNREADABLE:
            return f"{address} (root) answers something else: does it run this version?"
    return f"{address} (root) does not answer"


def _change(node: NodeApi, each: Happening) -> ChangeDocument:
    def address(position: Position | None) -> str | None:
        return None if position is None else node.settings.network.address_text_of(position)

    return ChangeDocument(
        number=each.number,
        wall=each.wall,
        kind=each.kind,
        address=node.settings.network.address_text_of(each.position),
        leader=address(each.leader),
        old=address(each.old),
        place=None if each.place is None else each.place.value,
    )


def _text_of(number: int) -> str:
    """In base 36: a token must fit a word of a question."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text or "0"
