"""Gives one order of `subord exec`: its payload, and how long nodes have for it.

Inputs are the options of the command, the task and the targets; outputs are results with their nodes, as they come,
and at last the document (services/giving.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.core.carriage.engine.bounds import PAYLOAD_BYTES_MAX
from subord.services import giving
from subord.services.exec.outcome import Result, decode
from subord.services.exec.targets import Targets
from subord.services.exec.task import Task, TooLargeError, encode
from subord.services.exec.words import NOTHING
from subord.services.giving import Told

SERVICE: Final = "exec"
GRACE_S: Final = 15.0
"""For the order to reach the nodes, and their results to come back, beside the time of the command."""


def payload_of(task: Task) -> bytes:
    """Raises CommandError."""
    try:
        return encode(task)
    except TooLargeError as error:
        advice = f"an order carries {PAYLOAD_BYTES_MAX} bytes; bring more to the nodes as a file"
        raise CommandError(f"{error}: {advice}; {NOTHING}", exit_codes.USAGE) from None


def give(
    arguments: argparse.Namespace, payload: bytes, targets: Targets, time_s: float, tag: bytes
) -> Iterator[Told[Result] | Document]:
    """What nodes tell, and at last the document. Raises CommandError."""
    return giving.give(arguments, SERVICE, payload, targets.positions, decode, left_s=time_s + GRACE_S, tag=tag)
