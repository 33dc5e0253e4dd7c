"""The nodes that the options of a command line name, and in which waves they are asked.

Inputs are sets of nodes (client/node_sets), the tree and the members as the daemon has them; output are addresses
with positions, or all members. Invariant: a command line that names no node, or whose nodes are all excepted, is an
error, and never means all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final, NamedTuple

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.member_choice import chosen_places, positions_text
from subord.client.node_sets.choice import MEMBERS, chosen_one
from subord.client.tree_parts import branch
from subord.services.exec.words import NOTHING, Percent

NO_TARGET: Final = (
    "say on which nodes: -w NODES, -g GROUP, --below NODE, --state STATE, -x NODES, or -a for all members"
)


class Targets(NamedTuple):
    """`places`: the nodes with address and position, in order of position; of all members those that are known.
    `is_every`: the order is for every member, also for one that joins meanwhile."""

    places: list[Document]
    is_every: bool

    @property
    def positions(self) -> str | None:
        """As the daemon reads them; None: all members."""
        return None if self.is_every else positions_text(self.places)


def targets_of(arguments: argparse.Namespace) -> Targets:
    """Raises CommandError."""
    named = [*arguments.nodes, *(f"@{group}" for group in arguments.group)]
    named += [f"@{MEMBERS}:{state}" for state in arguments.state]
    if not (named or arguments.below or arguments.all or arguments.exclude):
        raise CommandError(f"{NO_TARGET}; {NOTHING}", exit_codes.USAGE)
    is_all = arguments.all or not (named or arguments.below)
    if is_all and not arguments.exclude and arguments.batch is None:
        return Targets(_places_in(asked(arguments, "/v1/members")["members"]), True)
    if arguments.state:
        _known(arguments, "/v1/members")
    found = _members(arguments) if is_all else []
    found += [each for words in named for each in _places(arguments, words)]
    found += [each for top in arguments.below for each in _branch(arguments, top)]
    excepted = {each["position"] for words in arguments.exclude for each in _places(arguments, words)}
    unique = {each["position"]: each for each in found if each["position"] not in excepted}
    if not unique:
        raise CommandError(f"no node is left of those that were named; {NOTHING}", exit_codes.NO_SUCH_NODE)
    return Targets([unique[each] for each in sorted(unique)], False)


def waves(targets: Targets, batch: int | Percent | None) -> list[Targets]:
    """All at once; or in waves of so many nodes, or of such a share of them."""
    if batch is None:
        return [targets]
    places = targets.places
    size = batch if isinstance(batch, int) else max(1, len(places) * batch.value // 100)
    return [Targets(places[first : first + size], False) for first in range(0, len(places), size)]


def _places(arguments: argparse.Namespace, words: str) -> list[Document]:
    try:
        return chosen_places(arguments, [words])
    except CommandError as error:
        raise CommandError(str(error).replace("nothing was changed", NOTHING), error.exit_code) from None


def _members(arguments: argparse.Namespace) -> list[Document]:
    return _places_in(_known(arguments, "/v1/members")["members"])


def _branch(arguments: argparse.Namespace, top: str) -> list[Document]:
    address = chosen_one(arguments, top)
    _known(arguments, "/v1/members")  # nodes of the branch may be on their way to a root that is new
    rows = branch(_known(arguments, "/v1/tree?form=rows")["rows"], address)
    if not rows:
        raise CommandError(f"{top} is not in the tree just now; {NOTHING}", exit_codes.NO_SUCH_NODE)
    return _places_in(rows)


def _known(arguments: argparse.Namespace, target: str) -> Document:
    """A document about all members. Raises CommandError if it does not cover them: fewer nodes than meant would run
    the command, and it would look like all."""
    found = asked(arguments, target)
    if not found["complete"]:
        why = found["note"] or "the root was not asked"
        raise CommandError(f"not all members are known just now: {why}; {NOTHING}", exit_codes.TRY_AGAIN)
    return found


def _places_in(rows: Iterable[Document]) -> list[Document]:
    return [{"address": each["address"], "position": int(each["position"])} for each in rows]
