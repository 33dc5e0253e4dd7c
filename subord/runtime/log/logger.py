"""The log of one process: target, format, level and deduplication.

In: records of the logger "subord" from any thread. Out: lines on standard error or journal entries, written by the
thread of `LogWriter`, so that a slow reader never blocks the daemon. Held and lost lines are counted and reported.
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
from subord.runtime.log.writer import STDERR, LogWriter, Write, fill_standard_streams, to_stderr

logger = logging.getLogger("subord")

LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
DUE_S = 5.0
CLOSE_S_MAX = 1.0
ASKED = {"asked": True}
"""`extra` of a line that answers an operator: it is never deduplicated."""

Source = Literal["node.log_level", "LOG_LEVEL", "command", "signal"]


class Log(logging.Handler):
    """Handles all records of `logger` from `open` to `close`. `node` is the node's address, once it is known."""

    def __init__(self) -> None:
        super().__init__()
        self.node = ""
        self.log_level: LogLevel = "info"
        self.source: Source = "node.log_level"
        """What set the level last."""
        self._before_debug: LogLevel = "info"
        self._dedup = Dedup()
        self._repeated = 0
        self._lost_reported = 0
        self._writer: LogWriter | None = None
        self._journal: journal.Journal | None = None
        self._before: tuple[list[logging.Handler], bool] = [], True
        self._render: formats.Render = formats.as_json
        self._write: Write = to_stderr
        self._prefix = ""

    # -- level ----------------------------------------------------------------------------------------------------

    def choose(self, config: Config, environment: Mapping[str, str] = os.environ) -> None:
        """Set the first level: from `--set`, else from the variable LOG_LEVEL, else from the file."""
        level: LogLevel = config.node.log_level
        source: Source = "node.log_level"
        wanted = environment.get("LOG_LEVEL", "")
        is_assigned = any(each.partition("=")[0].strip() == "node.log_level" for each in config.assignments)
        known = [each for each in LEVELS if each == wanted.lower()]
        if known and not is_assigned:
            level, source = known[0], "LOG_LEVEL"
        self._set(level, source)
        if wanted and not known:
            logger.warning("LOG_LEVEL=%.40s is not used: it must be one of %s", wanted, ", ".join(LEVELS))

    def take(self, level: LogLevel, source: Source) -> None:
        """Set the level and log the change at any level."""
        before = self.log_level
        self._set(level, source)
        fields = {"log_level": level, "old": before, "source": source}
        self.log_always("log level %(log_level)s instead of %(old)s (%(source)s)", fields)

    def toggle_debug(self) -> None:
        """Set the level to debug, or back to the last other level."""
        self.take(self._before_debug if self.log_level == "debug" else "debug", "signal")

    def _set(self, level: LogLevel, source: Source) -> None:
        if level != "debug":
            self._before_debug = level
        self.log_level, self.source = level, source
        logger.setLevel(level.upper())

    def log_always(self, words: str, *arguments: object) -> None:
        """Log a line that the operator asked for, at any level."""
        logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, words, arguments, None, extra=ASKED))

    @property
    def counts(self) -> Mapping[str, int]:
        """Lines so far by fate."""
        written, lost = (0, 0) if self._writer is None else (self._writer.written, self._writer.lost)
        return {"written": written, "repeated": self._repeated, "lost": lost}

    # -- target ---------------------------------------------------------------------------------------------------

    def open(self, wanted: LogFormat, environment: Mapping[str, str] = os.environ) -> None:
        """Replace the handlers of the logger until `close`."""
        fill_standard_streams()
        is_journal = journal.is_behind(STDERR, environment)
        self._prefix = f"<{journal.ERROR}>" if is_journal else ""
        self._render, self._write = _form(wanted, is_journal), to_stderr
        if wanted == "auto" and is_journal:
            with suppress(OSError):
                self._journal = journal.Journal()
                self._render, self._write = formats.for_journal, self._journal.send
        self._writer = LogWriter()
        self._before = [*logger.handlers], logger.propagate
        logger.handlers[:] = [self]
        logger.propagate = False

    def close(self) -> None:
        """Write the held lines and restore the logger.

        If standard error does not accept them within CLOSE_S_MAX, it is replaced by /dev/null, so that later output
        of the process cannot block its end.
        """
        super().close()
        writer = self._writer
        if writer is None:
            return
        logger.handlers[:], logger.propagate = self._before
        self._report_due(inf)
        if not writer.close(CLOSE_S_MAX):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, STDERR)
            os.close(nowhere)
        elif self._journal is not None:
            self._journal.close()
        self._writer = self._journal = None

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def report_due_forever(self) -> NoReturn:
        """Report held and lost lines every DUE_S."""
        while True:
            await trio.sleep(DUE_S)
            self._report_due(time.monotonic())
            self._report_lost()

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`, which holds the lock of this handler."""
        if not getattr(record, "asked", False) and self._dedup.hold(record, time.monotonic()):
            self._repeated += 1
            return
        self._put(record)

    def put_line(self, line: bytes) -> None:
        """Write `line` to standard error unchanged."""
        if self._writer is not None:
            self._writer.put(to_stderr, line)

    def put_error(self, words: str) -> None:
        """Write the error that ends the process, in the form of all commands."""
        self.put_line(f"{self._prefix}{formats.printable(words)}\n".encode())

    def _put(self, record: logging.LogRecord) -> None:
        if self._writer is None:
            return
        try:
            line = self._render(record, self.node)
        except (
            TypeError,
            ValueError,
            KeyError,
        ):  # a wrong format string must not end the daemon
            record.msg, record.args = f"a line of the log has a mistake: {record.msg!r}", None
            line = self._render(record, self.node)
        self._writer.put(self._write, line)

    def _report_due(self, now: float) -> None:
        self.acquire()  # other threads log too
        try:
            for record in self._dedup.due(now):
                record.created = time.time()
                self._put(record)
        finally:
            self.release()

    def _report_lost(self) -> None:
        lost = self.counts["lost"] - self._lost_reported
        if lost:
            self._lost_reported += lost
            logger.warning("%d lines of the log were lost: its reader did not accept them", lost, extra=ASKED)


def _form(wanted: LogFormat, is_journal: bool) -> formats.Render:
    """The format on standard error."""
    if is_journal:
        return formats.prioritised(formats.as_json if wanted == "json" else formats.bare)
    if wanted == "auto":
        return formats.text if os.isatty(STDERR) else formats.as_json
    return formats.as_json if wanted == "json" else formats.text
