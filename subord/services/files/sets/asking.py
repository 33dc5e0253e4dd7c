"""`subord files status`, `diff`, `history` and `gc`: what is asked, and of which nodes.

Inputs are the options of the command line and the sets that the daemon knows; outputs are printed (showing.py). What
agents tell needs a signed order, because they read the files as root; the history is in the document.
"""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.daemon import asked
from subord.client.errors import CommandError
from subord.client.member_choice import chosen_places, positions_text
from subord.core.address.network import Network
from subord.services.files.pushing import GRACE_S
from subord.services.files.sets.known import hear, joined, known_set, known_sets
from subord.services.files.sets.showing import show_collected, show_differing, show_history, show_states
from subord.services.files.task import Collect, Compare, Look


def status(arguments: argparse.Namespace) -> int:
    """How sets are on their nodes. Raises CommandError."""
    found = known_sets(arguments)
    if arguments.name is not None:
        sets = [known_set(arguments, arguments.name)]
        if sets[0].said.is_withdrawn:
            text = (
                f"the set {arguments.name} is withdrawn; `subord files history {arguments.name}` shows its versions"
            )
            raise CommandError(text, exit_codes.USAGE)
    else:
        sets = [each for _, each in sorted(found.items()) if not each.said.is_withdrawn]
    if not sets:
        raise CommandError("no set of files is published: see `subord files publish --help`", exit_codes.NOT_REACHED)
    task = Look(tuple(each.wanted for each in sets))
    heard = hear(arguments, task, joined(*(each.said.targets for each in sets)), arguments.time_s + GRACE_S)
    network = Network.parse(asked(arguments, "/v1/status")["settings"]["network"])
    addresses = {each for _, nodes in heard.results for each in nodes}
    positions = {each: network.position_of(each) or 0 for each in addresses}
    return show_states(arguments, sets, heard, positions)


def diff(arguments: argparse.Namespace) -> int:
    """The paths of a set that differ on a node. Raises CommandError."""
    known = known_set(arguments, arguments.name)
    places = chosen_places(arguments, [arguments.node])
    if len(places) != 1:
        raise CommandError(f"{arguments.node} is {len(places)} nodes, not one", exit_codes.USAGE)
    heard = hear(arguments, Compare(known.wanted), positions_text(places), arguments.time_s + GRACE_S)
    return show_differing(arguments, known, arguments.node, heard)


def history(arguments: argparse.Namespace) -> int:
    """The versions of a set. Raises CommandError."""
    return show_history(arguments, known_set(arguments, arguments.name))


def collect(arguments: argparse.Namespace) -> int:
    """Delete on all nodes what no set needs. Raises CommandError."""
    heard = hear(arguments, Collect(arguments.previous), None, arguments.time_s + GRACE_S)
    return show_collected(arguments, heard)
