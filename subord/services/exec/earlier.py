"""The actions of `subord exec` on orders that were given before: `--list`, `--cancel`, `--attach` and `--fetch`.

Listing, cancelling and fetching are signed orders to the agents themselves; what follows a command asks the daemon of
this node alone, has no effect on the order, and is for root and the daemon's own user, because nothing is signed.
Inputs are the options, the tag, and for `--fetch` the node; outputs are a line for each command with the nodes where
it runs, what was ended, what the command shows, or the two streams that a node has kept, as they were written.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.daemon import Document, lines
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded, in_order
from subord.client.member_choice import chosen_places
from subord.client.naming import names_for
from subord.client.options import socket_path
from subord.client.text import printable
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.causes import BUSY
from subord.services import giving
from subord.services.asking import coverage_line, say_coverage, say_unshown
from subord.services.exec.giving import SERVICE, give, payload_of
from subord.services.exec.outcome import (
    EXITED,
    NOT_RUNNING,
    SENTENCES,
    Command,
    Ended,
    Listing,
    Piece,
    Result,
    decode,
)
from subord.services.exec.results import Results
from subord.services.exec.showing import failures
from subord.services.exec.targets import Targets, targets_of
from subord.services.exec.task import Fetch, List, Stop, Task
from subord.services.giving import Told

ANSWER_S: Final = 5.0
BUSY_S: Final = 1.0
BUSY_TIMES_MAX: Final = 10
FOLLOWED_S_MAX: Final = 90_000.0
"""Longer than any command."""
UNREAD: Final = Ended("the answer is of another release")


class RunningLine(msgspec.Struct, frozen=True, kw_only=True):
    """A command that runs. `words`: the begin of it. `nodes`: where it runs."""

    schema_version: int = SCHEMA_VERSION
    tag: str
    principal: str
    user: str
    words: str
    nodes: tuple[str, ...]


def tag_of(text: str) -> bytes:
    """Of an order, as the command shows it. Raises CommandError."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != TAG_BYTES:
        raise CommandError(f"{text!r} is no tag: it has {2 * TAG_BYTES} hexadecimal digits", exit_codes.USAGE)
    return found


def act(arguments: argparse.Namespace) -> int:
    """The exit code. Raises CommandError."""
    if arguments.fetch is not None:
        return fetch(arguments, *arguments.fetch)
    if arguments.attach is not None:
        return follow(arguments, arguments.attach)
    return list_running(arguments) if arguments.list else cancel(arguments, arguments.cancel)


def list_running(arguments: argparse.Namespace) -> int:
    """Print the commands that run; NOT_REACHED if a node has not listed its own. Raises CommandError."""
    told, document = _asked(arguments, List())
    nodes: dict[Command, list[str]] = defaultdict(list)
    for each in told:
        for command in each.result.commands if isinstance(each.result, Listing) else ():
            nodes[command] += each.addresses
    names = names_for(arguments, sorted({one for each in nodes.values() for one in each}))
    for command, addresses in sorted(nodes.items(), key=lambda each: each[0].tag):
        shown = sorted((names.get(each, each) for each in addresses), key=in_order)
        print(_json(command, shown) if arguments.json else _line(command, shown))
    return _closed(arguments, document, _failed(told, lambda result: isinstance(result, Listing)))


def cancel(arguments: argparse.Namespace, text: str) -> int:
    """End a command on the nodes; NOT_REACHED if it may go on at one; NO_SUCH_NODE if it runs on none. Raises
    CommandError."""
    told, document = _asked(arguments, Stop(tag_of(text)))
    failed = _failed(told, lambda result: isinstance(result, Ended) and result.how in (EXITED, NOT_RUNNING))
    code = _closed(arguments, document, failed)
    stopped = sum(
        len(each.addresses) for each in told if isinstance(each.result, Ended) and each.result.how == EXITED
    )
    if not stopped and not failed and not document["unshown"]:
        raise CommandError(f"{text}: {NOT_RUNNING} on any node that has answered", exit_codes.NO_SUCH_NODE)
    to_stderr(f"subord: ended on {stopped} of {document['told']} nodes")
    return code


def _failed(told: list[Told[Result]], is_done: Callable[[Result | None], bool]) -> list[tuple[Ended, list[str]]]:
    """The nodes that have answered, but have not done as asked, and why."""
    others = [each for each in told if not is_done(each.result)]
    return [
        (each.result if isinstance(each.result, Ended) and each.result.code else UNREAD, each.addresses)
        for each in others
    ]


