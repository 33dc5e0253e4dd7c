"""`subord events`: the last events of the cluster, and with --follow those to come.

Each request continues at the token of the last answer. With --follow a daemon that does not answer is reported once
and waited for.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time
from collections import deque
from collections.abc import Iterator
from urllib.parse import quote

from subord.client import exit_codes
from subord.client.daemon import Document, UnreachableError, ask
from subord.client.drawing import show
from subord.client.errors import CommandError, to_stderr
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_colour, add_names, duration, socket_path
from subord.client.text import printable

POLL_S = 0.5
LAST_MAX = 10_000
KNOWN_MAX = 2000  # events of which a restarted daemon may send some again
WAIT_S = 1.0  # between two tries to reach a daemon that does not answer


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "events",
        help="show the last events of the cluster",
        description="Print the last events of the cluster: nodes that joined, were found with their branch, "
        "returned, restarted, moved, are missing, left, or became root, and operators' orders with their "
        "reasons. Every node holds the last 10,000 on its disk, so any node answers. With --follow, events to "
        "come are printed until Ctrl-C; the command waits for a daemon that does not answer, and reports this "
        "on standard error.",
    )
    parser.add_argument("--follow", "-f", action="store_true", help="continue with new changes")
    parser.add_argument("--since", metavar="TIME", type=duration, help="only the last 90s, 10min, 2h, 1d")
    parser.add_argument(
        "--last", metavar="N", type=_count, help=f"as many events, 1 to {LAST_MAX}; with --since all unless given"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the changes; with --follow until Ctrl-C or until the output is closed."""
    after = 0.0 if arguments.since is None else time.time() - arguments.since
    path = socket_path(arguments)
    last = LAST_MAX if arguments.last is None and arguments.since is not None else arguments.last
    first = ask(path, "/v1/changes" if last is None else f"/v1/changes?last={last}", arguments.timeout)
    names = names_for(arguments, first)
    _print(renamed(first, names), after, arguments)
    if not arguments.follow:
        if first.get("note"):
            _note(f"incomplete: {printable(first['note'])}")
        return exit_codes.OK
    for document in _followed(path, first, arguments.timeout):
        _print(renamed(document, names), after, arguments)
    return exit_codes.OK


def _print(document: Document, after: float, arguments: argparse.Namespace) -> None:
    changes = [each for each in document["changes"] if each["wall"] >= after]
    if document.get("missed"):
        _note("some changes were missed: the daemon does not have them any more")
    if not changes:
        return
    if arguments.json:
        version = {key: document[key] for key in ("schema_version",) if key in document}
        for each in changes:
            print(json.dumps({**version, **each}))
    else:
        from subord.client.change_line import change_line

        show([change_line(each) for each in changes], sys.stdout, is_plain=arguments.no_color)
    sys.stdout.flush()


def _followed(path: str, first: Document, timeout_s: float) -> Iterator[Document]:
    """All later answers. No failure of the daemon ends it."""
    token, note = first["token"], first.get("note")
    known = deque(map(_name, first["changes"]), maxlen=KNOWN_MAX)
    if note:
        _note(f"waiting: {printable(note)}")
    while True:
        pause(POLL_S if note is None else WAIT_S)
        try:
            document = ask(path, f"/v1/changes?since={quote(token, safe='')}", timeout_s)
            new_note = document.get("note")
        except CommandError as error:
            if not isinstance(error, UnreachableError) and error.exit_code != exit_codes.TRY_AGAIN:
                raise
            document, new_note = None, str(error)
        if (new_note is None) != (note is None):  # once when a failure begins, and once when it ends
            _note("continuing" if new_note is None else f"waiting: {printable(new_note)}")
        note = new_note
        if document is not None:
            token = document["token"]
            new = [each for each in document["changes"] if _name(each) not in known]
            known += map(_name, new)
            yield {**document, "changes": new}


def _name(change: Document) -> tuple[object, ...]:
    return change["wall"], change["number"], change["kind"], change["address"]


def _count(text: str) -> int:
    """Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= LAST_MAX):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {LAST_MAX}")
    return int(text)


def pause(seconds: float) -> None:
    """Wait. Raises BrokenPipeError as soon as the output is closed, not only at the next change."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        time.sleep(seconds)
        return
    reader = select.poll()
    reader.register(descriptor, 0)  # reports only that the other end was closed (poll(2))
    if reader.poll(seconds * 1000):
        raise BrokenPipeError


def _note(line: str) -> None:
    to_stderr(f"subord: {line}")
