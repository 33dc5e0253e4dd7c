"""`subord errors`: what is wrong in the whole cluster, each trouble once, with the set of those who share it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from subord.cli import exit_codes
from subord.cli.client import Document, add_timeout, ask
from subord.cli.control_socket import add_socket, socket_path
from subord.cli.draw import MARK_STYLES, NOTE_STYLE, Line, show
from subord.cli.folding import folded, in_order, in_short
from subord.cli.naming import add_names, names_for, renamed
from subord.cli.options import add_colour, add_json
from subord.cli.words import age, count, printable

TIMEOUT_S = 1.0
SHARE = 0.8  # of the time for the nodes; the rest is for our daemon
GRACE_S = 1.0
STYLES = {
    "duplicate": "bold red",
    "refused": "bold red",
    "silent": "magenta",
    "missing": "bold red",
    "gone": "bold red",
    "lost": "yellow",
}


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "errors",
        help="show what is wrong in the whole cluster, folded by host set",
        description="Ask all nodes for their troubles of the last ten minutes, along the tree, and print each "
        "trouble once with all whom it concerns, in the notation of ClusterShell: duplicate addresses, refusals "
        "(about who is refused), silent and vanished nodes, input thrown away (about its sender), lost leaders, "
        "unsaved keys, and who differs from most by version or keys. Who does not answer in time is named.",
        epilog="exit codes: 0, whatever was found; with --check 1 if there is a trouble, or not everybody answered",
    )
    add_json(parser)
    parser.add_argument("--check", action="store_true", help="exit code 1 if anything is printed but the summary")
    parser.add_argument("--full", action="store_true", help="do not shorten long sets")
    add_names(parser)
    add_colour(parser)
    add_timeout(parser, TIMEOUT_S, "so long nodes have to answer")
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the troubles; none is one line, too."""
    target = f"/v1/errors?budget={arguments.timeout * SHARE:.3f}"
    path = socket_path(arguments)
    found = ask(path, target, arguments.timeout + GRACE_S)
    found = renamed(found, names_for(path, arguments, arguments.timeout + GRACE_S))
    if arguments.json:
        print(json.dumps(found))
    else:
        show(lines(found, is_full=arguments.full), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.NOT_REACHED if arguments.check and not is_well(found) else exit_codes.OK


def is_well(found: Document) -> bool:
    """Nothing is wrong, and everybody said so."""
    return bool(found["complete"]) and not (found["problems"] or found["silent_nodes"] or found["older_nodes"])


def lines(found: Document, *, is_full: bool = False) -> list[Line]:
    """For people: a summary, what it lacks, one line a trouble."""
    result: list[Line] = [[(summary(found), "bold")]]
    if found["note"]:
        result.append([(f"incomplete: {printable(found['note'])}", NOTE_STYLE)])
    return result + list(troubles(found, is_full=is_full))


def summary(found: Document) -> str:
    """One line: "11 nodes answered, 2 troubles"."""
    troubles = len(found["problems"]) + found["more"] + bool(found["silent_nodes"])
    return f"{count(found['nodes'], 'node')} answered, {count(troubles, 'trouble') if troubles else 'no troubles'}"


def troubles(found: Document, *, is_full: bool = False) -> Iterator[Line]:
    """One line a trouble: who, and what."""
    for each in found["problems"]:
        ago = "" if each["ago_s"] is None else f" (last {age(each['ago_s'])} ago)"
        style = STYLES.get(each["kind"], NOTE_STYLE)
        yield _line(each["addresses"], each["nodes"], f"{printable(each['text'])}{ago}", style, is_full)
    if found["silent_nodes"]:
        below = found["silent_nodes"] - len(found["silent"])
        text = "no answer" + (f"; {below} below could not be asked" if below > 0 else "")
        yield _line(found["silent"], len(found["silent"]), text, MARK_STYLES["stale"], is_full)
    if found["older_nodes"]:
        below = found["older_nodes"] - len(found["older"])
        text = "older daemon: not asked" + (f", nor {below} below" if below > 0 else "")
        yield _line(found["older"], len(found["older"]), text, NOTE_STYLE, is_full)
    if found["more"]:
        yield [(f"and {found['more']} more troubles, for which there was no room", NOTE_STYLE)]


def _line(addresses: list[str], nodes: int, text: str, style: str, is_full: bool) -> Line:
    if not is_full:
        who = in_short(addresses, total=nodes)
    else:
        more = nodes - len(addresses)
        who = folded(sorted(addresses, key=in_order)) + (f" and {more} more" if more > 0 else "")
    return [(who, ""), (": ", ""), (text, style)]
