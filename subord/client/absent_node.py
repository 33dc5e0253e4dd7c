"""Why a command cannot show the node that it was asked for.

Input: the address, and the list of members that the local daemon has from the root. Output: a `CommandError` with
NO_SUCH_NODE for an address that no known node has, and TRY_AGAIN for a node that is known and dead, left or silent.
"""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.text import age, printable

DEAD = ("missing", "gone")


def not_shown(arguments: argparse.Namespace, address: str, lack: str, undone: str) -> CommandError:
    """`lack`: what is true of a listed node, e.g. "does not answer"; `undone`: what the command does not do then."""
    found = asked(arguments, "/v1/members")
    member = next((each for each in found["members"] if each["address"] == address), None)
    if member is None and found["complete"] and address not in found.get("parted", ()):
        return CommandError(f"{address} is unknown: {_unseen(arguments, address)}; {undone}", exit_codes.NO_SUCH_NODE)
    return CommandError(f"{address} {_why(found, member, lack, undone)}", exit_codes.TRY_AGAIN)


def _unseen(arguments: argparse.Namespace, address: str) -> str:
    from subord.core.address.network import Network, NetworkError

    text = asked(arguments, "/v1/status")["settings"]["network"]
    try:
        is_inside = Network.parse(text).position_of(address) is not None
    except NetworkError:  # perhaps of a newer version
        is_inside = True
    if not is_inside:
        return f"it is not an address of the network {printable(text)}"
    return "the root knows no node there; `subord members` lists those that it knows"


def _why(found: Document, member: Document | None, lack: str, undone: str) -> str:
    note = "" if found["complete"] else f" ({printable(found['note'])})"
    if member is None and note:
        return f"is not known just now, and the list of nodes is incomplete{note}; {undone}. Try again"
    if member is None:
        return (
            "left the tree: it said goodbye or was forgotten, and is stopped or in another tree; "
            f"{undone}. Start its daemon, or see `subord status` there"
        )
    if member["standing"] in DEAD:
        ago = "" if member["since_s"] is None else f" {age(member['since_s'])} ago"
        return (
            f"is dead or cut off: it vanished without goodbye{ago}{note}; "
            f"{undone}. Start its daemon or mend its network, and try again"
        )
    listed = f"the list of nodes has it as {member['standing']}{note}"
    return f"{lack}, but {listed}; {undone}. Look at that host, or try again"
