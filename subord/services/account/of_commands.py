"""Writes a record of a command of `subord exec`, if the configuration of the agent says so.

Inputs are what ran, and how it ended; output is a record of the kind `command` at the daemon of this node. Invariant:
the command and its result neither wait for the record nor fail with it; one that is not accepted is logged.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Final, NamedTuple

from subord.client.daemon import change
from subord.client.errors import CommandError
from subord.client.text import printable
from subord.services.account.record import COMMAND, LABEL_CHARS_MAX, TEXT_CHARS_MAX, RecordError, body_of, of_texts

logger = logging.getLogger("subord")
WRITE_S_MAX: Final = 5.0


class Ran(NamedTuple):
    """A command. `words`: of it, for display. `status`, `signal`: one of them is None."""

    tag: str
    principal: str
    user: str
    node: str
    words: str
    started: float
    status: int | None
    signal: int | None


def write(socket: str, ran: Ran) -> threading.Thread:
    """Begin to write it, by a thread that ends by itself. `socket`: of the daemon."""
    thread = threading.Thread(target=_write, args=(socket, ran, time.time()))
    thread.start()
    return thread


def _write(socket: str, ran: Ran, ended: float) -> None:
    fields = {
        "id": ran.tag,
        "user": _text(ran.user),
        "account": _text(ran.principal),
        "host": _text(ran.node),
        "started": min(ran.started, ended),  # the clock may have gone back
        "ended": ended,
        "status": ran.status,
        "signal": ran.signal,
        "labels": {"command": _text(ran.words, LABEL_CHARS_MAX)},
    }
    try:
        body = body_of(of_texts(fields), ended)
        records = json.dumps([{"kind": COMMAND, "body": body.decode()}]).encode()
        change(socket, "/v1/records", WRITE_S_MAX, body=records)
    except (CommandError, RecordError) as error:
        words = "no record of the command with tag %(tag)s is written: %(reason)s"
        logger.error(words, {"tag": ran.tag, "reason": str(error)})


def _text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    return printable(text)[:chars_max]
