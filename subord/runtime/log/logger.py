"""The log of one process: where it goes, in which form, how much of it, and who said so last.

Intuition: the editor's desk. What the reporters bring is read for news that was printed already, set in the type
that the readers want, and handed to the printer, who must not keep anybody waiting.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Literal, NoReturn, get_args

import trio

from subord.config.schema import Config, LogFormat, LogLevel
from subord.runtime.log import formats, journal
from subord.runtime.log.dedup import Dedup
from subord.runtime.log.writer import STDERR, Carry, LogWriter, fill_standard_streams, to_stderr

logger = logging.getLogger("subord")

LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
DUE_S = 5.0
CLOSE_S_MAX = 1.0
ASKED = {"asked": True}
"""`extra` of a line that answers an operator: it is said each time."""

Source = Literal["node.log_level", "LOG_LEVEL", "command", "signal"]


class Log(logging.Handler):
    """All that is said to `logger` while it is entered. `node` is our address, once we know it."""

    def __init__(self) -> None:
        super().__init__()
        self.node = ""
        self.log_level: LogLevel = "info"
        self.source: Source = "node.log_level"
        """What chose the level last."""
        self._before_debug: LogLevel = "info"
        self._repeats = Dedup()
        self._repeated = 0
        self._lost_told = 0
        self._scribe: LogWriter | None = None
        self._journal: journal.Journal | None = None
        self._before: tuple[list[logging.Handler], bool] = [], True
        self._render: formats.Render = formats.as_json
        self._carry: Carry = to_stderr
        self._prefix = ""

    # -- how much -------------------------------------------------------------------------------------------------

    def choose(self, given: Config, environment: Mapping[str, str] = os.environ) -> None:
        """The level to start with: `--set`, else the variable LOG_LEVEL, else the file."""
        level: LogLevel = given.node.log_level
        source: Source = "node.log_level"
        asked = environment.get("LOG_LEVEL", "")
        is_assigned = any(each.partition("=")[0].strip() == "node.log_level" for each in given.assignments)
        known = [each for each in LEVELS if each == asked.lower()]
        if known and not is_assigned:
            level, source = known[0], "LOG_LEVEL"
        self._take(level, source)
        if asked and not known:
            logger.warning("LOG_LEVEL=%.40s is not used: it must be one of %s", asked, ", ".join(LEVELS))

    def take(self, level: LogLevel, source: Source) -> None:
        """From now on this level, until somebody chooses another. It is said at whatever level."""
        before = self.log_level
        self._take(level, source)
        fields = {"log_level": level, "old": before, "source": source}
        self.say_anyway("log level %(log_level)s instead of %(old)s (%(source)s)", fields)

    def toggle_debug(self) -> None:
        """On, or back to what was before."""
        self.take(self._before_debug if self.log_level == "debug" else "debug", "signal")

    def _take(self, level: LogLevel, source: Source) -> None:
        if level != "debug":
            self._before_debug = level
        self.log_level, self.source = level, source
        logger.setLevel(level.upper())

    def say_anyway(self, words: str, *given: object) -> None:
        """Somebody asked for it, so it is said at whatever level."""
        logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, words, given, None, extra=ASKED))

    @property
    def counts(self) -> Mapping[str, int]:
        """Lines so far, by what became of them."""
        written, lost = (0, 0) if self._scribe is None else (self._scribe.written, self._scribe.lost)
        return {"written": written, "repeated": self._repeated, "lost": lost}

    # -- where to -------------------------------------------------------------------------------------------------

    def open(self, asked: LogFormat, environment: Mapping[str, str] = os.environ) -> None:
        """Take over the logger, until `close`."""
        fill_standard_streams()
        is_journal = journal.is_behind(STDERR, environment)
        self._prefix = f"<{journal.ERROR}>" if is_journal else ""
        self._render, self._carry = _form(asked, is_journal), to_stderr
        if asked == "auto" and is_journal:
            with suppress(OSError):
                self._journal = journal.Journal()
                self._render, self._carry = formats.for_journal, self._journal.carry
        self._scribe = LogWriter()
        self._before = [*logger.handlers], logger.propagate
        logger.handlers[:] = [self]
        logger.propagate = False

    def close(self) -> None:
        """Say what was kept back. Standard error that is stuck leads nowhere from then on: the process may end
        with a word of its own, and must not wait for ever to say it."""
        super().close()
        scribe = self._scribe
        if scribe is None:
            return
        logger.handlers[:], logger.propagate = self._before
        self._tell_due(inf)
        if not scribe.close(CLOSE_S_MAX):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, STDERR)
            os.close(nowhere)
        elif self._journal is not None:
            self._journal.close()
        self._scribe = self._journal = None

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def tell_due_forever(self) -> NoReturn:
        """What was kept back or lost, now and then."""
        while True:
            await trio.sleep(DUE_S)
            self._tell_due(time.monotonic())
            self._tell_lost()

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`, which holds our lock."""
        if not getattr(record, "asked", False) and self._repeats.hold(record, time.monotonic()):
            self._repeated += 1
            return
        self._put(record)

    def put_line(self, line: bytes) -> None:
        """On standard error as it is."""
        if self._scribe is not None:
            self._scribe.put(to_stderr, line)

    def put_complaint(self, words: str) -> None:
        """What ends the process, in the form in which every command complains."""
        self.put_line(f"{self._prefix}{formats.printable(words)}\n".encode())

    def _put(self, record: logging.LogRecord) -> None:
        if self._scribe is None:
            return
        try:
            line = self._render(record, self.node)
        except (TypeError, ValueError, KeyError):  # words and arguments that do not fit: ours, and no reason to die
            record.msg, record.args = f"a line of the log has a mistake: {record.msg!r}", None
            line = self._render(record, self.node)
        self._scribe.put(self._carry, line)

    def _tell_due(self, now: float) -> None:
        self.acquire()  # others say something in other threads
        try:
            for record in self._repeats.due(now):
                record.created = time.time()
                self._put(record)
        finally:
            self.release()

    def _tell_lost(self) -> None:
        lost = self.counts["lost"] - self._lost_told
        if lost:
            self._lost_told += lost
            logger.warning("%d lines of the log were lost: whatever reads it did not take them", lost, extra=ASKED)


def _form(asked: LogFormat, is_journal: bool) -> formats.Render:
    """How to write to standard error."""
    if is_journal:
        return formats.prioritised(formats.as_json if asked == "json" else formats.bare)
    if asked == "auto":
        return formats.text if os.isatty(STDERR) else formats.as_json
    return formats.as_json if asked == "json" else formats.text
