"""`subord key`: makes the cluster's key, shows which nodes have which keys, and changes keys while the cluster runs.

The first ring is made here and copied to all nodes by hand; later rings are signed by an operator, and travel along
the tree. After a change the command waits until all nodes have the new ring; NOT_REACHED: some do not.
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
from subord.client.daemon import NODES_TIMEOUT_S, Document, ask, asked_of_all
from subord.client.errors import CommandError
from subord.client.options import add_asking, add_json, socket_path
from subord.client.orders import order
from subord.client.orders.signing import add_key_option
from subord.client.text import columns, count, printable

SPREAD_S_MAX = 60.0
"""More than a new root may need until it knows all members that it can know: it says so, and is asked again."""
SPREAD_BUDGET_S = 3.0
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
    add_json(parser)
    if spreads:
        add_key_option(parser)
        add_asking(parser, SPREAD_S_MAX, "time for the key to reach all nodes")
    else:
        add_asking(parser, NODES_TIMEOUT_S, "time for the nodes to answer")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action; NOT_REACHED when a change has not reached all nodes in time."""
    if arguments.action == "generate":
        return _generate()
    if arguments.action == "list":
        rings = asked_of_all(arguments, "/v1/keys")
        print(json.dumps(rings) if arguments.json else "\n".join(text(rings)))
        return exit_codes.OK
    path, ordered = socket_path(arguments), order(arguments, _action_of(arguments))
    until = time.monotonic() + arguments.timeout  # the operator has signed
    changed = {key: ordered[key] for key in ("schema_version", "key", "revision", "principal")}
    found = _wait_for_all(path, changed["revision"], until)
    has_reached_all = found is not None and _have_all(found, changed["revision"])
    if arguments.json:
        print(json.dumps(_json(changed, found, has_reached_all)))
    else:
        print(_done(arguments.action, changed))
        nothing = ["no node answers which nodes have it: see `subord key list`"]
        print("\n".join(nothing if found is None else text(found)))
    return exit_codes.OK if has_reached_all else exit_codes.NOT_REACHED


def _json(changed: Document, found: Document | None, has_reached_all: bool) -> Document:
    """With the old names `everybody` and `nodes`, and `error` and `passing`, which 0.4 drops."""
    new = {"confirmed": has_reached_all, "coverage": found, "error": None, "passing": False}
    return {**changed, **new, "everybody": has_reached_all, "nodes": found}


def _generate() -> int:
    from subord.sealing.keys import keyring_of, new_key, text_of

    about = os.fstat(sys.stdout.fileno())
    if stat.S_ISREG(about.st_mode):
        os.fchmod(sys.stdout.fileno(), KEY_MODE)
    print(text_of(keyring_of(new_key())), end="")
    return exit_codes.OK


def _action_of(arguments: argparse.Namespace) -> dict[str, str]:
    if arguments.action == "install":
        return {"action": "ring-install"}
    if not (arguments.key.isascii() and arguments.key.isalnum()):
        raise CommandError(f"there is no key {arguments.key!r}; `subord key list` shows them", exit_codes.USAGE)
    force = {"force": "1"} if arguments.action == "remove" and arguments.force else {}
    return {"action": f"ring-{arguments.action}", "key": arguments.key, **force}


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
        if found is not None and _have_all(found, revision):
            until = min(until, now + SAVED_S_MAX)
            if not any(ring["unsaved"] for ring in found["rings"]):
                return found
        if now >= until:
            return found
        time.sleep(min(POLL_S, max(0.0, until - time.monotonic())))


def _have_all(found: Document, revision: int) -> bool:
    """Whether all nodes have answered that they have this revision or a newer one."""
    is_behind = any(ring["revision"] < revision for ring in found["rings"])
    return found.get("complete", True) and not found["silent_nodes"] and not is_behind


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
        yield f"no answer from {count(found['silent_nodes'], 'node')}: {names}{_causes(found)}"


def _causes(found: Document) -> str:
    """ " (silent)"; nodes that are down are not waited for."""
    missing = (found.get("coverage") or {}).get("missing", [])  # an older daemon tells none
    causes = [each["cause"] for each in missing if set(each["addresses"]) & set(found["silent"])]
    return f" ({', '.join(map(printable, causes))})" if causes else ""


def _named(addresses: list[str], nodes: int) -> str:
    some = addresses[:NAMED_MAX]
    return ", ".join(some) + (f" and {nodes - len(some)} more" if nodes > len(some) else "")
