"""Gives one order of `subord exec`: signs it, and yields what nodes tell, as it comes.

Inputs are the options of the command, the task and the targets; outputs are results with their nodes, and at last the
document. A thread reads what the daemon sends, so a reader of this command's output that pauses, as a pager does,
holds up nothing. When this process ends, the connection ends, and with it the order.
"""

from __future__ import annotations

import argparse
import base64
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Final, NamedTuple

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, lines
from subord.client.errors import CommandError
from subord.client.options import socket_path
from subord.client.orders.service_order import signed_order
from subord.core.carriage.engine.bounds import PAYLOAD_BYTES_MAX
from subord.services.exec.outcome import Result, decode
from subord.services.exec.targets import Targets
from subord.services.exec.task import Task, TooLargeError, encode
from subord.services.exec.words import NOTHING

SERVICE: Final = "exec"
GRACE_S: Final = 15.0
"""For the order to reach the nodes, and their results to come back, beside the time of the command."""


class Told(NamedTuple):
    """A result, and the nodes that told it. `result` None: it is of another release."""

    result: Result | None
    addresses: list[str]


def payload_of(task: Task) -> bytes:
    """Raises CommandError."""
    try:
        return encode(task)
    except TooLargeError as error:
        advice = f"an order carries {PAYLOAD_BYTES_MAX} bytes; bring more to the nodes as a file"
        raise CommandError(f"{error}: {advice}; {NOTHING}", exit_codes.USAGE) from None


def give(
    arguments: argparse.Namespace, payload: bytes, targets: Targets, time_s: float, tag: bytes
) -> Iterator[Told | Document]:
    """What nodes tell, and at last the document. Raises CommandError."""
    left_s = time_s + GRACE_S
    body = signed_order(arguments, SERVICE, payload, targets.positions, left_s, tag=tag)
    target = f"/v1/{SERVICE}?budget={left_s:.3f}"
    for line in _read_ahead(lines(socket_path(arguments), target, left_s + DAEMON_GRACE_S, body)):
        if "document" in line:
            document: Document = line["document"]
            yield document
            return
        for each in line["results"]:
            yield Told(decode(base64.b64decode(each["result"])), each["nodes"])


def _read_ahead(source: Iterator[Document]) -> Iterator[Document]:
    """The same, read by a thread until the document has come. What is held is bounded by that of an answer."""
    queue: SimpleQueue[Document | BaseException] = SimpleQueue()

    def read() -> None:
        try:
            for line in source:
                queue.put(line)
                if "document" in line:
                    return
        except BaseException as error:  # noqa: ASYNC103 - raised again below
            queue.put(error)  # noqa: ASYNC104

    threading.Thread(target=read, daemon=True).start()
    while True:
        found = queue.get()
        if isinstance(found, BaseException):
            raise found
        yield found
