"""Starts and stops the batch daemon of a node, by the commands of its configuration.

Inputs are the words of a command and the environment of the batch system; output is whether it did something.
Invariants: a program that others than root can change is not run, nor one that gets such a file as a word (a script
of sh); a daemon that runs already, or is stopped already, is no fault.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.machine import Machine, in_thread
from subord.services.elastic.preparing.rights import Need
from subord.services.metrics.programs import demand_safe
from subord.services.metrics.texts import TextError

DAEMON_S_MAX: Final = 60.0
UNSAFE: Final = "nothing was changed: chown root, and chmod go-w"
RUNS: Final = re.compile(r"\balready (?:running|started|active|up)\b", re.IGNORECASE)
STOPPED: Final = re.compile(r"\b(?:not|n't) (?:running|started|loaded|active)\b|\balready stopped\b", re.IGNORECASE)


async def start(words: Sequence[str], environment: Sequence[str], machine: Machine) -> bool:
    """Whether it was not known to run. `words`: elastic.batch_daemon; (): it starts by itself. `environment`:
    NAME=VALUE. Raises PreparingError."""
    return await _run(words, environment, "elastic.batch_daemon", RUNS, machine)


async def stop(words: Sequence[str], environment: Sequence[str], machine: Machine) -> bool:
    """Whether it was not known to be stopped. `words`: elastic.batch_daemon_stop; (): it ends with the node. Raises
    PreparingError."""
    return await _run(words, environment, "elastic.batch_daemon_stop", STOPPED, machine)


async def _run(
    words: Sequence[str], environment: Sequence[str], name: str, done: re.Pattern[str], machine: Machine
) -> bool:
    """Raises PreparingError. Not the environment of commands of the batch system, which run in UTC."""
    if not words:
        return False
    machine.demand(Need.DAEMON)
    program = machine.find(words[0])
    if program is None:
        raise PreparingError(f"{words[0]} is not on this node; nothing was changed: install it, or correct {name}")
    await in_thread(lambda: _demand_safe([program, *words[1:]], name), program)
    ran = await machine.run(program, *words[1:], limit_s=DAEMON_S_MAX, environment=environment)
    if not ran.code:
        return not done.search(ran.text)
    if done.search(f"{ran.errors} {ran.text}"):
        return False
    raise PreparingError(f"{' '.join(words)[:100]} ended with {ran.code} on this node: {ran.words}; see {name}")


def _demand_safe(words: Sequence[str], name: str) -> None:
    """Raises PreparingError. Blocks."""
    for word in words:
        if word.startswith("/") and os.path.isfile(word):
            try:
                demand_safe(word)
            except TextError as error:
                raise PreparingError(f"{word} of {name} {error}; {UNSAFE}") from None
