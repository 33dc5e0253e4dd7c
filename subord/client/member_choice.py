"""Members that an operator names, as a set of nodes.

Inputs are words of the command line and the document of all members; outputs are members, each once. A word that
names no member is an error, and nothing is done.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.folding import in_short
from subord.client.text import printable

REASON_CHARS_MAX = 200
"""As in core/members/statements.py, whose import costs more time than a command needs."""


def chosen(arguments: argparse.Namespace, words: Sequence[str], members: Sequence[Document]) -> list[Document]:
    """The members that `words` name, in order of position. Raises CommandError."""
    from subord.client.node_sets import choice

    try:
        wanted = choice.chosen(arguments, words)
    except CommandError as error:
        raise CommandError(f"{error}; nothing was changed", error.exit_code) from None
    known = {each["address"]: each for each in members}
    unknown = [address for address in wanted if address not in known]
    if unknown:
        text = f"no member: {in_short(unknown)}; `subord members` lists all, and nothing was changed"
        raise CommandError(text, exit_codes.NO_SUCH_NODE)
    return sorted((known[address] for address in wanted), key=lambda each: int(each["position"]))


def chosen_places(
    arguments: argparse.Namespace, words: Sequence[str], unchanged: str = "nothing was changed"
) -> list[Document]:
    """The address and the position of each node that `words` name, members or not. `unchanged`: what an error says
    was not done. Raises CommandError."""
    from subord.client.node_sets import choice
    from subord.core.address.network import Network

    try:
        wanted = choice.chosen(arguments, words)
    except CommandError as error:
        raise CommandError(f"{error}; {unchanged}", error.exit_code) from None
    network = Network.parse(asked(arguments, "/v1/status")["settings"]["network"])
    found = {address: network.position_of(address) for address in wanted}
    foreign = [address for address, position in found.items() if position is None]
    if foreign:
        text = f"no address of the network {network.text}: {in_short(foreign)}; {unchanged}"
        raise CommandError(text, exit_codes.NO_SUCH_NODE)
    places = [{"address": address, "position": position} for address, position in found.items()]
    return sorted(places, key=lambda each: int(each["position"] or 0))


def positions_text(members: Sequence[Document]) -> str:
    """Such as 3,7-9, as the daemon reads them."""
    ranges: list[list[int]] = []
    for position in (each["position"] for each in members):
        if ranges and ranges[-1][1] + 1 == position:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return ",".join(f"{first}-{last}" for first, last in ranges)


def printable_reason(arguments: argparse.Namespace) -> str:
    """The words of `--reason`, which other terminals show. Raises CommandError."""
    reason: str = arguments.reason.strip()
    if not 0 < len(reason) <= REASON_CHARS_MAX:
        text = f"--reason must have 1 to {REASON_CHARS_MAX} characters; nothing was changed"
        raise CommandError(text, exit_codes.USAGE)
    if not reason.isprintable():
        raise CommandError("--reason has characters that do not print; nothing was changed", exit_codes.USAGE)
    return reason


def operator() -> str:
    """The name of the person, as far as this host knows."""
    import getpass  # with termios; needed for changes alone

    try:
        return printable(os.environ.get("SUDO_USER") or getpass.getuser())
    except (OSError, KeyError):
        return str(os.getuid())
