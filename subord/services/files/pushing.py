"""One run of `subord files push`: reads files, gives them to the daemon, signs the order, shows what came of it.

Inputs are the options of the command line; outputs are a line for each different outcome with its nodes, the coverage
as the last line, and an exit code that is 0 only if every node has the files.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import secrets
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, lines
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded
from subord.client.naming import names_for
from subord.client.options import socket_path
from subord.client.orders.service_order import signed_order
from subord.client.text import count, printable
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.services.asking import coverage_line
from subord.services.exec.targets import Targets, targets_of
from subord.services.files.listing import NOTHING, contents, listed
from subord.services.files.manifest import Manifest, ManifestError, opening
from subord.services.files.outcome import DONE, SENTENCES, Pushed, decode
from subord.services.files.task import Push, encode
from subord.services.files.upload import upload

SERVICE: Final = "files"
GRACE_S: Final = 5.0
"""For the results to come back, beside the time of the nodes."""


class Told(NamedTuple):
    """An outcome, and the nodes that told it. `pushed` None: it is of another release."""

    pushed: Pushed | None
    addresses: list[str]


class NodesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it on some nodes. `ended`: a word such as `changed`, `unchanged`, `disk full`; the numbers are of
    files, directories and links."""

    nodes: tuple[str, ...]
    ended: str
    made: int
    replaced: int
    adjusted: int
    unchanged: int
    detail: str


def run(arguments: argparse.Namespace) -> int:
    """Raises CommandError: nothing was pushed."""
    paths = [os.fsencode(each) for each in arguments.paths]
    to = _target(arguments, paths)
    targets = targets_of(arguments)
    found = listed(paths, keeps_owners=arguments.preserve)
    try:
        begin = opening(Manifest(to, tuple(each.entry for each in found), arguments.check, arguments.after))
    except ManifestError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None
    tag, left_s = secrets.token_bytes(TAG_BYTES), arguments.time_s + GRACE_S
    pieces = chain((begin,), contents(found))
    blob, source = upload(socket_path(arguments), pieces, tag.hex(), left_s)
    payload = encode(Push(blob, source, arguments.dry_run))
    told, document = list[Told](), None
    for each in _given(arguments, payload, targets, left_s, tag):
        if isinstance(each, Told):
            told.append(each)
        else:
            document = each
    assert document is not None, "an order has an end"
    return _shown(arguments, targets, told, document)


def _target(arguments: argparse.Namespace, paths: list[bytes]) -> bytes:
    """The directory on the nodes: --to, or where the files are here. Raises CommandError."""
    if arguments.to is not None:
        to = os.fsencode(arguments.to)
        if not to.startswith(b"/"):
            raise CommandError(f"--to {arguments.to!r} is not absolute; {NOTHING}", exit_codes.USAGE)
        return os.path.normpath(to)
    folders = {os.path.dirname(os.path.abspath(each)) for each in paths}
    if len(folders) != 1:
        raise CommandError(f"the paths are in several directories: give --to; {NOTHING}", exit_codes.USAGE)
    return folders.pop()


def _given(
    arguments: argparse.Namespace, payload: bytes, targets: Targets, left_s: float, tag: bytes
) -> Iterator[Told | Document]:
    """What nodes tell, and at last the document. Raises CommandError."""
    body = signed_order(arguments, SERVICE, payload, targets.positions, left_s, tag=tag)
    target = f"/v1/{SERVICE}?budget={left_s:.3f}"
    for line in lines(socket_path(arguments), target, left_s + DAEMON_GRACE_S, body):
        if "document" in line:
            document: Document = line["document"]
            yield document
            return
        for each in line["results"]:
            yield Told(decode(base64.b64decode(each["result"])), each["nodes"])


# -- output -----------------------------------------------------------------------------------------------------


def _shown(arguments: argparse.Namespace, targets: Targets, told: list[Told], document: Document) -> int:
    names = names_for(arguments, [each["address"] for each in targets.places], document)
    by_outcome: dict[Pushed, list[str]] = {}
    unread = document["unshown"]
    for each in told:
        if each.pushed is None:
            unread += len(each.addresses)
        else:
            by_outcome.setdefault(each.pushed, []).extend(names.get(one, one) for one in each.addresses)
    ordered = sorted(by_outcome.items(), key=lambda pair: (not pair[0].is_done, -len(pair[1]), pair[0].how))
    is_well = document["complete"] and not unread and all(each.is_done for each in by_outcome)
    if arguments.json:
        nodes = [msgspec.to_builtins(_nodes(*each)) for each in ordered]
        print(json.dumps({**document, "nodes": nodes}))
    elif not (arguments.quiet and is_well):
        for pushed, nodes_of in ordered:
            _say(pushed, nodes_of)
        if unread:
            what = "too many different ones, or of another release"
            to_stderr(f"subord: the results of {count(unread, 'node')} are not shown: {what}")
        for one in document["missing"]:
            one["nodes"] = folded(names.get(address, address) for address in one["addresses"])
        to_stderr(coverage_line(document, "{told} of {asked} ended in {oldest}"))
    return exit_codes.OK if is_well else exit_codes.NOT_REACHED


def _nodes(pushed: Pushed, names: list[str]) -> NodesDocument:
    return NodesDocument(
        nodes=tuple(sorted(names)),
        ended=pushed.how,
        made=pushed.made,
        replaced=pushed.replaced,
        adjusted=pushed.adjusted,
        unchanged=pushed.unchanged,
        detail=pushed.detail,
    )


def _say(pushed: Pushed, names: list[str]) -> None:
    """`10.0.0.[1-9]: changed, 1 made`."""
    where, detail = printable(folded(names)), printable(pushed.detail)
    if pushed.how in DONE:
        counts = (
            (pushed.made, "made"),
            (pushed.replaced, "replaced"),
            (pushed.adjusted, "with another mode or owner"),
            (pushed.unchanged, "as it was"),
        )
        why = f" ({detail})" if detail else ""
        print(", ".join((f"{where}: {pushed.how}", *(f"{number} {what}" for number, what in counts if number))) + why)
    else:
        why = f" ({detail})" if detail else ""
        to_stderr(f"subord: {where}: {SENTENCES.get(pushed.how, printable(pushed.how))}{why}")
