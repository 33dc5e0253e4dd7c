"""Gives one signed order of a service whose answer is live (live.py), and yields what nodes tell, as it comes.

Inputs are the options of the command, the service, its payload and the targets; outputs are results with their nodes,
and at last the document. A thread reads what the daemon sends, so a reader of this command's output that pauses, as a
pager does, holds up nothing. When this process ends, the connection ends, and with it the order.
"""

from __future__ import annotations

import argparse
import base64
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from subord.client.daemon import DAEMON_GRACE_S, Document, lines
from subord.client.options import socket_path
from subord.client.orders.service_order import signed_order

Result = TypeVar("Result")


class Told(NamedTuple, Generic[Result]):
    """A result, and the nodes that told it. `result` None: it is of another release."""

    result: Result | None
    addresses: list[str]


class Heard(NamedTuple, Generic[Result]):
    """All results with their nodes, and the document with the coverage. `unread`: nodes whose results are of another
    release, or were left out."""

    results: list[tuple[Result, list[str]]]
    document: Document
    unread: int


def give(
    arguments: argparse.Namespace,
    service: str,
    payload: bytes,
    positions: str | None,
    decode: Callable[[bytes], Result | None],
    *,
    left_s: float,
    tag: bytes,
) -> Iterator[Told[Result] | Document]:
    """`positions`: of the targets; None: all members. `decode`: the results of the service. Raises CommandError."""
    body = signed_order(arguments, service, payload, positions, left_s, tag=tag)
    target = f"/v1/{service}?budget={left_s:.3f}"
    yield from told(lines(socket_path(arguments), target, left_s + DAEMON_GRACE_S, body), decode)


def told(source: Iterator[Document], decode: Callable[[bytes], Result | None]) -> Iterator[Told[Result] | Document]:
    """What the lines of a live answer say."""
    for line in _read_ahead(source):
        if "document" in line:
            document: Document = line["document"]
            yield document
            return
        for each in line["results"]:
            yield Told(decode(base64.b64decode(each["result"])), each["nodes"])


def to_the_end(given: Iterator[Told[Result] | Document]) -> tuple[list[Told[Result]], Document]:
    """Waits for the document."""
    found: list[Told[Result]] = []
    for each in given:
        if not isinstance(each, Told):
            return found, each
        found.append(each)
    raise AssertionError("an order has an end")


def heard(given: Iterator[Told[Result] | Document]) -> Heard[Result]:
    """The same, without results of another release."""
    found, document = to_the_end(given)
    results = [(each.result, each.addresses) for each in found if each.result is not None]
    unread = sum(len(each.addresses) for each in found if each.result is None)
    return Heard(results, document, unread + document["unshown"])


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
