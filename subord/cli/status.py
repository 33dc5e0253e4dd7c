"""`subord status`: this node, its place, its subordinates and its refusals."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.control_socket import add_socket, socket_path
from subord.client.daemon import Document, add_timeout, ask
from subord.client.ranking import in_one_line
from subord.client.text import age, columns, count, printable


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "status",
        help="show this node: place, leader, subordinates, refusals",
        description="Show this node: its place, leader and path to the root, its subordinates, and the nodes "
        "that refuse it or that it refuses, with the reason.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_timeout(parser)
    add_socket(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the status of the daemon."""
    status = ask(socket_path(arguments), "/v1/status", arguments.timeout)
    print(json.dumps(status) if arguments.json else "\n".join(text(status)))
    return exit_codes.OK


def text(status: Document) -> list[str]:
    """The lines for display."""
    shared = status["settings"]
    facts = [
        ("place", place(status)),
        ("path", " > ".join([*status["path"], status["address"]]) if status["place"] else "none yet"),
        ("subtree", _subtree(status)),
        ("alternates", " ".join(status["alternates"]) or "none"),
        ("settings", _settings(shared)),
        *_ranking(status),
        ("seal", _seal(status["seal"])),
        ("daemon", _daemon(status)),
    ]
    lines = [f"{status['address']}  position {status['position']} of {shared['positions']}"]
    lines[0] += f", level {status['level']}, offset {status['offset']}"
    lines += columns(facts, "  ")
    if status["subordinates"]:
        lines += ["", f"{count(len(status['subordinates']), 'subordinate')}:"]
        lines += columns([_subordinate(each) for each in status["subordinates"]], "  ")
    if status["refusals"]:
        lines += ["", "refusals:", *(f"  {refusal(each)}" for each in status["refusals"])]
    return lines


def place(status: Document) -> str:
    """Where the node stands, e.g. "home: subordinate of 10.0.0.2 for 5 min"."""
    since = age(status["since_s"])
    if status["place"] is None:
        words = f"none yet ({status['phase']} for {since})"
    elif status["place"] == "root":
        words = f"root for {since}"
    else:
        words = f"{status['place']}: subordinate of {status['leader']} for {since}"
        words += f", level {status['real_level']} in the real tree"
    if status["place"] == "guest" and status["home"]:
        words += f" (home is {status['home']})"
    return f"{words}; held: a node above lost its leader" if status["adrift"] else words


def refusal(each: Document) -> str:
    """One refusal and its side. The reason names the other node's setting first, whichever side refuses."""
    address = each["address"]
    sides = f"{address} refuses this node" if each["by"] == "them" else f"this node refuses {address}"
    times = "" if each["times"] == 1 else f"{each['times']} times, last "
    return printable(f"{sides}: {each['reason']} ({times}{age(each['ago_s'])} ago)")


def _subtree(status: Document) -> str:
    nodes, away = status["subtree_nodes"], status["subtree_not_home"]
    return f"{count(nodes, 'node')}, {f'{away} not at home' if away else 'all at home'}"


def _settings(shared: Document) -> str:
    return (
        f"{shared['network']}, fan-out {shared['fanout']}, {count(shared['guest_slots'], 'guest slot')}, "
        f"{shared['mapping']} mapping, {shared['numbering']} numbering, {shared['timing']} timing"
    )


def _ranking(status: Document) -> list[tuple[str, str]]:
    """No line where nothing is measured, or by an older daemon."""
    ranking = status.get("ranking")
    return [] if ranking is None else [("ranking", in_one_line(ranking, status["leader"] is not None))]


def _seal(seal: Document | None) -> str:
    if seal is None:
        return "none: any host that reaches the port can take part, and any listener can read"
    primary, *others = seal["keys"]
    words = f"key {primary}" + (f", {' '.join(others)} accepted" if others else "") + f", revision {seal['revision']}"
    return words if seal["saved"] else f"{words}, not saved: lost at a restart"


def _daemon(status: Document) -> str:
    return (
        f"version {status['version']}, UDP port {status['port']}, up {age(status['up_s'])}, "
        f"{count(status['leader_changes'], 'leader change')}, {count(status['exchanges'], 'exchange')}"
    )


def _subordinate(each: Document) -> list[str]:
    heard = f"{'silent' if each['silent'] else 'heard'}, last {age(each['heard_s'])} ago"
    return [each["address"], each["place"], f"for {age(each['since_s'])}", f"{each['below']} below", heard]
