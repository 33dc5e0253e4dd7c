"""The events of the cluster, and how a reader continues after the last one that it read.

Input: the journal of this node, which all nodes hold alike, and the reader's token; no other node is asked. Output:
events, oldest first, and the token for the next question. A token names the life of the asked node, the number of
events that had come to it, and a time. If another life answers now, the time decides where reading continues, and the
events of the last OVERLAP_S before it come again. A reader never misses events silently: `missed` says that some are
surely missing.
"""

from __future__ import annotations

import re

import msgspec
import trio

from subord.api.http.server import EventStream, Query, Response, Send, document, failure
from subord.api.models import nodes
from subord.api.models.members import ChangeDocument, ChangesDocument
from subord.api.node_api import NodeApi
from subord.core.members.journal import EVENTS_MAX, Event

CHANGES_MAX = 256  # in one answer, unless more are asked for
OVERLAP_S = 60.0
"""An event may come to one node that much later than to another."""
POLL_S = 0.5
KEEP_ALIVE_S = 15.0
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOKEN = re.compile(r"[0-9a-z]{1,10}\.[0-9a-z]{1,10}\.[0-9a-z]{1,10}")  # fits a word of a question
PAUSE_S = 0.05  # between two portions of many


class Bookmark(msgspec.Struct, frozen=True):
    """What was read: in which life of which node, how many events had come to it, and the time of the last one."""

    life: int  # the incarnation of the asked node
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


def own(node: NodeApi, token: str | None = None, last: int = CHANGES_MAX) -> ChangesDocument:
    """The events that this node holds. Without a token: the `last` ones."""
    tracker = node.tracker
    tracker.look()
    journal = tracker.membership.journal
    life, bookmark = node.snapshot().incarnation, None if token is None else Bookmark.of(token)
    arrived, missed = journal.arrived, False
    if bookmark is None:
        found = journal.events()[-last:]
    elif bookmark.life == life:
        new = max(0, journal.arrived - bookmark.number)
        missed = new > len(journal.arrivals)
        new = min(new, len(journal.arrivals))
        items = list(journal.arrivals)[len(journal.arrivals) - new :][:CHANGES_MAX]
        arrived -= new - len(items)
        shown = set(journal.events()) if items else set()
        found = [event for each in items if (event := Event.of(each)) in shown and event is not None]
    else:
        begin_ms = bookmark.wall_ms - int(1000 * OVERLAP_S)
        found = [each for each in journal.events() if each.wall_ms > begin_ms]
        missed = bool(journal.dropped) and len(found) == len(journal.events())
    read_ms = max((each.wall_ms for each in found), default=0)
    wall_ms = max(min(read_ms, tracker.wall_ms), 0 if bookmark is None else bookmark.wall_ms)
    return ChangesDocument(
        source=node.address,
        token=Bookmark(life, arrived, wall_ms).token,
        missed=missed,
        changes=tuple(_change(node, each) for each in found),
        note=None if node.snapshot().root is not None else f"{node.address} knows no root just now",
    )


def of_peer(node: NodeApi, token: str | None) -> ChangesDocument:
    """For a daemon of an older release, which takes CHANGES_MAX events and asks the root."""
    found = own(node, token)
    excess = len(found.changes) - CHANGES_MAX
    return msgspec.structs.replace(found, changes=found.changes[-CHANGES_MAX:], missed=found.missed or excess > 0)


async def changes(node: NodeApi, query: Query) -> Response:
    """`/v1/changes`."""
    if (refused := _malformed(query)) is not None:
        return refused
    last = query.get("last", str(CHANGES_MAX))
    if not (last.isascii() and last.isdigit() and len(last) <= 5 and 1 <= int(last) <= EVENTS_MAX):
        return failure(400, f"last must be a number from 1 to {EVENTS_MAX}")
    return document(own(node, query.get("since"), int(last)))


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
        found = own(node, token)
        pieces = [b"event: missed\ndata: {}\n\n"] if found.missed else []
        new = found.changes
        if found.note != noted:
            noted = found.note
            pieces.append(b"event: note\ndata: " + msgspec.json.encode(noted) + b"\n\n")
        pieces += [b"event: change\ndata: " + msgspec.json.encode(each) + b"\n\n" for each in new]
        if found.token != token:
            token = found.token
            pieces.append(f"id: {token}\n\n".encode())  # covers all pieces before it
        now = trio.current_time()
        if not pieces and now - sent_at >= KEEP_ALIVE_S:
            pieces.append(b": still here\n\n")
        if pieces:
            sent_at = now
            await send(b"".join(pieces))
        await trio.sleep(POLL_S if len(new) < CHANGES_MAX else PAUSE_S)


def _change(node: NodeApi, each: Event) -> ChangeDocument:
    return ChangeDocument(
        number=each.number,
        wall=each.wall_ms / 1000,
        kind=each.kind,
        address=node.settings.network.address_text_of(each.position),
        leader=nodes.address(node.settings, each.leader or None),
        old=nodes.address(node.settings, each.old or None),
        place=each.place,
        reason=each.reason or None,
        by=each.by or None,
    )


def _text_of(number: int) -> str:
    """In base 36: a token must fit a word of a question."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text or "0"
