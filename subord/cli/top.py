"""`subord top`: counts, orders, problems and changes of the cluster, live.

One thread per question asks the daemon again and again and keeps the last answer. The screen is drawn from the last
answers and never waits for a thread.
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
from subord.client.daemon import Document, ask
from subord.client.drawing import STROKES, Line, show, strokes_for, wants_colour
from subord.client.errors import CommandError
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_colour, add_names, add_seconds, socket_path

if TYPE_CHECKING:
    from rich.text import Text

INTERVAL_S = 2.0
ERRORS_EVERY_S = 10.0  # all nodes are asked
TIMEOUT_S = 3.0
BUDGET_S = 2.0
LINES_MAX = 60  # where there is no terminal
DRAW_S = 0.25
QUIT = "qQ\x04"  # the last is Ctrl-D
NO_KEY = "none"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "top",
        help="watch counts, problems and changes",
        description="Show the state of the cluster, live: a summary, the orders at this node with the nodes that "
        "have answered, the shares of the classes of work, if any are set, the problems (asked every ten seconds), "
        "the latest changes with their number per minute, and the leaders with the most subordinates. On a terminal "
        "it fills the screen until q or Ctrl-C; into a pipe it prints one page after the other.",
    )
    parser.add_argument("--once", action="store_true", help="print one page and end")
    add_seconds(parser, "--interval", INTERVAL_S, "time between two questions")
    add_names(parser)
    add_colour(parser)
    add_asking(parser, TIMEOUT_S, "time for one answer of the daemon")


def run(arguments: argparse.Namespace) -> int:
    """Runs until q, Ctrl-C or the end of the output. Raises CommandError if no daemon answers at the start."""
    path, timeout_s, interval_s = socket_path(arguments), arguments.timeout, arguments.interval
    names: dict[str, str] = {}
    questions = {
        "/v1/tree?form=rows": interval_s,
        f"/v1/errors?budget={BUDGET_S}": max(interval_s, ERRORS_EVERY_S),
        "/v1/changes": interval_s,
        "/v1/orders": interval_s,
        "/v1/shares/past": interval_s,
    }
    pollers = [Poller(path, target, every_s, timeout_s, names) for target, every_s in questions.items()]
    _first_answers(pollers)
    names |= names_for(arguments, *(each.answer for each in pollers))
    for poller in pollers:
        poller.answer = renamed(poller.answer, names)
    is_plain = arguments.no_color or not wants_colour(sys.stdout)
    if arguments.once:
        show(_page(pollers, LINES_MAX), sys.stdout, is_plain=is_plain)
        return exit_codes.OK
    for each in pollers:
        each.start()
    if sys.stdout.isatty() and wants_screen():
        _live(pollers, is_plain=is_plain)
    else:
        _pages(pollers, arguments.interval)
    return exit_codes.OK


class Poller(threading.Thread):
    """Asks one question again and again. It ends with the process."""

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
        """Ask once; an answer stays until the next one. `gives_up_s`: see `ask`."""
        try:
            found = ask(self._path, self._target, self._timeout_s, gives_up_s=gives_up_s)
            self.answer = renamed(found, self._names)
            self.failure, self.at = None, time.monotonic()
        except CommandError as error:
            self.failure = error


def _first_answers(pollers: list[Poller]) -> None:
    """All questions at once, before the screen is opened. Raises CommandError if the first has no answer."""
    threads = [threading.Thread(target=each.look, args=(None,), daemon=True) for each in pollers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if pollers[0].failure is not None:
        raise pollers[0].failure


def _page(pollers: list[Poller], height: int) -> list[Line]:
    from subord.client.top_view import Answers, page

    tree, errors, changes, orders, shares = pollers
    told = pollers if shares.answer is not None else pollers[:-1]  # a daemon of an older release knows no shares
    failures = dict.fromkeys(str(each.failure) for each in told if each.failure is not None)
    ago_s = time.monotonic() - errors.at
    answers = Answers(
        tree.answer, errors.answer, changes.answer, ago_s, tuple(failures), orders.answer, shares.answer
    )
    return page(answers, height, time.time(), is_ascii=strokes_for(sys.stdout) is not STROKES)


def wants_screen() -> bool:
    """Whether the terminal knows how to clear its screen."""
    return os.environ.get("TERM", "dumb") not in {"", "dumb"}


def _pages(pollers: list[Poller], interval_s: float) -> None:
    while True:
        show(_page(pollers, LINES_MAX), sys.stdout, is_plain=True)
        print(flush=True)
        pause(interval_s)


def _live(pollers: list[Poller], *, is_plain: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with _keys() as next_key, Live(console=console, screen=True, auto_refresh=False) as live:
        while next_key() not in QUIT:
            width, height = console.size  # anew each time: windows are resized
            clock = time.strftime("%H:%M:%S")
            head: Line = [("subord top", "bold"), (f"  {clock}  q quits", "dim")]
            live.update(_text([head, *_page(pollers, height - 1)], width, is_plain=is_plain), refresh=True)


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
    """Unbuffered, because select does not see what Python has read ahead."""
    if not select.select([sys.stdin], [], [], DRAW_S)[0]:
        return NO_KEY
    return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") or QUIT[0]  # the end of the input quits


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """A function that waits DRAW_S for a key; NO_KEY: there was none. The terminal is restored at the end."""
    if not sys.stdin.isatty():
        yield _wait
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # keeps what was typed before
        yield _read_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
