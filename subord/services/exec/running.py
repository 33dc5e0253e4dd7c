"""One run of `subord exec`: the task, and the waves.

Inputs are the options and words of the command line, and standard input; outputs are what results.py prints, and an
exit code. Invariant: a wave begins only if the command ended with 0 on every node of all waves before it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import select
import stat
import sys
from collections import deque
from typing import Final

from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr
from subord.client.naming import names_for
from subord.core.carriage.engine.bounds import PAYLOAD_BYTES_MAX, TAG_BYTES
from subord.services.exec.giving import give, payload_of
from subord.services.exec.results import Results
from subord.services.exec.targets import Targets, targets_of, waves
from subord.services.exec.task import Run, keeps_all, output_bytes_for
from subord.services.exec.words import NOTHING

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
    results = Results(arguments, names_for(arguments, [each["address"] for each in targets.places]))
    rest = deque(parts)
    try:
        while rest and results.is_well:
            part, tag = rest.popleft(), secrets.token_bytes(TAG_BYTES)
            results.take_all(give(arguments, payload, part, arguments.time_s, tag), tag)
    except KeyboardInterrupt:
        to_stderr("subord: interrupted: the nodes end what still runs")
        raise
    except CommandError:
        results.break_off(_addresses(part), _addresses(*rest))
        raise
    return results.close(_addresses(*rest))


def _addresses(*parts: Targets) -> list[str]:
    return [each["address"] for part in parts for each in part.places]


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
