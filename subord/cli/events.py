"""`subord events`: what happened in the tree, and with --follow what happens next.

Intuition: a ticker. It prints what is new since the last look and remembers where it was; when the line is dead it
says so once, waits, and reads on from there.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time
from collections.abc import Iterator
from urllib.parse import quote

from subord.client import exit_codes
from subord.client.change_line import change_line
from subord.client.control_socket import socket_path
from subord.client.daemon import Document, UnreachableError, ask
from subord.client.drawing import show
from subord.client.errors import CommandError, tell
from subord.client.naming import add_names, names_for, renamed
from subord.client.options import add_asking, add_colour, duration
from subord.client.text import printable

POLL_S = 0.5
WAIT_S = 1.0  # between two tries to reach a daemon that does not answer


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "events",
        help="show what happened in the tree, and follow what happens",
        description="Print the changes of the whole tree that its root remembers, at most the last 256: who "
        "joined, was found with its branch, returned, restarted, moved, is missing, left, or became root. Any node "
        "answers. With --follow also those to come, until Ctrl-C; a daemon that is restarted or does not answer "
        "meanwhile is waited for, which is said on standard error.",
    )
    parser.add_argument("--follow", "-f", action="store_true", help="go on with what happens from now on")
    parser.add_argument("--since", metavar="TIME", type=duration, help="only the last 90s, 10min, 2h, 1d")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the changes; with --follow it ends by Ctrl-C, or when nobody reads any more."""
    after = 0.0 if arguments.since is None else time.time() - arguments.since
    path = socket_path(arguments)
    first = ask(path, "/v1/changes", arguments.timeout)
    names = names_for(path, arguments, arguments.timeout)
    _print(renamed(first, names), after, arguments)
    if not arguments.follow:
        if first.get("note"):
            _say(f"incomplete: {printable(first['note'])}")
        return exit_codes.OK
    for document in _followed(path, first, arguments.timeout):
        _print(renamed(document, names), after, arguments)
    return exit_codes.OK


def _print(document: Document, after: float, arguments: argparse.Namespace) -> None:
    changes = [each for each in document["changes"] if each["wall"] >= after]
    if document.get("missed"):
        _say("some changes were missed: the daemon remembers no more")
    if not changes:
        return
    if arguments.json:
        for each in changes:
            print(json.dumps(each))
    else:
        show([change_line(each) for each in changes], sys.stdout, is_plain=arguments.no_color)
    sys.stdout.flush()


def _followed(path: str, first: Document, timeout_s: float) -> Iterator[Document]:
    """All later answers. Nothing that the daemon does ends it."""
    token, trouble = first["token"], first.get("note")
    if trouble:
        _say(f"waiting: {printable(trouble)}")
    while True:
        pause(POLL_S if trouble is None else WAIT_S)
        try:
            document = ask(path, f"/v1/changes?since={quote(token, safe='')}", timeout_s)
            now = document.get("note")
        except CommandError as error:
            if not isinstance(error, UnreachableError) and error.exit_code != exit_codes.TRY_AGAIN:
                raise
            document, now = None, str(error)
        if (now is None) != (trouble is None):  # once for each trouble, and once for its end
            _say("going on" if now is None else f"waiting: {printable(now)}")
        trouble = now
        if document is not None:
            token = document["token"]
            yield document


def pause(seconds: float) -> None:
    """Until the time is over. Raises BrokenPipeError as soon as nobody reads any more, not at the next change."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        time.sleep(seconds)
        return
    reader = select.poll()
    reader.register(descriptor, 0)  # only the end of the other side is reported then (poll(2))
    if reader.poll(seconds * 1000):
        raise BrokenPipeError


def _say(line: str) -> None:
    tell(f"subord: {line}")
