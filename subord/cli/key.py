"""`subord key`: makes the cluster's key, shows which nodes have which keys, and changes keys while the cluster runs.

The first ring is made here and copied to all nodes by hand; later keys travel along the tree. After a change the
command waits until all nodes have the new ring, and exits with NOT_REACHED if some do not.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
import time
from collections.abc import Iterator

from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import Document, add_timeout, ask, change
from subord.client.errors import CommandError
from subord.client.text import columns, count, printable

TIMEOUT_S = 1.0
SHARE = 0.8  # of the time for the nodes; the rest is for the daemon
GRACE_S = 1.0
SPREAD_S_MAX = 20.0
SPREAD_BUDGET_S = 3.0  # half a second is left for the tenth level
SAVED_S_MAX = 1.0  # the time to wait for the nodes' disks
POLL_S = 0.5
NAMED_MAX = 8
KEY_MODE = 0o600


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "key",
        help="make, show and change the cluster's keys",
        description="Make the key that every node needs, show which nodes have which keys, and change them while "
        "the cluster runs: install, then use, then remove the old one (docs/security.md).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "print a new key ring with one key: `subord key generate > FILE`, FILE gets mode 0600"
    actions.add_parser("generate", help=text, description=text)
    _action(actions, "list", "show the keys of this node, and which nodes have them")
    _action(actions, "install", "make a new key that all nodes accept", spreads=True)
    found = _action(actions, "use", "make all nodes seal with this key", spreads=True)
    found.add_argument("key", metavar="KEY", help="its name, as `subord key list` shows it")
    found = _action(actions, "remove", "make all nodes drop this key", spreads=True)
    found.add_argument("key", metavar="KEY", help="its name, as `subord key list` shows it")
    found.add_argument("--force", action="store_true", help="even if some nodes lack the newest ring")


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, *, spreads: bool = False
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    if spreads:
        add_timeout(parser, SPREAD_S_MAX, "time for the key to reach all nodes")
    else:
        add_timeout(parser, TIMEOUT_S, "time for the nodes to answer")
    add_socket(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action; NOT_REACHED when a change has not reached all nodes in time."""
    if arguments.action == "generate":
        return _generate()
    path = socket_path(arguments)
    if arguments.action == "list":
        rings = ask(path, f"/v1/keys?budget={arguments.timeout * SHARE:.3f}", arguments.timeout + GRACE_S)
        print(json.dumps(rings) if arguments.json else "\n".join(text(rings)))
        return exit_codes.OK
    until = time.monotonic() + arguments.timeout
    changed = change(path, _target(arguments))
    found = _wait_for_all(path, changed["revision"], until)
    has_reached_all = found is not None and found.get("complete", True) and _lacking(found, changed["revision"]) == 0
    if arguments.json:
        print(json.dumps({**changed, "everybody": has_reached_all, "nodes": found}))
    else:
        print(_done(arguments.action, changed))
        print(
            "\n".join(text(found))
            if found is not None
            else "no node answers which nodes have it: see `subord key list`"
        )
    return exit_codes.OK if has_reached_all else exit_codes.NOT_REACHED


def _generate() -> int:
    from subord.sealing.keys import keyring_of, new_key, text_of

    about = os.fstat(sys.stdout.fileno())
    if stat.S_ISREG(about.st_mode):
        os.fchmod(sys.stdout.fileno(), KEY_MODE)
    print(text_of(keyring_of(new_key())), end="")
    return exit_codes.OK


def _target(arguments: argparse.Namespace) -> str:
    if arguments.action == "install":
        return "/v1/keys/install"
    if not (arguments.key.isascii() and arguments.key.isalnum()):
        raise CommandError(f"there is no key {arguments.key!r}; `subord key list` shows them", exit_codes.USAGE)
    force = "&force=1" if arguments.action == "remove" and arguments.force else ""
    return f"/v1/keys/{arguments.action}?key={arguments.key}{force}"


def _wait_for_all(path: str, revision: int, until: float) -> Document | None:
    """The last answer about all rings, when all have it or the time is over; None: there was none."""
    found = None
    while True:
        try:
            found = ask(path, f"/v1/keys?budget={SPREAD_BUDGET_S:g}")
        except CommandError as error:
            if error.exit_code not in (exit_codes.TRY_AGAIN, exit_codes.DAEMON_UNREACHABLE):
                raise
        now = time.monotonic()
        if found is not None and found.get("complete", True) and not _lacking(found, revision):
            until = min(until, now + SAVED_S_MAX)
            if not any(ring["unsaved"] for ring in found["rings"]):
                return found
        if now >= until:
            return found
        time.sleep(min(POLL_S, max(0.0, until - time.monotonic())))


def _lacking(found: Document, revision: int) -> int:
    """The number of nodes that have not answered that they have this revision or a newer one."""
    behind: int = sum(ring["nodes"] for ring in found["rings"] if ring["revision"] < revision)
    silent: int = found["silent_nodes"]
    return behind + silent


def _done(action: str, changed: Document) -> str:
    what = {"install": "installed", "use": "in use", "remove": "removed"}[action]
    return f"key {changed['key']} is {what}: revision {changed['revision']} of the key ring"


def text(found: Document) -> list[str]:
    """The table for display."""
    of = sum(ring["nodes"] for ring in found["rings"]) + found["silent_nodes"]
    rows = [["revision", "primary", "other keys", "nodes", ""]]
    for number, ring in enumerate(found["rings"]):
        primary, *others = ring["keys"]
        notes = [] if number == 0 else [_named(ring["addresses"], ring["nodes"])]
        notes += [f"{count(ring['unsaved'], 'node')} would lose it at a restart"] if ring["unsaved"] else []
        rows.append(
            [str(ring["revision"]), primary, " ".join(others) or "-", f"{ring['nodes']} of {of}", "; ".join(notes)]
        )
    note = [f"incomplete: {printable(found['note'])}"] if found.get("note") else []
    return [*note, *columns(rows), *_silent(found)]


def _silent(found: Document) -> Iterator[str]:
    if found["silent_nodes"]:
        names = _named(found["silent"], found["silent_nodes"])
        yield f"no answer from {count(found['silent_nodes'], 'node')}: {names}"


def _named(addresses: list[str], nodes: int) -> str:
    some = addresses[:NAMED_MAX]
    return ", ".join(some) + (f" and {nodes - len(some)} more" if nodes > len(some) else "")
