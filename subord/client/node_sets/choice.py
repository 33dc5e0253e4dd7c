"""The nodes that the words of a command line name. Every command that takes nodes asks here.

In: words in the notation of `algebra.py`. Out: addresses, each once, or a CommandError that names the wrong piece. A
name gets its address from the host list, from /etc/hosts, from the daemon if it is the name of this host, else from
the resolver, which is asked for all names at once. Of several addresses the one in the cluster's network counts.
Whether an address is a member is for the command to say.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.folding import in_order, in_short
from subord.client.lookups import looked_up
from subord.client.naming import hosts_file, listed_names
from subord.client.node_sets.algebra import NodeSetError, names_in, steps_of, value
from subord.client.node_sets.groups import Failure, Groups, Listed, Source
from subord.config.hostlist import is_address
from subord.config.resolve import ResolveError, addresses_of

if TYPE_CHECKING:
    from subord.core.address.network import Network

FILE, FILE_VARIABLE = "/etc/subord/groups", "SUBORD_GROUPS"
FOLDER, FOLDER_VARIABLE = "/etc/clustershell", "CLUSTERSHELL_CFGDIR"
MEMBERS = "members"
"""The source of groups by the standing, the place and the maintenance of the members, as in `subord members`."""
WORDS = ("live", "held", "stale", "down", "missing", "gone", "home", "guest", "root", "maintained")
DOWN = ("missing", "gone")
LOOKUP_S = 5.0


class Knowledge(NamedTuple):
    """What is known of the cluster; it is asked for only if it is needed.

    `names` are those of the host list by address. `place` is the address of this node, "" if unknown, and the
    network; None: not known.
    """

    names: Callable[[], Mapping[str, str]]
    place: Callable[[], tuple[str, Network] | None]
    sources: Mapping[str, Source] = {}


def chosen(arguments: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """The addresses of one or more nodes, in order. `arguments` are those of `add_asking`. Raises CommandError."""
    return chosen_by(of_daemon(arguments), words)


def chosen_one(arguments: argparse.Namespace, word: str) -> str:
    """The address of the one node that `word` names. Raises CommandError."""
    return one_by(of_daemon(arguments), word)


def one_by(known: Knowledge, word: str) -> str:
    """As `chosen_one`."""
    found = chosen_by(known, [word])
    if len(found) > 1:
        raise CommandError(f"{word!r} names {len(found)} nodes ({in_short(found)}), not one", exit_codes.USAGE)
    return found[0]


def chosen_by(known: Knowledge, words: Sequence[str]) -> list[str]:
    """As `chosen`."""
    text = " ".join(words)
    if is_address(text):
        return [str(ip_address(text))]
    try:
        steps = steps_of(text, groups_of_host(known.sources))
    except NodeSetError as error:
        raise CommandError(str(error), exit_codes.TRY_AGAIN if error.passing else exit_codes.USAGE) from None
    names = set(names_in(steps))
    found = value(steps, _addresses(names, known) if names else {})
    if not found:
        raise CommandError(f"{text!r} names no node", exit_codes.NO_SUCH_NODE)
    return sorted(found, key=in_order)


def groups_of_host(sources: Mapping[str, Source]) -> Groups:
    """All groups, those of `sources` among them."""
    file = os.environ.get(FILE_VARIABLE) or FILE
    return Groups(file, os.environ.get(FOLDER_VARIABLE) or FOLDER, sources)


def of_daemon(arguments: argparse.Namespace) -> Knowledge:
    """What the daemon of this host knows."""

    def place() -> tuple[str, Network] | None:
        from subord.core.address.network import Network

        try:
            status = asked(arguments, "/v1/status")
        except CommandError:
            return None  # without a daemon, sets can be read all the same
        return status["address"], Network.parse(status["settings"]["network"])

    def members() -> Mapping[str, str] | Failure:
        try:
            found = asked(arguments, "/v1/members")
        except CommandError as error:
            return Failure(str(error), passing=True)
        if not found["complete"]:  # a part of the members would look like all of them
            why = found["note"] or "the root was not asked"
            return Failure(f"not all members are known just now: {why}", passing=True)
        return _by_standing(found["members"])

    return Knowledge(lambda: listed_names(arguments), place, {MEMBERS: Listed(members, WORDS)})


def _by_standing(members: Iterable[Document]) -> dict[str, str]:
    groups: dict[str, list[str]] = {word: [] for word in WORDS}
    for each in members:
        down = "down" if each["standing"] in DOWN else None
        maintained = "maintained" if each.get("maintenance") else None
        for word in filter(None, (each["standing"], each["place"], down, maintained)):
            groups.setdefault(word, []).append(each["address"])
    return {word: ",".join(addresses) for word, addresses in groups.items()}


def _addresses(names: set[str], known: Knowledge) -> dict[str, str]:
    """The address of each name. Raises CommandError."""
    of_list = {name.lower().removesuffix("."): [address] for address, name in known.names().items()}
    of_file: dict[str, list[str]] = {}
    for address, aliases in hosts_file():
        for alias in aliases:
            of_file.setdefault(alias.lower(), []).append(address)
    found = {name: of_list.get(name) or of_file.get(name, []) for name in names}
    missing = [name for name in sorted(names, key=in_order) if not found[name]]
    place = known.place() if missing or any(len(each) > 1 for each in found.values()) else None
    own, network = place or ("", None)
    if own:
        found |= {name: [own] for name in missing if name in _own_names()}
    found |= _of_resolver([name for name in missing if not found[name]])
    return {name: _one_address(name, addresses, network) for name, addresses in found.items()}


def _own_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0]}


def _of_resolver(names: Sequence[str]) -> dict[str, list[str]]:
    def look(name: str) -> tuple[str, ...] | ResolveError:
        try:
            return addresses_of(name, None)
        except ResolveError as error:
            return error

    answers = looked_up(names, look, LOOKUP_S)
    silent = [name for name in names if name not in answers]
    silent += [name for name, answer in answers.items() if isinstance(answer, ResolveError) and answer.passing]
    if silent:
        raise CommandError(
            f"the resolver does not answer for {in_short(silent)}: write addresses", exit_codes.TRY_AGAIN
        )
    unknown = [name for name, answer in answers.items() if isinstance(answer, ResolveError)]
    if unknown:
        raise CommandError(
            f"no address for {in_short(unknown)}: not in the host list, not in /etc/hosts, not known to the resolver",
            exit_codes.NO_SUCH_NODE,
        )
    return {name: list(answer) for name, answer in answers.items() if not isinstance(answer, ResolveError)}


def _one_address(name: str, addresses: Sequence[str], network: Network | None) -> str:
    """Of several addresses that of the network. A node outside has a loopback address of this host at most."""
    each = list(dict.fromkeys(addresses))
    inside = [address for address in each if network is not None and address in network] or each
    if len(inside) > 1:
        raise CommandError(
            f"{name} has {len(inside)} addresses ({in_short(inside)}): write that of the node", exit_codes.USAGE
        )
    return inside[0]
