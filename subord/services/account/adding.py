"""`subord account add`: gives records of jobs to the daemon of this node.

Inputs are the options, or lines of JSON on standard input; output is how many records are on the disk of this node.
Invariants: all records are checked before the first is given, so a mistake in one keeps none; the daemon keeps all
records of a request or none, and a failure between two requests says which lines are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import count as count_up
from typing import BinaryIO, Final, NamedTuple

from subord.client import exit_codes
from subord.client.daemon import BrokenOffError, SilentError, change
from subord.client.errors import CommandError
from subord.client.options import socket_path
from subord.client.text import count
from subord.core.carriage.ledger.bounds import BATCH_RECORDS_MAX
from subord.services.account.record import FIELDS, JOB, Job, RecordError, body_of, is_late, of_line, of_texts

NOTHING: Final = "no record is kept"
REQUEST_BYTES_MAX: Final = 60_000
"""The daemon takes some more (api/http/server.py), and one record always fits."""
INPUT_BYTES_MAX: Final = 64 << 20
_KIBIBYTES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Line(NamedTuple):
    """A record as a request has it. `number`: of its line; 0: it is of the options."""

    number: int
    text: str
    is_late: bool


def run(arguments: argparse.Namespace) -> int:
    """Prints how many records are accepted. Raises CommandError."""
    now = time.time()
    arguments.label = [each for each in arguments.label if each]
    if arguments.stdin and (_options(arguments) or arguments.label):
        raise CommandError(f"give the options of one record or --stdin, not both; {NOTHING}", exit_codes.USAGE)
    found = list(_of_lines(sys.stdin.buffer, now)) if arguments.stdin else [_of_options(arguments, now)]
    _give(arguments, found)
    if not arguments.quiet:
        late = sum(each.is_late for each in found)
        more = f", {late} of them late: the job ended more than a day ago" if late else ""
        print(f"{count(len(found), 'record')} accepted{more}")
    return exit_codes.OK


# -- records ----------------------------------------------------------------------------------------------------


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options with a value: an empty one counts as absent, since batch systems do not set every variable."""
    return {name: text for name in FIELDS if (text := getattr(arguments, name, None))}


def _of_options(arguments: argparse.Namespace, now: float) -> Line:
    fields: dict[str, object] = {"ended": repr(now), **_options(arguments)}
    try:
        if "rss_bytes" in fields:
            fields["rss_bytes"] = _bytes(str(fields["rss_bytes"]))
        if arguments.label:
            fields["labels"] = _labels(arguments.label)
        return _line(0, of_texts(fields), now)
    except RecordError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None


def _of_lines(source: BinaryIO, now: float) -> Iterator[Line]:
    """Empty lines are passed over. The input may have no end, and no line feed."""
    left = INPUT_BYTES_MAX
    for number in count_up(1):
        line = source.readline(left + 1)
        left -= len(line)
        if not line:
            return
        if left < 0:
            words = f"more than {INPUT_BYTES_MAX >> 20} MiB at once: give the lines in parts; {NOTHING}"
            raise CommandError(words, exit_codes.USAGE)
        if not line.strip():
            continue
        try:
            yield _line(number, of_line(line), now)
        except RecordError as error:
            raise CommandError(f"line {number}: {error}; {NOTHING}", exit_codes.USAGE) from None


def _line(number: int, job: Job, now: float) -> Line:
    """Raises RecordError."""
    text = json.dumps({"kind": JOB, "body": body_of(job, now).decode()}, ensure_ascii=False, separators=(",", ":"))
    return Line(number, text, is_late(job, now))


def _bytes(text: str) -> str:
    """`2048`, `2K`, `2M`, `2G`."""
    factor = _KIBIBYTES.get(text[-1])
    if factor is None:
        return text
    if not (text[:-1].isascii() and text[:-1].isdigit() and len(text) < 16):
        raise RecordError(f"rss_bytes: {text!r} is no number of bytes such as 4096, 4K or 4M")
    return str(int(text[:-1]) * factor)


def _labels(texts: Iterable[str]) -> dict[str, str]:
    """Raises RecordError."""
    found = dict[str, str]()
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise RecordError(f"{text!r} is no label: give NAME=VALUE")
        if name in found:
            raise RecordError(f"the label {name!r} is given twice")
        found[name] = value
    return found


# -- requests ---------------------------------------------------------------------------------------------------


def _give(arguments: argparse.Namespace, found: list[Line]) -> None:
    path, kept = socket_path(arguments), 0
    for part in _parts(found):
        body = f"[{','.join(each.text for each in part)}]".encode()
        try:
            change(path, "/v1/records", arguments.timeout, body=body)
        except CommandError as error:
            raise CommandError(f"{error}{_how_far(found, kept, part, error)}", error.exit_code) from None
        kept += len(part)


def _parts(found: list[Line]) -> Iterator[list[Line]]:
    """The records of each request."""
    part, size = list[Line](), 0
    for each in found:
        cost = len(each.text.encode()) + 1
        if part and (size + cost > REQUEST_BYTES_MAX or len(part) == BATCH_RECORDS_MAX):
            yield part
            part, size = [], 0
        part.append(each)
        size += cost
    if part:
        yield part


def _how_far(found: list[Line], kept: int, part: list[Line], error: CommandError) -> str:
    """What the error leaves open. A daemon that has not answered may have kept the records of the request."""
    is_open = isinstance(error, SilentError | BrokenOffError)
    if part[0].number == 0:
        return "; whether the record is kept is not known" if is_open else ""
    before = f"lines 1 to {found[kept - 1].number} are kept" if kept else "no line before is kept"
    if not is_open:
        return f"; {before}, and none from line {part[0].number} on" if kept else ""
    lines = f"lines {part[0].number} to {part[-1].number}"
    return f"; {before}, of {lines} it is not known, and none after is kept"
