"""`subord exec --list` and `--cancel`: the commands that run on nodes, and the end of one.

Both are signed orders to the agents. Inputs are the options and the tag; outputs are a line for each command with the
nodes where it runs, or what has been ended.
"""

from __future__ import annotations

import argparse
import secrets
from collections import defaultdict
from typing import Final

import msgspec

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded, in_order
from subord.client.naming import names_for
from subord.client.text import printable
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.services.asking import coverage_line
from subord.services.exec.giving import give, payload_of
from subord.services.exec.outcome import EXITED, NOT_RUNNING, Command, Ended, Listing, Result
from subord.services.exec.targets import targets_of
from subord.services.exec.task import List, Stop, Task
from subord.services.giving import Told

ANSWER_S: Final = 5.0


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


def list_running(arguments: argparse.Namespace) -> int:
    """Print the commands that run; NOT_REACHED if a node has not answered. Raises CommandError."""
    told, document = _asked(arguments, List())
    nodes: dict[Command, list[str]] = defaultdict(list)
    for each in told:
        for command in each.result.commands if isinstance(each.result, Listing) else ():
            nodes[command] += each.addresses
    names = names_for(arguments, sorted({one for each in nodes.values() for one in each}))
    for command, addresses in sorted(nodes.items(), key=lambda each: each[0].tag):
        shown = sorted((names.get(each, each) for each in addresses), key=in_order)
        print(_json(command, shown) if arguments.json else _line(command, shown))
    return _closed(arguments, document)


def cancel(arguments: argparse.Namespace, text: str) -> int:
    """End a command on the nodes; NO_SUCH_NODE if it runs on none. Raises CommandError."""
    told, document = _asked(arguments, Stop(tag_of(text)))
    ended = [each for each in told if isinstance(each.result, Ended)]
    stopped = sum(
        len(each.addresses) for each in ended if isinstance(each.result, Ended) and each.result.how == EXITED
    )
    _closed(arguments, document)
    if stopped:
        to_stderr(f"subord: ended on {stopped} of {document['told']} nodes")
        return exit_codes.OK if document["complete"] else exit_codes.NOT_REACHED
    raise CommandError(f"{text}: {NOT_RUNNING} on any node that has answered", exit_codes.NO_SUCH_NODE)


def _asked(arguments: argparse.Namespace, task: Task) -> tuple[list[Told[Result]], Document]:
    """Of all members, if no nodes are named."""
    named = (arguments.nodes, arguments.group, arguments.below, arguments.state, arguments.exclude)
    arguments.all = arguments.all or not any(named)
    told: list[Told[Result]] = []
    tag = secrets.token_bytes(TAG_BYTES)
    for each in give(arguments, payload_of(task), targets_of(arguments), ANSWER_S, tag):
        if not isinstance(each, Told):
            return told, each
        told.append(each)
    raise AssertionError("an order has an end")


def _closed(arguments: argparse.Namespace, document: Document) -> int:
    names = names_for(arguments, document)
    for each in document["missing"]:
        each["nodes"] = folded(names.get(one, one) for one in each["addresses"])
    if not arguments.quiet or not document["complete"]:
        to_stderr(coverage_line(document, "{told} of {asked} answered in {oldest}"))
    return exit_codes.OK if document["complete"] else exit_codes.NOT_REACHED


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
