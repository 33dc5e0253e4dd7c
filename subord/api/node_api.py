"""What the daemon lends to the API, and nothing more.

Intuition: a shop window. The API stands outside: it may look at what is laid out and ask the shop to
telephone another one; it cannot reach in and move things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from subord.core.state.settings import Settings
from subord.core.state.view import RosterView, Snapshot, Why
from subord.runtime.counters import Counters
from subord.runtime.jobs.meter import PerformanceMeter
from subord.runtime.log.logger import Log
from subord.runtime.net.peer_query import AskFailure, Question
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.state.history import History

__all__ = ["AskFailure", "NodeApi", "Question"]


class Tracks(Protocol):
    """Who keeps the register of those below us (runtime/state/tracker.py)."""

    @property
    def register(self) -> History: ...

    def look(self) -> None:
        """Bring the register up to date."""


class NodeApi(Protocol):
    """A running node as the API sees it. All of it is cheap and changes nothing, except `ask`."""

    @property
    def settings(self) -> Settings: ...
    @property
    def names(self) -> Mapping[str, str]:
        """Names by address, for people; there may be none."""

    @property
    def address(self) -> str:
        """Our own address, in the spelling of `Network.address_text_of`."""

    @property
    def port(self) -> int:
        """Our UDP port."""

    @property
    def web_port(self) -> int | None:
        """The TCP port of our web address; None: it is off."""

    @property
    def started_mono(self) -> float:
        """`time.monotonic()` at our start, in seconds."""

    @property
    def counters(self) -> Counters: ...

    def snapshot(self) -> Snapshot: ...
    def roster(self) -> RosterView: ...
    def why(self) -> Why: ...

    @property
    def keeping(self) -> RunningKeyRing | None:
        """Our key ring; None: nothing is sealed."""

    @property
    def log(self) -> Log: ...

    @property
    def performance(self) -> PerformanceMeter: ...

    @property
    def attendance(self) -> Tracks:
        """Who came and went below us."""

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        """The JSON document that the node at `address` has for this question, as its own `answers.answer` wrote it.

        Takes at most `timeout_s` and a bounded number of bytes; never raises for what a peer does.
        """
