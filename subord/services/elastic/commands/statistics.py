"""`subord elastic statistics`: what the polls of the queue have seen, as lines of CSV and as pictures.

Each question is for all polls that the node keeps. Files are written as a whole or not at all, and a line that is in
the file already is not written again, so the command can be run at any time, and again after a failure.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import WRITE_ERRORS, CommandError, to_stderr
from subord.client.text import count, printable
from subord.services.elastic import COLUMNS, PLOTS
from subord.services.elastic.statistics import Statistics
from subord.services.elastic.statistics.appending import NotStatisticsError, append, last_rows

if TYPE_CHECKING:
    from subord.services.elastic.statistics.plots import Plotter

POLLS: Final = "/v1/elastic/polls"
FOLDER: Final = os.path.join("subord", "elastic")
FILE: Final = "elastic-stats.csv"
NO_NAME: Final = "cluster"
"""The folder of a cluster without cluster.name."""
NO_POLLS: Final = (
    "this node knows of no poll: either it has polled no queue since its daemon started, or another node has the "
    "queue, which `subord elastic status` names; give the command there"
)
INTERVAL_S: Final = 60.0
"""If the node does not know how often the queue is polled."""


def run(arguments: argparse.Namespace) -> int:
    """Shows or writes; with --follow until Ctrl-C. Raises CommandError."""
    plotter = _plotter(arguments)
    found = asked(arguments, POLLS)
    task = _Task(arguments, found["cluster"], plotter)
    if not found["polls"]:
        to_stderr(f"subord: {NO_POLLS}")
    task.carry_out(found)
    fault = ""
    while arguments.follow:
        time.sleep(float(found["interval_s"] or INTERVAL_S))
        try:
            found = asked(arguments, POLLS)
            task.carry_out(found)
            fault = ""
        except CommandError as error:  # the daemon restarts, or the disk is full: polls are kept for a while
            if str(error) != fault:
                to_stderr(f"subord: {error}; trying again with each poll")
            fault = str(error)
    return exit_codes.OK


def _plotter(arguments: argparse.Namespace) -> Plotter | None:
    """Before anything is asked or written."""
    if not arguments.plot_stats and arguments.plot_output_dir is None:
        return None
    from subord.services.elastic.statistics.plots import NoPlotterError, Plotter

    try:
        return Plotter()
    except NoPlotterError as error:
        raise CommandError(f"{error}. Nothing was written", exit_codes.CONFIGURATION) from None


class _Task:
    """What is done with each answer."""

    def __init__(self, arguments: argparse.Namespace, cluster: str, plotter: Plotter | None) -> None:
        self._is_json: bool = arguments.json
        self._plotter = plotter
        folder = _folder(cluster)
        dumps = arguments.dump_stats or arguments.dump_stats_file is not None
        self._file: str = (arguments.dump_stats_file or os.path.join(folder, FILE)) if dumps else ""
        self._pictures: str = (arguments.plot_output_dir or folder) if plotter else ""
        self._shown: set[str] = set()

    def carry_out(self, found: Document) -> None:
        """Raises CommandError: what could not be written is as it was."""
        polls = {_row(each): each for each in found["polls"]}
        rows = list(polls)
        if self._file:
            self._append(rows)
        if self._plotter is not None and rows:
            self._draw(self._plotter, rows)
        if self._is_json:
            print(
                json.dumps(found | {"polls": [each for row, each in polls.items() if row.line() not in self._shown]})
            )
        elif not self._file and not self._pictures:
            print("".join(row.line() for row in rows if row.line() not in self._shown), end="")
        sys.stdout.flush()
        self._shown = {row.line() for row in rows}

    def _append(self, rows: Sequence[Statistics]) -> None:
        try:
            _make(os.path.dirname(self._file))
            number = append(self._file, rows)
        except NotStatisticsError as error:
            raise CommandError(
                f"{self._file} is no file of statistics, it begins with {printable(str(error))!r}: it was not "
                "changed; choose another with -D",
                exit_codes.USAGE,
            ) from None
        except OSError as error:
            raise _failure(self._file, error, "no line was appended") from None
        self._say(f"{self._file}: {count(number, 'line')} appended")

    def _draw(self, plotter: Plotter, rows: Sequence[Statistics]) -> None:
        try:
            _make(self._pictures)
            plotter.write(last_rows(self._file) if self._file else rows, self._pictures)
        except OSError as error:
            raise _failure(self._pictures, error, "pictures that are there are whole") from None
        self._say(f"{self._pictures}: {', '.join(f'{each}.png' for each in PLOTS)}")

    def _say(self, text: str) -> None:
        if not self._is_json:
            print(text)


def _row(found: Document) -> Statistics:
    return Statistics(datetime.fromisoformat(found["time"]).timestamp(), *(found[name] for name in COLUMNS[1:]))


def _folder(cluster: str) -> str:
    """Of a cluster of this name, which may have any characters that print."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, FOLDER, re.sub(r"[^\w.-]|^\.", "_", cluster) or NO_NAME)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder or ".", exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is no folder") from None


def _failure(path: str, error: OSError, unchanged: str) -> CommandError:
    why = error.strerror or str(error)
    return CommandError(f"cannot write {path}: {why}; {unchanged}. {_remedy(error)}", exit_codes.OUTPUT)


def _remedy(error: OSError) -> str:
    if error.errno in WRITE_ERRORS:
        return "Make room, or choose another place with -D or -P"
    return "Choose another place with -D or -P"
