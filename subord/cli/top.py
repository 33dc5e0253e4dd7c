"""`subord top`: the cluster at a glance, live.

Intuition: three messengers and a blackboard. Each messenger goes to the daemon with one question, again and again;
whoever draws the blackboard takes the last answers as they are, and never waits for a messenger.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from subord.cli.events import pause
from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import Document, add_seconds, add_timeout, ask
from subord.client.drawing import STROKES, Line, show, strokes_for, wants_colour
from subord.client.errors import CommandError
from subord.client.naming import add_names, names_for, renamed
from subord.client.options import add_colour
from subord.client.top_view import Seen, page

if TYPE_CHECKING:
    from rich.text import Text

INTERVAL_S = 2.0
ERRORS_EVERY_S = 10.0  # all nodes are asked
TIMEOUT_S = 2.0
BUDGET_S = 0.8
LINES_MAX = 60  # where no terminal says how many
DRAW_S = 0.25
QUIT = "qQ\x04"  # the last is Ctrl-D
NO_KEY = "none"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "top",
        help="watch the cluster: how many, what is wrong, what changes",
        description="Show the cluster at a glance, live: a summary, the troubles (asked every ten seconds), the "
        "latest changes with their number a minute, and who has the most subordinates. On a terminal it fills the "
        "screen until q or Ctrl-C; into a pipe it prints one page after the other.",
    )
    parser.add_argument("--once", action="store_true", help="print one page and end")
    add_seconds(parser, "--interval", INTERVAL_S, "look again after this long")
    add_names(parser)
    add_colour(parser)
    add_timeout(parser, TIMEOUT_S, "wait so long for one answer of our daemon")
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Until q, Ctrl-C or the end of the reader. Raises CommandError if there is no daemon at the start."""
    path, timeout_s, often_s = socket_path(arguments), arguments.timeout, arguments.interval
    names = names_for(path, arguments, timeout_s)
    questions = {
        "/v1/tree?form=rows": often_s,
        f"/v1/errors?budget={BUDGET_S}": max(often_s, ERRORS_EVERY_S),
        "/v1/changes": often_s,
    }
    messengers = [Messenger(path, target, every_s, timeout_s, names) for target, every_s in questions.items()]
    _first_round(messengers)
    is_plain = arguments.no_color or not wants_colour(sys.stdout)
    if arguments.once:
        show(_page(messengers, LINES_MAX), sys.stdout, is_plain=is_plain)
        return exit_codes.OK
    for each in messengers:
        each.start()
    if sys.stdout.isatty() and wants_screen():
        _live(messengers, is_plain=is_plain)
    else:
        _pages(messengers, arguments.interval)
    return exit_codes.OK


class Messenger(threading.Thread):
    """One question, again and again. It ends with the process: nobody waits for it."""

    def __init__(self, path: str, target: str, every_s: float, timeout_s: float, names: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self._path, self._target, self._names = path, target, names
        self._every_s, self._timeout_s = every_s, timeout_s
        self.answer: Document | None = None
        self.failure: CommandError | None = None
        self.at = 0.0

    def run(self) -> None:
        while True:
            time.sleep(self._every_s)
            self.look()

    def look(self, gives_up_s: float | None = 0) -> None:
        """Ask once; an answer stays until the next one. `gives_up_s`: see `ask`; on a screen nothing else is said."""
        try:
            found = ask(self._path, self._target, self._timeout_s, gives_up_s=gives_up_s)
            self.answer = renamed(found, self._names)
            self.failure, self.at = None, time.monotonic()
        except CommandError as error:
            self.failure = error


def _first_round(messengers: list[Messenger]) -> None:
    """All at once, and before there is a screen. Raises CommandError if the first has no answer."""
    threads = [threading.Thread(target=each.look, args=(None,), daemon=True) for each in messengers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if messengers[0].failure is not None:
        raise messengers[0].failure


def _page(messengers: list[Messenger], height: int) -> list[Line]:
    tree, errors, changes = messengers
    failures = dict.fromkeys(str(each.failure) for each in messengers if each.failure is not None)
    ago_s = time.monotonic() - errors.at
    seen = Seen(tree.answer, errors.answer, changes.answer, ago_s, tuple(failures))
    return page(seen, height, time.time(), is_ascii=strokes_for(sys.stdout) is not STROKES)


def wants_screen() -> bool:
    """Whether the terminal knows how to clear its screen."""
    return os.environ.get("TERM", "dumb") not in {"", "dumb"}


def _pages(messengers: list[Messenger], interval_s: float) -> None:
    while True:
        show(_page(messengers, LINES_MAX), sys.stdout, is_plain=True)
        print(flush=True)
        pause(interval_s)


def _live(messengers: list[Messenger], *, is_plain: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with _keys() as next_key, Live(console=console, screen=True, auto_refresh=False) as live:
        while next_key() not in QUIT:
            width, height = console.size  # anew each time: windows are resized
            clock = time.strftime("%H:%M:%S")
            head: Line = [("subord top", "bold"), (f"  {clock}  q quits", "dim")]
            live.update(_text([head, *_page(messengers, height - 1)], width, is_plain=is_plain), refresh=True)


def _text(lines: list[Line], width: int, *, is_plain: bool) -> Text:
    from rich.text import Text

    made = []
    for line in lines:
        text = Text.assemble(*((piece, "" if is_plain else style) for piece, style in line))
        text.truncate(width, overflow="ellipsis")
        made.append(text)
    return Text("\n", no_wrap=True).join(made)


def _wait() -> str:
    time.sleep(DRAW_S)
    return NO_KEY


def _read_key() -> str:
    """Unbuffered: what Python has read ahead, select does not see."""
    if not select.select([sys.stdin], [], [], DRAW_S)[0]:
        return NO_KEY
    return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") or QUIT[0]  # the end of the input is a goodbye


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """A function that waits DRAW_S for a key; NO_KEY: there was none. The terminal is as before afterwards."""
    if not sys.stdin.isatty():
        yield _wait
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # what was typed before is not lost
        yield _read_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
