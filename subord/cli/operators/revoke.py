"""`subord operator revoke`: an operator or a node counts no more, in the whole cluster; or counts again."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.member_choice import operator, printable_reason
from subord.client.orders import order
from subord.client.text import printable


def run(arguments: argparse.Namespace) -> int:
    """Says it at this node, from which it travels to all."""
    what = _what(arguments)
    if arguments.undo:
        ordered = order(arguments, {"action": "unrevoke", **what, "by": operator()})
    else:
        ordered = order(
            arguments, {"action": "revoke", **what, "reason": printable_reason(arguments), "by": operator()}
        )
    ((kind, name),) = what.items()
    said: Document = {
        "schema_version": ordered["schema_version"],
        "kind": kind,
        "what": name,
        "revoked": not arguments.undo,
        "principal": ordered["principal"],
    }
    if arguments.json:
        print(json.dumps(said))
    else:
        print(f"{kind} {printable(name)} is {'no longer revoked' if arguments.undo else 'revoked'}")
    return exit_codes.OK


def _what(arguments: argparse.Namespace) -> dict[str, str]:
    if arguments.node is None:
        return {"operator": arguments.operator}
    from subord.client.node_sets import choice

    return {"node": choice.chosen_one(arguments, arguments.node)}
