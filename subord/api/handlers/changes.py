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

from subord.api.http.server import EventStream, Query, Response, Send, document, failure
from subord.api.models import nodes
from subord.api.models.members import ChangeDocument, ChangesDocument
from subord.api.node_api import NodeApi
from subord.api.query.peer import ask_root
from subord.core.members.history import TreeChange
from subord.core.view import Place

CHANGES_MAX = 256  # in one answer
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
    tracker = node.tracker
    tracker.look()
    log = tracker.history
    life, bookmark = node.snapshot().incarnation, None if token is None else Bookmark.of(token)
    missed = False
    if bookmark is None:
        found = list(log.changes)[-CHANGES_MAX:]
    elif bookmark.life == life:
        found = [each for each in log.changes if each.number > bookmark.number]
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


def _of_another_log(node: NodeApi, bookmark: Bookmark) -> tuple[list[TreeChange], bool]:
    """The changes after a bookmark of another log, and whether some are surely missing.

    The only common measure is time, and clocks differ. All that a new root logged since it became root is therefore
    new to the reader. What an older root logged before the bookmark may have been missed.
    """
    changes, view = node.tracker.history.changes, node.snapshot()
    first = changes[0].number if changes else 0
    own_terms = [each.number for each in changes if each.position == view.position and each.place is Place.ROOT]
    term_start = own_terms[-1] if own_terms else first
    is_root, is_new_root = view.place is Place.ROOT, view.since_s < NEW_ROOT_S
    found, missed = [], False
    for each in changes:
        is_later, is_own = each.wall * 1000 > bookmark.wall_ms, is_root and each.number >= term_start
        if is_later or (is_own and is_new_root):
            found.append(each)
        missed = missed or (is_own and not is_later and not is_new_root)
    has_forgotten = first > 1 and bool(found) and found[0].number == first
    return found, missed or has_forgotten


async def of_cluster(node: NodeApi, token: str | None) -> ChangesDocument:
    """The changes as the root saw them. If it does not answer: none and a note; without a token, this subtree's."""
    found = await ask_root(node, "changes", ChangesDocument, words=() if token is None else (token,))
    if found is None:
        return own(node, token)
    if isinstance(found, ChangesDocument):
        return found
    if token is None:
        return msgspec.structs.replace(own(node), note=f"{found.reason}: these are of the branch of {node.address}")
    return ChangesDocument(source=node.address, token=token, missed=False, changes=(), note=found.reason)


async def changes(node: NodeApi, query: Query) -> Response:
    """`/v1/changes`."""
    return _malformed(query) or document(await of_cluster(node, query.get("since")))


async def events(node: NodeApi, query: Query) -> Response | EventStream:
    """`/v1/events`: the same as server-sent events (HTML, section 9.2)."""
    if (refused := _malformed(query)) is not None:
        return refused
    token = query.get("since")

    async def run(send: Send) -> None:
        await _stream(node, token, send)

    return EventStream(run)


def _malformed(query: Query) -> Response | None:
    """The refusal of a token that no node has given."""
    token = query.get("since")
    if token is None or Bookmark.of(token) is not None:
        return None
    return failure(400, "since must be the token of an earlier answer")


async def _stream(node: NodeApi, token: str | None, send: Send) -> None:
    sent_at, noted = trio.current_time(), None
    await send(b"retry: 1000\n\n")
    while True:
        found = await of_cluster(node, token)
        pieces = [b"event: missed\ndata: {}\n\n"] if found.missed else []
        # The substitute for the answer of a silent root is sent once.
        new = () if found.note is not None and found.note == noted else found.changes
        if found.note != noted:
            noted = found.note
            pieces.append(b"event: note\ndata: " + msgspec.json.encode(noted) + b"\n\n")
        pieces += [b"event: change\ndata: " + msgspec.json.encode(each) + b"\n\n" for each in new]
        if found.note is None and found.token != token:
            token = found.token
            pieces.append(f"id: {token}\n\n".encode())  # covers all pieces before it
        now = trio.current_time()
        if not pieces and now - sent_at >= KEEP_ALIVE_S:
            pieces.append(b": still here\n\n")
        if pieces:
            sent_at = now
            await send(b"".join(pieces))
        await trio.sleep(POLL_S if len(new) < CHANGES_MAX else PAUSE_S)


def _change(node: NodeApi, each: TreeChange) -> ChangeDocument:
    return ChangeDocument(
        number=each.number,
        wall=each.wall,
        kind=each.kind,
        address=node.settings.network.address_text_of(each.position),
        leader=nodes.address(node.settings, each.leader),
        old=nodes.address(node.settings, each.old),
        place=each.place,
    )


def _text_of(number: int) -> str:
    """In base 36: a token must fit a word of a question."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text or "0"
