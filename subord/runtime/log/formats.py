"""Renders log records as text, JSON, or entries of systemd's journal. Pure.

A record may carry fields: `logger.info("now guest of %(leader)s", {"leader": leader})`. The message is formatted from
them, and JSON and the journal have each under its own name. `extra={"event": "place"}` names the event. The output is
always printable, whatever a field contains.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from subord.runtime.log import journal

Render = Callable[[logging.LogRecord, str], bytes]
"""(record, address of the node or "" before it is known) -> the bytes to write."""
FRAMES_MAX: Final = 8


def text(record: logging.LogRecord, _node: str) -> bytes:
    """For a terminal: local time, level, message."""
    at = datetime.fromtimestamp(record.created, UTC).astimezone()
    stamp = at.isoformat(sep=" ", timespec="milliseconds")[:23]
    return f"{stamp} {record.levelname:<7} {message_of(record)}\n".encode()


def as_json(record: logging.LogRecord, node: str) -> bytes:
    """One ASCII object on one line: `time` (RFC 3339, UTC), `level`, `node`, `event`, `message`, which are always
    present, and the fields of the event."""
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    head = {
        "time": at.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "node": node or None,
        "event": event_of(record),
        "message": message_of(record),
    }
    return json.dumps(head | fields_of(record) | head, default=str).encode() + b"\n"


def prioritised(render: Render) -> Render:
    """`render` with the priority in front, for a journal that reads standard error (sd-daemon(3))."""
    return lambda record, node: b"<%d>" % journal.priority(record.levelno) + render(record, node)


def bare(record: logging.LogRecord, _node: str) -> bytes:
    """The message alone, for readers that add the time."""
    return f"{message_of(record)}\n".encode()


def for_journal(record: logging.LogRecord, node: str) -> bytes:
    """An entry in the journal's native protocol."""
    fields = {"node": node or None, "event": event_of(record), **fields_of(record)}
    rendered = {name: value if value is None else printable(str(value)) for name, value in fields.items()}
    return journal.entry(record.levelno, message_of(record), rendered)


def message_of(record: logging.LogRecord) -> str:
    """The message on one line, without control characters, with the error that was raised, and the remark of
    `Dedup`."""
    remark = getattr(record, "remark", None)
    return printable(record.getMessage() + raised(record)) + (f" ({remark})" if remark else "")


def raised(record: logging.LogRecord) -> str:
    """Of a line of `logger.exception`: the error, and where it came from, the innermost place first; "": there was
    none. Of several errors the first."""
    error = record.exc_info[1] if record.exc_info else None
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_MAX:]
    places = [f"{os.path.basename(each.filename)}:{each.lineno} {each.name}" for each in reversed(frames)]
    words = f": {error}" if str(error) else ""
    return f": {type(error).__name__}{words} ({', '.join(places) or 'no place is known'})"


def event_of(record: logging.LogRecord) -> str | None:
    return getattr(record, "event", None)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = dict(record.args) if isinstance(record.args, Mapping) else {}
    repeated = getattr(record, "repeated", None)
    return fields if repeated is None else {**fields, "repeated": repeated}


def printable(raw: str) -> str:
    """`raw` with escapes such as `\\n` for characters that do not print."""
    if raw.isprintable():
        return raw
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in raw)
