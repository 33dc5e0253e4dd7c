"""`subord files publish`, `rollback` and `withdraw`: a new version of a set, and what came of it on the nodes.

Inputs are the options of the command line, files of this host, and the sets that the daemon knows; output is a
document that the operator signs. Invariant: a version that is signed names all of its files by their hash, and is one
more than the version that it replaces, so of two operators at once one is told that the other one was first.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

import msgspec

from subord.client import exit_codes
from subord.client.daemon import asked, change
from subord.client.errors import CommandError
from subord.client.options import socket_path
from subord.client.orders import signing
from subord.client.text import printable
from subord.core.carriage.documents import is_within_bounds
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Order, namespace_for, signed_content
from subord.core.carriage.published import (
    BY_CHARS_MAX,
    NAME_CHARS,
    SETS_MAX,
    WITHDRAWN,
    Content,
    Past,
    Published,
    order_of,
    read,
)
from subord.services.exec.targets import Targets, targets_of
from subord.services.exec.words import NOTHING as NOTHING_RUN
from subord.services.files.listing import NOTHING as NOTHING_PUSHED
from subord.services.files.listing import Listed, contents, listed
from subord.services.files.manifest import DIRECTORY, Manifest, ManifestError, opening, shown
from subord.services.files.pushing import GRACE_S, SERVICE
from subord.services.files.sets.known import Known, hear, known_set, known_sets
from subord.services.files.sets.showing import show_published
from subord.services.files.task import Await
from subord.services.files.upload import upload

NOTHING: Final = "nothing was published"
KEEP_S: Final = 60.0
"""For so long the daemon keeps the blob without the document that names it."""
_NAME = re.compile(r"[0-9a-z]+")


def publish(arguments: argparse.Namespace) -> int:
    """Raises CommandError: nothing was published."""
    name = arguments.name
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARS:
        what = f"a name has 1 to {NAME_CHARS} lower-case letters and digits"
        raise CommandError(f"{name!r} is no name of a set: {what}; {NOTHING}", exit_codes.USAGE)
    to = _directory(arguments)
    with _words():
        targets = targets_of(arguments)
        found = _files(os.fsencode(arguments.directory), to, keeps_owners=arguments.preserve)
    sets = known_sets(arguments)
    said = Published(to, _pairs(targets), Content(WITHDRAWN, 1, 0, 0), arguments.replace)
    _check(name, said, sets)
    content = _uploaded(arguments, said, found)
    return _publish(arguments, name, msgspec.structs.replace(said, content=content), sets.get(name))


def rollback(arguments: argparse.Namespace) -> int:
    """Publish the files of an earlier version again. Raises CommandError: nothing was published."""
    known = known_set(arguments, arguments.name)
    now = known.said.content
    for each in known.said.past:
        is_wanted = each.content.blob not in (now.blob, WITHDRAWN)
        if each.version == arguments.version if arguments.version is not None else is_wanted:
            if each.content.blob == WITHDRAWN:
                raise CommandError(f"version {each.version} had no files; {NOTHING}", exit_codes.USAGE)
            content = msgspec.structs.replace(each.content, of=each.content.of or each.version)
            said = msgspec.structs.replace(known.said, content=content)
            _check(known.name, said, known_sets(arguments))
            return _publish(arguments, known.name, said, known)
    which = "an earlier version" if arguments.version is None else f"version {arguments.version}"
    text = f"the set {known.name} has not {which} any more; `subord files history {known.name}` shows all; {NOTHING}"
    raise CommandError(text, exit_codes.USAGE)


def withdraw(arguments: argparse.Namespace) -> int:
    """The nodes look after the files no more, which stay. Raises CommandError: nothing was changed."""
    known = known_set(arguments, arguments.name)
    if known.said.is_withdrawn:
        raise CommandError(f"the set {known.name} is withdrawn already", exit_codes.USAGE)
    said = msgspec.structs.replace(known.said, content=Content(WITHDRAWN, 1, 0, 0))
    given = _give(arguments, known.name, said, known)
    print(f"{known.name} version {given.version}: withdrawn; its files stay where they are")
    return exit_codes.OK


# -- what is published ------------------------------------------------------------------------------------------


def _directory(arguments: argparse.Namespace) -> bytes:
    """The directory on the nodes: --to, or where it is here. Raises CommandError."""
    to = os.fsencode(os.path.abspath(arguments.directory) if arguments.to is None else arguments.to)
    if not to.startswith(b"/"):
        raise CommandError(f"--to {arguments.to!r} is not absolute; {NOTHING}", exit_codes.USAGE)
    to = b"/" + os.path.normpath(to).strip(b"/")
    if to == b"/":
        raise CommandError(f"a set needs a directory of its own, and / is none; {NOTHING}", exit_codes.USAGE)
    return to


def _files(directory: bytes, to: bytes, *, keeps_owners: bool) -> list[Listed]:
    """The directory, under the last name of `to`, and all that is in it. Raises CommandError."""
    found = listed([directory], keeps_owners=keeps_owners)
    if found[0].entry.kind != DIRECTORY:
        raise CommandError(f"{shown(directory)} is no directory; {NOTHING}", exit_codes.USAGE)
    old, new = len(found[0].entry.path), os.path.basename(to)
    return [
        each._replace(entry=msgspec.structs.replace(each.entry, path=new + each.entry.path[old:])) for each in found
    ]


def _pairs(targets: Targets) -> tuple[tuple[int, int], ...] | None:
    return None if targets.is_every else Ranges.of(each["position"] for each in targets.places).pairs


def _check(name: str, said: Published, sets: dict[str, Known]) -> None:
    """Raises CommandError: the set would not be taken."""
    before = sets.get(name)
    if before is not None and not before.said.is_withdrawn and before.said.to != said.to:
        text = f"the set {name} is at {shown(before.said.to)}: withdraw it first, or take another name; {NOTHING}"
        raise CommandError(text, exit_codes.USAGE)
    others = [each for each in sets.values() if each.name != name and not each.said.is_withdrawn]
    for each in others:
        mine, theirs = said.targets, each.said.targets
        if each.said.overlaps(said) and (mine is None or theirs is None or mine & theirs):
            text = f"the directory is that of the set {each.name}, {shown(each.said.to)}, or overlaps it; {NOTHING}"
            raise CommandError(text, exit_codes.USAGE)
    if len(others) >= SETS_MAX:
        raise CommandError(
            f"there are {SETS_MAX} sets, and no more are taken: withdraw one; {NOTHING}", exit_codes.NOT_REACHED
        )


def _uploaded(arguments: argparse.Namespace, said: Published, found: list[Listed]) -> Content:
    entries = tuple(each.entry for each in found)
    try:
        begin = opening(Manifest(said.folder, entries, arguments.check, arguments.after))
    except ManifestError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None
    with _words():
        holder = secrets.token_hex(TAG_BYTES)
        blob, source = upload(socket_path(arguments), chain((begin,), contents(found)), holder, KEEP_S)
    return Content(blob, source, len(entries), sum(each.carried_bytes for each in entries))


@contextmanager
def _words() -> Iterator[None]:
    """The errors of a push, in the words of this command."""
    try:
        yield
    except CommandError as error:
        text = str(error).replace(NOTHING_PUSHED, NOTHING).replace(NOTHING_RUN, NOTHING)
        raise CommandError(text, error.exit_code) from None


# -- the document -----------------------------------------------------------------------------------------------


def _publish(arguments: argparse.Namespace, name: str, said: Published, before: Known | None) -> int:
    """Give the next version, and show what came of it; NOT_REACHED if a node lacks it."""
    order = _give(arguments, name, said, before)
    published = read(order)
    assert published is not None, "the daemon has taken it"
    known = Known(name, order, published, "", False)
    if not arguments.wait:
        return show_published(arguments, known, None)
    wait_ms = int(arguments.time_s * 1000)
    heard = hear(arguments, Await(known.wanted, wait_ms), known.positions, arguments.time_s + GRACE_S)
    now = known_sets(arguments).get(name)
    code = show_published(arguments, known, heard)
    if now is not None and now.wanted != known.wanted:
        who = printable(now.principal) or "another operator"
        which = f"version {now.order.version} of {who}"
        text = f"{which} counts, and not this one, which was published at the same time: publish again to replace it"
        raise CommandError(text, exit_codes.NOT_REACHED)
    return code


def _give(arguments: argparse.Namespace, name: str, said: Published, before: Known | None) -> Order:
    """Sign the next version, and give it to the daemon. Raises CommandError: nothing was published."""
    version, at_ms = 1, int(time.time() * 1000)
    if before is not None:
        version, at_ms = before.order.version + 1, max(at_ms, before.order.at_ms + 1)
        last = Past(before.order.version, before.order.at_ms, before.principal[:BY_CHARS_MAX], before.said.content)
        said = msgspec.structs.replace(said, past=(last, *before.said.past))
    order = order_of(name, version, at_ms, said)
    if read(order) is None or not is_within_bounds(order):
        text = f"the nodes are too many separate ones, or the directory has too long a name; {NOTHING}"
        raise CommandError(text, exit_codes.USAGE)
    cluster = asked(arguments, f"/v1/{SERVICE}")
    namespace = namespace_for(order.name)
    signature = signing.sign(signed_content((cluster["name"], cluster["network"]), order), namespace, arguments)
    fields = {**order._asdict(), "body": _text(order.body), "signature": _text(signature)}
    change(socket_path(arguments), "/v1/orders", body=json.dumps({"orders": [fields]}).encode())
    return order


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
