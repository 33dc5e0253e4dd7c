"""What happened in the tree, one change after the other, and how to read on where one stopped.

Intuition: a ship's log that is read aloud. A listener says which line was the last that he heard and is given those
after it. If meanwhile somebody else keeps the log, with other line numbers, the time of that line is the bookmark.
"""

from __future__ import annotations

import re

import msgspec
import trio

from subord.api.http.server import News, Query, Response, Send, failure
from subord.api.models.fields import ChangeDocument, ChangesDocument
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.state.view import Place, Position
from subord.runtime.state.history import Happening
from subord.wire.codec import UNREADABLE

CHANGES_MAX = 256  # in one answer
ASK_S_MAX = 0.8
POLL_S = 0.5
KEEP_ALIVE_S = 15.0
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOKEN = re.compile(r"[0-9a-z]{1,10}\.[0-9a-z]{1,10}\.[0-9a-z]{1,10}")  # fits a word of a question
PAUSE_S = 0.05  # between two portions of many
YOUNG_S = 60.0
"""Who reads a root's log notices within this time that another one keeps it."""


class Bookmark(msgspec.Struct, frozen=True):
    """The last line that was read: whose log, which number, and when it was written."""

    life: int  # the incarnation of who keeps the log
    number: int
    wall_ms: int

    @property
    def token(self) -> str:
        return ".".join(map(_text_of, (self.life, self.number, self.wall_ms)))

    @classmethod
    def of(cls, token: str) -> Bookmark | None:
        """None: no token of ours."""
        if not TOKEN.fullmatch(token):
            return None
        life, number, wall_ms = (int(part, 36) for part in token.split("."))
        return cls(life, number, wall_ms)


def own(shown: NodeApi, token: str | None = None) -> ChangesDocument:
    """Of our subtree; at the root that is the cluster. Without a token: the last ones."""
    attendance = shown.attendance
    attendance.look()
    log = attendance.register
    life, bookmark = shown.snapshot().incarnation, None if token is None else Bookmark.of(token)
    missed = False
    if bookmark is None:
        found = list(log.happenings)[-CHANGES_MAX:]
    elif bookmark.life == life:
        found = [each for each in log.happenings if each.number > bookmark.number]
        missed = bool(found) and found[0].number > bookmark.number + 1
    else:
        found, missed = _of_another_life(shown, bookmark)
    found = found[:CHANGES_MAX]
    last = found[-1].number if found else (bookmark.number if bookmark and bookmark.life == life else log.number)
    wall_ms = max([int(each.wall * 1000) for each in found] + [bookmark.wall_ms if bookmark else 0])
    return ChangesDocument(
        source=shown.address,
        token=Bookmark(life, last, wall_ms).token,
        missed=missed,
        changes=tuple(_change(shown, each) for each in found),
    )


def _of_another_life(shown: NodeApi, bookmark: Bookmark) -> tuple[list[Happening], bool]:
    """What happened after it, and whether some is surely missing.

    By time, for want of anything better. Clocks differ, so all that a young root has told since it became one is
    news, whatever its clock says; an old one that told something before the bookmark told it to others.
    """
    happenings, view = shown.attendance.register.happenings, shown.snapshot()
    first = happenings[0].number if happenings else 0
    reigns = [each.number for each in happenings if each.position == view.position and each.place is Place.ROOT]
    reign = reigns[-1] if reigns else first
    is_root, is_young = view.place is Place.ROOT, view.since_s < YOUNG_S
    found, missed = [], False
    for each in happenings:
        is_later, is_own = each.wall * 1000 > bookmark.wall_ms, is_root and each.number >= reign
        if is_later or (is_own and is_young):
            found.append(each)
        missed = missed or (is_own and not is_later and not is_young)
    has_forgotten = first > 1 and bool(found) and found[0].number == first
    return found, missed or has_forgotten


async def of_cluster(shown: NodeApi, token: str | None) -> ChangesDocument:
    """As the root saw them; if it does not answer, none, and a note. Without a token then: those below us."""
    root = shown.snapshot().root
    address = None if root is None else shown.settings.network.address_text_of(root)
    if address == shown.address:
        return own(shown, token)
    found = f"{shown.address} knows no root just now" if address is None else await _asked(shown, address, token)
    if isinstance(found, ChangesDocument):
        return found
    if token is None:
        return msgspec.structs.replace(own(shown), note=f"{found}: these are of the nodes below us")
    return ChangesDocument(source=shown.address, token=token, missed=False, changes=(), note=found)


async def changes(shown: NodeApi, query: Query) -> Response:
    """`/v1/changes`."""
    token = query.get("since")
    if token is not None and Bookmark.of(token) is None:
        return failure(400, "since must be the token of an earlier answer")
    return Response(msgspec.json.encode(await of_cluster(shown, token)))


async def events(shown: NodeApi, query: Query) -> Response | News:
    """`/v1/events`: the same as server-sent events (HTML, section 9.2)."""
    token = query.get("since")
    if token is not None and Bookmark.of(token) is None:
        return failure(400, "since must be the token of an earlier answer")

    async def tell(send: Send) -> None:
        await _tell(shown, token, send)

    return News(tell)


async def _tell(shown: NodeApi, token: str | None, send: Send) -> None:
    said_at, noted = trio.current_time(), None
    await send(b"retry: 1000\n\n")
    while True:
        document = await of_cluster(shown, token)
        pieces = [b"event: missed\ndata: {}\n\n"] if document.missed else []
        # What we say in the place of a root that does not answer is always the same, and has no end.
        told = () if document.note is not None and document.note == noted else document.changes
        if document.note != noted:
            noted = document.note
            pieces.append(b"event: note\ndata: " + msgspec.json.encode(noted) + b"\n\n")
        pieces += [b"event: change\ndata: " + msgspec.json.encode(each) + b"\n\n" for each in told]
        if document.note is None and document.token != token:
            token = document.token
            pieces.append(f"id: {token}\n\n".encode())  # for all that stands before it
        now = trio.current_time()
        if not pieces and now - said_at >= KEEP_ALIVE_S:
            pieces.append(b": still here\n\n")
        if pieces:
            said_at = now
            await send(b"".join(pieces))
        await trio.sleep(POLL_S if len(told) < CHANGES_MAX else PAUSE_S)


async def _asked(shown: NodeApi, address: str, token: str | None) -> ChangesDocument | str:
    with trio.move_on_after(ASK_S_MAX):
        question = Question("changes", () if token is None else (token,))
        answer = await shown.ask(address, question, ASK_S_MAX)
        if isinstance(answer, AskFailure):
            return f"{address} (root) {answer.reason}"
        try:
            return msgspec.json.decode(answer, type=ChangesDocument)
        except UNREADABLE:
            return f"{address} (root) answers something else: does it run this version?"
    return f"{address} (root) does not answer"


def _change(shown: NodeApi, each: Happening) -> ChangeDocument:
    def address(position: Position | None) -> str | None:
        return None if position is None else shown.settings.network.address_text_of(position)

    return ChangeDocument(
        number=each.number,
        wall=each.wall,
        kind=each.kind,
        address=shown.settings.network.address_text_of(each.position),
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
