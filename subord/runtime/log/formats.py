"""One record of the log, as people, programs and the journal read it. Pure.

Intuition: the same piece of news for the newspaper, for the card index, and for the wire service.

A record may carry fields: `logger.info("now home of %(leader)s", {"leader": leader})`. They are what its words are
made of, and in JSON each stands under its own name. `extra={"event": "place"}` names the event.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from subord.runtime.log import journal

Render = Callable[[logging.LogRecord, str], bytes]
"""A record and the address of the node ("": not known yet) as it is written."""


def text(record: logging.LogRecord, _node: str) -> bytes:
    """For a terminal: the local time, the level, the words."""
    at = datetime.fromtimestamp(record.created, UTC).astimezone()
    stamp = at.isoformat(sep=" ", timespec="milliseconds")[:23]
    return f"{stamp} {record.levelname:<7} {words_of(record)}\n".encode()


def as_json(record: logging.LogRecord, node: str) -> bytes:
    """One object on one line, all in ASCII: `time` (RFC 3339, UTC), `level`, `node`, `event`, `message`, which are
    always there and mean the same in every line, and the fields of the event."""
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    head = {
        "time": at.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "node": node or None,
        "event": event_of(record),
        "message": words_of(record),
    }
    return json.dumps(head | fields_of(record) | head, default=str).encode() + b"\n"


def prioritised(render: Render) -> Render:
    """For a journal that reads standard error (sd-daemon(3))."""
    return lambda record, node: b"<%d>" % journal.priority(record.levelno) + render(record, node)


def bare(record: logging.LogRecord, _node: str) -> bytes:
    """The words alone: whoever reads this has a clock."""
    return f"{words_of(record)}\n".encode()


def for_journal(record: logging.LogRecord, node: str) -> bytes:
    """An entry of systemd's journal."""
    fields = {"node": node or None, "event": event_of(record), **fields_of(record)}
    shown = {name: value if value is None else printable(str(value)) for name, value in fields.items()}
    return journal.entry(record.levelno, words_of(record), shown)


def words_of(record: logging.LogRecord) -> str:
    """The message, on one line and without anything that could steer a terminal, whoever gave the words."""
    remark = getattr(record, "remark", None)
    return printable(record.getMessage()) + (f" ({remark})" if remark else "")


def event_of(record: logging.LogRecord) -> str | None:
    return getattr(record, "event", None)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = dict(record.args) if isinstance(record.args, Mapping) else {}
    repeated = getattr(record, "repeated", None)
    return fields if repeated is None else {**fields, "repeated": repeated}


def printable(words: str) -> str:
    """With `\\n` and its like in the place of what does not print."""
    if words.isprintable():
        return words
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in words)