def _asked(arguments: argparse.Namespace, task: Task) -> tuple[list[Told[Result]], Document]:
    """Of all members, if no nodes are named."""
    named = (arguments.nodes, arguments.group, arguments.below, arguments.state, arguments.exclude)
    arguments.all = arguments.all or not any(named)
    tag = secrets.token_bytes(TAG_BYTES)
    return giving.to_the_end(give(arguments, payload_of(task), targets_of(arguments), ANSWER_S, tag))


def _closed(arguments: argparse.Namespace, document: Document, failed: list[tuple[Ended, list[str]]]) -> int:
    """Name the nodes that have not done as asked, and those that are missing; NOT_REACHED if there are some."""
    names = names_for(arguments, document, [addresses for _, addresses in failed])
    for line in failures((ended, [names.get(each, each) for each in addresses]) for ended, addresses in failed):
        to_stderr(f"subord: {line}")
    say_unshown(document["unshown"], "too many different ones; ask fewer nodes")
    is_well = document["complete"] and not document["unshown"] and not failed
    if not arguments.quiet or not is_well:
        say_coverage(document, names, "{told} of {asked} answered in {oldest}")
    return exit_codes.OK if is_well else exit_codes.NOT_REACHED


def _line(command: Command, nodes: list[str]) -> str:
    head = f"{command.tag.hex()}  {command.principal} as {command.user}  {folded(nodes)}  {command.words}"
    return printable(head)


def _json(command: Command, nodes: list[str]) -> str:
    line = RunningLine(
        tag=command.tag.hex(),
        principal=command.principal,
        user=command.user,
        words=command.words,
        nodes=tuple(nodes),
    )
    return msgspec.json.encode(line).decode()


# -- a command that waits on this node --------------------------------------------------------------------------


def follow(arguments: argparse.Namespace, text: str) -> int:
    """The exit code, as of the command. Raises CommandError."""
    tag = tag_of(text)
    results = Results(arguments, names_for(arguments))
    target = f"/v1/{SERVICE}/follow?tag={tag.hex()}"
    results.take_all(giving.told(lines(socket_path(arguments), target, FOLLOWED_S_MAX, b""), decode), tag)
    return results.close()


# -- output that a node has kept --------------------------------------------------------------------------------


def fetch(arguments: argparse.Namespace, tag: str, node: str) -> int:
    """Raises CommandError."""
    of = tag_of(tag)
    places = chosen_places(arguments, [node])
    if len(places) != 1:
        raise CommandError(f"--fetch takes one node, not {len(places)}", exit_codes.USAGE)
    for stream, out in ((1, sys.stdout), (2, sys.stderr)):
        offset = size = -1
        while offset < size or size < 0:
            offset = max(0, offset)
            piece = _piece(arguments, Fetch(of, stream, offset), Targets(places, False), node)
            out.buffer.write(piece.data)
            offset, size = offset + len(piece.data), piece.size
            if not piece.data:
                break
        out.flush()
    return exit_codes.OK


def _piece(arguments: argparse.Namespace, task: Fetch, targets: Targets, node: str) -> Piece:
    for _ in range(BUSY_TIMES_MAX):
        found = _asked_for(arguments, task, targets, node)
        if found is not None:
            return found
        time.sleep(BUSY_S)
    raise CommandError(f"{node} is busy, perhaps it checks too many signatures; try again", exit_codes.TRY_AGAIN)


def _asked_for(arguments: argparse.Namespace, task: Fetch, targets: Targets, node: str) -> Piece | None:
    """None: the node checks no more signatures just now. Raises CommandError."""
    for each in give(arguments, payload_of(task), targets, ANSWER_S, secrets.token_bytes(TAG_BYTES)):
        if not isinstance(each, Told):
            if [one["cause"] for one in each["missing"]] == [BUSY]:
                return None
            for missing in each["missing"]:
                missing["nodes"] = node
            raise CommandError(coverage_line(each, "{told} of {asked} answered"), exit_codes.NOT_REACHED)
        if isinstance(each.result, Piece):
            return each.result
        how = each.result.how if isinstance(each.result, Ended) else ""
        raise CommandError(f"{node}: {SENTENCES.get(how, 'it runs another release')}", exit_codes.NOT_REACHED)
    raise AssertionError("an order has an end")
