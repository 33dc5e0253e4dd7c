"""Asks the system's resolver about many names or addresses at once, for a bounded time.

In: items and a function that asks about one. Out: the answers that came in time. A hanging resolver delays a command
by the given time and does not keep its process alive.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TypeVar

AT_ONCE_MAX = 16
LIMIT_S = 2.0
_Answer = TypeVar("_Answer")


def looked_up(items: Iterable[str], look: Callable[[str], _Answer], limit_s: float) -> dict[str, _Answer]:
    """The answers by item; those that took longer than `limit_s`, all together, are left out."""
    waiting = deque(items)
    answers: dict[str, _Answer] = {}

    def work() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            answers[item] = look(item)

    threads = [Thread(target=work, daemon=True) for _ in range(min(AT_ONCE_MAX, len(waiting)))]
    until = time.monotonic() + limit_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    waiting.clear()
    return dict(answers)


def name_of(address: str) -> str | None:
    """The name of an address; None: it has none."""
    try:
        return socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except (OSError, UnicodeError):
        return None
