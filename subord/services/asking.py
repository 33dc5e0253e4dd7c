"""What commands of services share: the arguments, the question to the daemon, and the coverage of the answer.

Input: NODES, or none for all members. Output: the document of the service, and an exit code that is 0 only if every
node has answered.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, ask, change
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded
from subord.client.naming import names_for
from subord.client.options import add_asking, add_json, add_names, socket_path
from subord.client.text import count, printable

TIMEOUT_S = 5.0
SECONDS_SHOWN_MS = 10_000
DAEMON_BUDGET_S_MAX = 8.0
"""As in api/handlers/control.py."""
NO_COORDINATOR: Final = "no coordinator that knows all members was found"
UNSETTLED: Final = "not complete: nodes have just come or moved, or a branch has not answered; try again"
ANSWERED: Final = "{told} of {asked} answered in {oldest}"
UNASKED: Final = "no node was asked"
UNCHANGED: Final = "nothing was changed"
ADVICE: Final[Mapping[str, str]] = MappingProxyType({"unknown": "; `subord members` lists all"})
"""What to do, by cause."""
NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})


def add_asking_nodes(parser: argparse.ArgumentParser, all_help: str = "all members (the default)") -> None:
    """The arguments of a command that asks nodes."""
    parser.add_argument("nodes", nargs="*", metavar="NODES", help="sets of nodes, as in `subord nodeset`")
    parser.add_argument("-a", "--all", action="store_true", help=all_help)
    add_json(parser)
    add_names(parser)
    parser.add_argument(
        "--receipts",
        action="store_true",
        help="have each node sign its answer, and name nodes whose receipt is missing or false (at most 1024 nodes)",
    )
    add_asking(parser, TIMEOUT_S, "time for the nodes to answer")
    parser.epilog = "exit codes: 0 if every node answered, 1 if one did not"


def add_ordering(parser: argparse.ArgumentParser, all_help: str = "all members (the default)") -> None:
    """The arguments of a command that gives a signed order."""
    from subord.client.orders.signing import add_key_option

    add_asking_nodes(parser, all_help)
    parser.add_argument("-u", "--user", default="root", help="the user as which the nodes act (default: root)")
    add_key_option(parser)


def ordered_nodes(
    arguments: argparse.Namespace, service: str, payload: bytes, signing_path: str | None = None
) -> Document:
    """The document of a service with effects, for an order that the operator signs. `signing_path`: of a service
    that reads as well (services/serving.py). Raises CommandError."""
    from subord.client.orders.service_order import signed_order

    path, budget_s = _checked(arguments)
    nodes = _positions(arguments) if arguments.nodes else None
    body = signed_order(arguments, service, payload, nodes, budget_s, signing_path=signing_path)
    target = f"/v1/{service}?budget={budget_s:.3f}"
    return _named(arguments, change(path, target, arguments.timeout + DAEMON_GRACE_S, body=body))


def asked_nodes(arguments: argparse.Namespace, service: str) -> Document:
    """The document of a service. Raises CommandError."""
    _, budget_s = _checked(arguments)
    nodes = f"&nodes={_positions(arguments, UNASKED)}" if arguments.nodes else ""
    receipts = "&receipts=1" if arguments.receipts else ""
    return _asked(arguments, f"/v1/{service}?budget={budget_s:.3f}{nodes}{receipts}")


def _asked(arguments: argparse.Namespace, target: str) -> Document:
    return _named(arguments, ask(socket_path(arguments), target, arguments.timeout + DAEMON_GRACE_S))


def _checked(arguments: argparse.Namespace) -> tuple[str, float]:
    """The socket of the daemon, and the time for the nodes. Raises CommandError."""
    if arguments.nodes and arguments.all:
        raise CommandError(f"give NODES or --all, not both; {UNASKED}", exit_codes.USAGE)
    return socket_path(arguments), min(arguments.timeout, DAEMON_BUDGET_S_MAX)


def _named(arguments: argparse.Namespace, found: Document) -> Document:
    """The document with the names of missing nodes."""
    name_missing(found, names_for(arguments, found))
    return found


def name_missing(found: Document, names: Mapping[str, str]) -> None:
    """Write into the document what `coverage_line` reads."""
    for each in found["missing"]:
        each["nodes"] = folded(names.get(one, one) for one in each["addresses"])


def add_asking_root(parser: argparse.ArgumentParser) -> None:
    """The arguments of a command that shows a report."""
    add_json(parser)
    add_names(parser)
    add_asking(parser, TIMEOUT_S, "time for the root to answer")
    parser.epilog = "exit codes: 0 if the report covers every node, 1 if one is missing"


def asked_root(arguments: argparse.Namespace, service: str, query: Mapping[str, str] = NO_QUERY) -> Document:
    """The document of a service with a report, or at a further path of it. Raises CommandError."""
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    return _asked(arguments, f"/v1/{service}?{urlencode({'budget': f'{budget_s:.3f}', **query})}")


def _positions(arguments: argparse.Namespace, unchanged: str = UNCHANGED) -> str:
    from subord.client.member_choice import chosen_places, positions_text

    return positions_text(chosen_places(arguments, arguments.nodes, unchanged))


def missing_lines(found: Document) -> Iterator[str]:
    """Why nodes have given no result, of a document that was asked for: `10.0.0.7: the node is down, or ...`."""
    for each in found["missing"]:
        more = each["count"] - len(each["addresses"])
        nodes = f"{each['nodes']} and {more} more" if more > 0 else each["nodes"]
        yield f"{nodes}: {each['text']}{ADVICE.get(each['cause'], '')}"


def shown_report(arguments: argparse.Namespace, found: Document, lines: Iterable[str]) -> int:
    """`shown_coverage` of a report."""
    left_out = found.get("left_out", 0)
    partial = f"{count(left_out, 'metric')} left out" if left_out else UNSETTLED
    words = "{told} of {asked} reported, the oldest {oldest} ago"
    return shown_coverage(arguments, found, lines, words, partial)


def shown_coverage(
    arguments: argparse.Namespace,
    found: Document,
    lines: Iterable[str],
    words: str = ANSWERED,
    partial: str = NO_COORDINATOR,
) -> int:
    """Print the document, or the lines and the coverage as the last one; returns the exit code. `partial`: as in
    `coverage_line`."""
    if arguments.json:
        print(json.dumps(found))
    else:
        for line in (*map(printable, lines), coverage_line(found, words, partial)):
            print(line)
    return exit_codes.OK if found["complete"] else exit_codes.NOT_REACHED


def shown_document(arguments: argparse.Namespace, found: Document, lines: Iterable[str]) -> int:
    """Print the document, or the lines; returns OK. It is not an answer of several nodes."""
    if arguments.json:
        print(json.dumps(found))
    else:
        for line in lines:
            print(printable(line))
    return exit_codes.OK


def say_unshown(nodes: int, why: str = "too many different ones, or of another release") -> None:
    """On standard error, if the results of some nodes are not shown."""
    if nodes:
        to_stderr(f"subord: the results of {count(nodes, 'node')} are not shown: {why}")


def say_coverage(found: Document, names: Mapping[str, str], words: str) -> None:
    """On standard error."""
    name_missing(found, names)
    to_stderr(coverage_line(found, words))


def coverage_line(found: Document, words: str = ANSWERED, partial: str = NO_COORDINATOR) -> str:
    """`496 of 500 answered in 40 ms; missing: 10.0.0.[7,9] silent, 10.0.1.4 older release`. `partial`: why the answer
    may not be complete although no node is missing, if the document has no note."""
    oldest = (
        f"{found['oldest_ms']:.0f} ms"
        if found["oldest_ms"] < SECONDS_SHOWN_MS
        else f"{found['oldest_ms'] / 1000:.1f} s"
    )
    told = words.format(told=found["told"], asked=found["asked"], oldest=oldest)
    causes = ", ".join(_missing(each) for each in found["missing"])
    note = printable(found["note"]) if found.get("note") else ""
    if causes:
        return "; ".join(filter(None, (told, note, f"missing: {causes}")))
    return told if found["complete"] else f"{told}; {note or partial}"


def _missing(each: Document) -> str:
    """`10.0.0.[7,9] silent`; the document names only some of very many nodes."""
    unnamed = each["count"] - len(each["addresses"])
    more = f" and {unnamed} more" if unnamed > 0 else ""
    return f"{printable(each['nodes'])}{more} {printable(each['cause'])}"
