"""`subord account add`: gives records of jobs to the daemon of this node.

Inputs are the options, or lines of JSON on standard input; output is how many records are on the disk of this node.
Standard input is read twice, or a copy on the disk if that is not possible: first to check, then to give. Invariants:
all records are checked before the first is given, so a mistake in one keeps none; the daemon keeps all records of a
request or none, and a failure between two requests says which lines are kept; no more than one request and one line
are held in memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
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
LINE_BYTES_MAX: Final = 256 << 10
"""A record in escapes takes less than half of it."""
_KIBIBYTES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Line(NamedTuple):
    """A record as a request has it. `number`: of its line; 0: it is of the options."""

    number: int
    text: str
    is_late: bool


class Given(NamedTuple):
    """What the daemon has accepted. `last`: the number of the last line."""

    records: int = 0
    late: int = 0
    last: int = 0


class _LineError(Exception):
    """A line is wrong: `line 5: ...`."""


def run(arguments: argparse.Namespace) -> int:
    """Prints how many records are accepted. Raises CommandError."""
    now = time.time()
    arguments.label = [each for each in arguments.label if each]
    if arguments.stdin and (_options(arguments) or arguments.label):
        raise CommandError(f"give the options of one record or --stdin, not both; {NOTHING}", exit_codes.USAGE)
    if arguments.stdin:
        with _checked(now) as source:
            given = _give(arguments, _of_lines(source, now))
    else:
        given = _give(arguments, (_of_options(arguments, now),))
    if not arguments.quiet:
        more = f", {given.late} of them late: the job ended more than a day ago" if given.late else ""
        print(f"{count(given.records, 'record')} accepted{more}")
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


@contextmanager
def _checked(now: float) -> Iterator[BinaryIO]:
    """Standard input, to be read again, after all its lines have been checked. Raises CommandError."""
    source = sys.stdin.buffer
    if source.seekable():
        start = source.tell()
        _check(source, now, None)
        source.seek(start)
        yield source
        return
    from tempfile import TemporaryFile

    with ExitStack() as resources:
        with _copying():
            copy = resources.enter_context(TemporaryFile())
        _check(source, now, copy)
        with _copying():
            copy.seek(0)
        yield copy


@contextmanager
def _copying() -> Iterator[None]:
    """Makes a CommandError of what the copy raises."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        words = f"the input cannot be kept on the disk while it is checked ({why}): free space, or set TMPDIR"
        raise CommandError(f"{words}; {NOTHING}", exit_codes.TRY_AGAIN) from None


def _check(source: BinaryIO, now: float, copy: BinaryIO | None) -> None:
    """Raises CommandError."""
    try:
        for number, line in _lines(source):
            _of_line(number, line, now)
            if copy is not None:
                with _copying():
                    copy.write(line)
    except _LineError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None


def _lines(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """With their numbers. The input may have no end, and no line feed. Raises _LineError."""
    left = INPUT_BYTES_MAX
    for number in count_up(1):
        line = source.readline(LINE_BYTES_MAX + 1)
        left -= len(line)
        if not line:
            return
        if len(line) > LINE_BYTES_MAX:
            raise _LineError(f"line {number} has more than {LINE_BYTES_MAX >> 10} KiB: give one record per line")
        if left < 0:
            words = f"more than {INPUT_BYTES_MAX >> 20} MiB at once: give the lines in parts"
            raise _LineError(f"the input has {words}")
        yield number, line


def _of_lines(source: BinaryIO, now: float) -> Iterator[Line]:
    """Empty lines are passed over. Raises _LineError."""
    for number, line in _lines(source):
        if (found := _of_line(number, line, now)) is not None:
            yield found


def _of_line(number: int, line: bytes, now: float) -> Line | None:
    """None: it is empty. Raises _LineError."""
    if not line.strip():
        return None
    try:
        return _line(number, of_line(line), now)
    except RecordError as error:
        raise _LineError(f"line {number}: {error}") from None


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


def _give(arguments: argparse.Namespace, found: Iterable[Line]) -> Given:
    """Raises CommandError."""
    path, given = socket_path(arguments), Given()
    try:
        for part in _parts(found):
            body = f"[{','.join(each.text for each in part)}]".encode()
            try:
                change(path, "/v1/records", arguments.timeout, body=body)
            except CommandError as error:
                raise CommandError(f"{error}{_how_far(given.last, part, error)}", error.exit_code) from None
            late = given.late + sum(each.is_late for each in part)
            given = Given(given.records + len(part), late, part[-1].number)
    except _LineError as error:
        how_far = f"lines 1 to {given.last} are kept, and none after" if given.last else NOTHING
        raise CommandError(f"{error}: the input was changed meanwhile; {how_far}", exit_codes.USAGE) from None
    return given


def _parts(found: Iterable[Line]) -> Iterator[list[Line]]:
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


def _how_far(last: int, part: list[Line], error: CommandError) -> str:
    """What the error leaves open. `last`: the last line that is kept; 0: none. A daemon that has not answered may
    have kept the records of the request."""
    is_open = isinstance(error, SilentError | BrokenOffError)
    if part[0].number == 0:
        return "; whether the record is kept is not known" if is_open else ""
    before = f"lines 1 to {last} are kept" if last else "no line before is kept"
    if not is_open:
        return f"; {before}, and none from line {part[0].number} on" if last else ""
    lines = f"lines {part[0].number} to {part[-1].number}"
    return f"; {before}, of {lines} it is not known, and none after is kept"
