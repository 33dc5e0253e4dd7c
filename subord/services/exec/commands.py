"""The commands that run on this node, for those that list and end them.

Inputs are commands that begin and end; outputs are what runs, and the end of one. Invariant: root sees and ends all,
another user only what runs as this user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from subord.services.acting import Context
from subord.services.exec.account import Account
from subord.services.exec.outcome import Command

PRINCIPAL_CHARS_MAX: Final = 64
WORDS_CHARS_MAX: Final = 100
LISTED_MAX: Final = 64
"""The agent runs no more orders at once (agent/serving.py), and as many fit a result."""


class Running:
    """A command. `scope`: that in which its end is waited for."""

    def __init__(self, shown: Command, uid: int, scope: trio.CancelScope) -> None:
        self.shown = shown
        self.uid = uid
        self.is_stopped = False
        self._scope = scope

    def stop(self) -> None:
        self.is_stopped = True
        self._scope.cancel()


_running: dict[bytes, Running] = {}


@contextmanager
def running(context: Context, account: Account, words: str, scope: trio.CancelScope) -> Iterator[Running]:
    """While a command runs."""
    principal, tag = context.principal[:PRINCIPAL_CHARS_MAX], context.tag
    shown = Command(tag, principal, account.name, words[:WORDS_CHARS_MAX])
    found = _running[tag] = Running(shown, account.uid, scope)
    try:
        yield found
    finally:
        del _running[tag]


def seen_by(account: Account) -> tuple[Command, ...]:
    """What this user may list."""
    found = (each.shown for each in _running.values() if _may(account, each))
    return tuple(sorted(found, key=lambda each: each.tag))[:LISTED_MAX]


def stop(tag: bytes, account: Account) -> bool:
    """End a command; False: there is none that this user may end."""
    found = _running.get(tag)
    if found is None or not _may(account, found):
        return False
    found.stop()
    return True


def _may(account: Account, found: Running) -> bool:
    return account.uid in (0, found.uid)
