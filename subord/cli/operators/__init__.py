"""`subord operator`: checks and explains which operators may order what, and revokes operators and nodes.

Each action is a module with `run`; this one describes their arguments.
"""

from __future__ import annotations

import argparse
import importlib

from subord.client.options import add_asking, add_json
from subord.client.orders.signing import add_key_option

ACTIONS = {
    "check": "subord.cli.operators.check",
    "who": "subord.cli.operators.who",
    "sign": "subord.cli.operators.dry_run",
    "revoke": "subord.cli.operators.revoke",
    "revoked": "subord.cli.operators.who",
    "strict": "subord.cli.operators.strict",
}
FILE = "/etc/subord/allowed_signers"  # the same as in the daemon
POWERS = ("files", "hosts", "identity", "keys", "members", "metrics", "plans", "shares")  # the same


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "operator",
        help="check, show and revoke operators",
        description="Check and show which operators may order what, try a signature, and revoke operators and nodes. "
        "Operators are known by their SSH keys (docs/security.md).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = _action(
        actions, "check", "check an operators file", "Check a file without a daemon: owner, mode, and each line."
    )
    check.add_argument("file", metavar="FILE", nargs="?", default=FILE, help=f"the file (default: {FILE})")
    who = "Show the operators that the node takes orders from, their powers, and which keys of yours are among them."
    add_asking(_action(actions, "who", "show the operators of this node", who))
    text = "Sign a test order of each power and have the node judge it. Nothing is stored or sent."
    sign = _action(actions, "sign", "try a signature", text)
    sign.add_argument("--dry-run", action="store_true", required=True, help="required: other commands sign orders")
    sign.add_argument(
        "--power", choices=POWERS, action="append", help="only this power; may be given several times (default: all)"
    )
    add_key_option(sign)
    add_asking(sign)
    _add_revoke(actions)
    add_asking(_action(actions, "revoked", "list what is revoked", "List the revoked operators and nodes."))
    text = (
        "Switch strict mode on or off in the whole cluster. When it is on, nodes without identity are refused, as "
        "are all older releases. It needs the power identity."
    )
    strict = _action(actions, "strict", "refuse nodes without identity, or take them again", text)
    strict.add_argument("to", metavar="STATE", choices=("on", "off"), help="on or off")
    add_key_option(strict)
    add_asking(strict)


def _add_revoke(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = (
        "Revoke an operator or a node in the whole cluster. Orders that a revoked operator signed are dropped, and "
        "later ones are refused; a key ring in use stays in use. It needs the power identity."
    )
    revoke = _action(actions, "revoke", "revoke an operator or a node", text)
    what = revoke.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "operator", metavar="OPERATOR", nargs="?", help="a principal, or the fingerprint of a key (SHA256:...)"
    )
    what.add_argument("--node", metavar="NODE", help="a node, by name or address")
    how = revoke.add_mutually_exclusive_group(required=True)
    how.add_argument("--reason", metavar="TEXT", help="why, for other operators")
    how.add_argument("--undo", action="store_true", help="end the revocation")
    add_key_option(revoke)
    add_asking(revoke)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help_: str, text: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=help_, description=text)
    add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action."""
    found: int = importlib.import_module(ACTIONS[arguments.action]).run(arguments)
    return found
