"""One run of `subord files push`: reads files, gives them to the daemon, signs the order, shows what came of it.

Inputs are the options of the command line; outputs are a line for each different outcome with its nodes, the coverage
as the last line, and an exit code that is 0 only if every node has the files.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections import defaultdict
from itertools import chain
from typing import Final

import msgspec

from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded
from subord.client.naming import names_for
from subord.client.options import socket_path
from subord.client.text import printable
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.services.asking import say_coverage, say_unshown
from subord.services.exec.targets import Targets, targets_of
from subord.services.files.listing import NOTHING, contents, listed
from subord.services.files.manifest import Manifest, ManifestError, opening
from subord.services.files.outcome import DONE, SENTENCES, Pushed, decode
from subord.services.files.task import Push, encode
from subord.services.files.upload import upload
from subord.services.giving import Heard, give, heard

SERVICE: Final = "files"
GRACE_S: Final = 5.0
"""For the results to come back, beside the time of the nodes."""


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
    given = give(arguments, SERVICE, payload, targets.positions, decode, left_s=left_s, tag=tag)
    return _shown(arguments, targets, heard(given))


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


# -- output -----------------------------------------------------------------------------------------------------


def _shown(arguments: argparse.Namespace, targets: Targets, said: Heard[Pushed]) -> int:
    names = names_for(arguments, [each["address"] for each in targets.places], said.document)
    by_outcome = defaultdict[Pushed, list[str]](list)
    for result, addresses in said.results:
        by_outcome[result] += [names.get(one, one) for one in addresses]
    ordered = sorted(by_outcome.items(), key=lambda pair: (not pair[0].is_done, -len(pair[1]), pair[0].how))
    is_well = said.document["complete"] and not said.unread and all(each.is_done for each in by_outcome)
    if arguments.json:
        nodes = [msgspec.to_builtins(_nodes(*each)) for each in ordered]
        print(json.dumps({**said.document, "nodes": nodes}))
    elif not (arguments.quiet and is_well):
        for pushed, nodes_of in ordered:
            _say(pushed, nodes_of)
        say_unshown(said.unread)
        say_coverage(said.document, names, "{told} of {asked} ended in {oldest}")
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
