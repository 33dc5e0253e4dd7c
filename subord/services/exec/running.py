"""One run of `subord exec`: the task, the waves, and the exit code.

Inputs are the options and words of the command line, and standard input; outputs are what showing.py prints, and an
exit code. Invariant: a wave begins only if the command ended with 0 on every node of all waves before it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import stat
import sys
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded, in_short
from subord.client.naming import names_for
from subord.client.text import count
from subord.core.carriage.engine.bounds import PAYLOAD_BYTES_MAX, TAG_BYTES
from subord.services.asking import coverage_line
from subord.services.exec.giving import give, payload_of
from subord.services.exec.outcome import Ended, Result
from subord.services.exec.showing import Folded, JsonLines, Lines, View, failures
from subord.services.exec.targets import Targets, targets_of, waves
from subord.services.exec.task import Run, keeps_all, output_bytes_for
from subord.services.exec.words import NOTHING
from subord.services.giving import Told

SHELL: Final = ("/bin/sh", "-c")
INPUT_S: Final = 2.0
"""After so long without input the command says what it waits for."""


def run(arguments: argparse.Namespace, words: list[str]) -> int:
    """Raises CommandError: nothing was run."""
    if arguments.shell and len(words) != 1:
        raise CommandError(f"--shell takes one word: quote the command; {NOTHING}", exit_codes.USAGE)
    targets = targets_of(arguments)
    parts = waves(targets, arguments.batch)
    payload = payload_of(_task(arguments, words, max(len(each.places) for each in parts)))
    found = _Run(arguments, payload, targets)
    try:
        for number, part in enumerate(parts):
            found.give(part)
            if not found.is_well:
                found.stop(parts[number + 1 :])
                break
    except KeyboardInterrupt:
        to_stderr("subord: interrupted: the nodes end what still runs")
        raise
    return found.close()


class _Run:
    """All waves of one command line."""

    def __init__(self, arguments: argparse.Namespace, payload: bytes, targets: Targets) -> None:
        self._arguments = arguments
        self._payload = payload
        self._names = names_for(arguments, [each["address"] for each in targets.places])
        self._view: View = JsonLines() if arguments.json else Folded() if arguments.gather else Lines()
        self._ended: list[tuple[Ended, list[str]]] = []
        self._documents: list[Document] = []
        self._unread = 0
        self._not_begun: list[str] = []

    def give(self, targets: Targets) -> None:
        """Give the order of one wave, and show what comes."""
        tag = secrets.token_bytes(TAG_BYTES)
        for each in give(self._arguments, self._payload, targets, self._arguments.time_s, tag):
            if isinstance(each, Told):
                self._take(each, tag)
            else:
                self._documents.append(each)

    def _take(self, told: Told[Result], tag: bytes) -> None:
        if not isinstance(told.result, Ended):
            self._unread += len(told.addresses)
            return
        names = self._named(told.addresses)
        self._ended.append((told.result, names))
        self._view.add(told.result, names, tag.hex())

    def _named(self, addresses: list[str]) -> list[str]:
        return [self._names.get(each, each) for each in addresses]

    def stop(self, rest: list[Targets]) -> None:
        """A wave has failed: the others are not begun."""
        self._not_begun = self._named([each["address"] for part in rest for each in part.places])

    @property
    def is_well(self) -> bool:
        """Whether all nodes so far have ended with 0."""
        return all(each["complete"] and not each["unshown"] for each in self._documents) and not (
            self._unread or self._code
        )

    @property
    def _code(self) -> int:
        """The highest exit code."""
        return max((ended.code for ended, _ in self._ended), default=0)

    def close(self) -> int:
        """Show the rest; returns the exit code."""
        self._view.close()
        covered = merged(self._documents)
        if self._arguments.json:
            print(json.dumps({**covered, "not_begun": self._not_begun}))
        else:
            self._say(covered)
        is_well = self.is_well and not self._not_begun
        if self._arguments.max_code:
            return max(self._code, exit_codes.OK if is_well or self._code else exit_codes.NOT_REACHED)
        return exit_codes.OK if is_well else exit_codes.NOT_REACHED

    def _say(self, covered: Document) -> None:
        """How it ended on standard error, the missing nodes in the last line."""
        if self._arguments.quiet and self.is_well and not self._not_begun:
            return
        for line in failures(self._ended):
            to_stderr(f"subord: {line}")
        unshown = covered["unshown"] + self._unread
        if unshown:
            what = "too many different ones, or of another release; ask fewer nodes"
            to_stderr(f"subord: the results of {count(unshown, 'node')} are not shown: {what}")
        if self._not_begun:
            to_stderr(f"subord: not begun after the failure: {in_short(self._not_begun)}")
        for each in covered["missing"]:
            each["nodes"] = folded(self._named(each["addresses"]))
        words = (
            "{told} of {asked} answered the dry run"
            if self._arguments.dry_run
            else "{told} of {asked} ended in {oldest}"
        )
        to_stderr(coverage_line(covered, words))


def merged(documents: list[Document]) -> Document:
    """The coverage of several orders, for nodes of which none is in two."""
    first, *others = documents
    found = dict(first)
    for each in others:
        for key in ("asked", "told", "unshown", "oldest_ms"):
            found[key] += each[key]
        found["complete"] = found["complete"] and each["complete"]
        found["missing"] = [*found["missing"], *each["missing"]]
        ended = dict(found["ended"])
        for how, nodes in each["ended"].items():
            ended[how] = ended.get(how, 0) + nodes
        found["ended"] = ended
    return found


def _task(arguments: argparse.Namespace, words: list[str], nodes: int) -> Run:
    """Raises CommandError."""
    pairs = []
    for text in arguments.env:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise CommandError(f"--env {text!r} is not NAME=VALUE; {NOTHING}", exit_codes.USAGE)
        pairs.append((os.fsencode(name), os.fsencode(value)))
    return Run(
        tuple(os.fsencode(each) for each in ((*SHELL, *words) if arguments.shell else words)),
        tuple(pairs),
        os.fsencode(arguments.chdir),
        int(arguments.time_s * 1000) or 1,
        b"" if arguments.no_stdin else _stdin(),
        output_bytes_for(nodes),
        keeps_all(nodes),
        arguments.dry_run,
    )


def _stdin() -> bytes:
    """What is piped into this command, one byte more than an order carries at most. A terminal is not read."""
    mode = os.fstat(0).st_mode
    if os.isatty(0) or not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return b""
    if not select.select([0], [], [], INPUT_S)[0]:
        to_stderr("subord: reading standard input to its end, for the nodes; -n gives them none")
    return sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
