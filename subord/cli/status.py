"""`subord status`: this node, its place, its subordinates and its refusals."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.drawing import HOME, HOME_APART
from subord.client.naming import names_for, renamed, with_address
from subord.client.options import add_asking, add_json, add_names
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
    add_json(parser)
    add_names(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the status of the daemon."""
    status = asked(arguments, "/v1/status")
    names = names_for(arguments, status)
    print(json.dumps(_renamed(status, names)) if arguments.json else "\n".join(text(status, names)))
    return exit_codes.OK


def text(status: Document, names: dict[str, str] | None = None) -> list[str]:
    """The lines for display, with `names` for addresses."""
    shared, address = status["settings"], with_address(status["address"], names or {})
    status = _renamed(status, names or {})
    facts = [
        ("place", place(status)),
        ("path", " > ".join([*status["path"], status["address"]]) if status["place"] else "none yet"),
        ("subtree", _subtree(status)),
        ("alternates", " ".join(status["alternates"]) or "none"),
        *_maintenance(status),
        ("settings", _settings(shared)),
        *_ranking(status),
        ("seal", _seal(status["seal"])),
        ("identity", _identity(status.get("identity"))),
        ("daemon", _daemon(status)),
    ]
    lines = [f"{address}  position {status['position']} of {shared['positions']}"]
    lines[0] += f", level {status['level']}, offset {status['offset']}"
    lines[0] += f"; {count(status['down'], 'member')} down" if status.get("down") else ""
    lines += columns(facts, "  ")
    if status["subordinates"]:
        lines += ["", f"{count(len(status['subordinates']), 'subordinate')}:"]
        lines += columns([_subordinate(each) for each in status["subordinates"]], "  ")
    if status["refusals"]:
        lines += ["", "refusals:", *(f"  {refusal(each)}" for each in status["refusals"])]
    return lines


def _renamed(status: Document, names: dict[str, str]) -> Document:
    """The settings keep their addresses: they are those of the configuration."""
    return {**renamed(status, names), "settings": status["settings"]}


def place(status: Document) -> str:
    """Where the node stands, e.g. "home: subordinate of 10.0.0.2 for 5 min"."""
    since = age(status["since_s"])
    if status["place"] is None:
        words = f"none yet ({status['phase']} for {since})"
    elif status["place"] == "root":
        words = f"root for {since}" + (f"; {printable(status['refused'])}" if status.get("refused") else "")
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
    all_home = HOME_APART if status.get("refused") else HOME
    return f"{count(nodes, 'node')}, {f'{away} not at home' if away else all_home}"


def _maintenance(status: Document) -> list[tuple[str, str]]:
    """No line where it is under none, or by an older daemon."""
    reason = status.get("maintenance")
    return [("maintenance", printable(reason))] if reason else []


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


def _identity(identity: Document | None) -> str:
    if identity is None:
        return "none"
    since = f"made {identity['since'][:10]}"
    if identity["certified"]:
        words = f"certified until {identity['valid_until'][:16]}Z, {since}"
    elif identity["valid_until"]:
        words = f"its certificate is valid until {identity['valid_until'][:16]}Z, {since}"
    else:
        words = f"pinned, {since}"
    return f"{identity['fingerprint']}, {words}"


def _daemon(status: Document) -> str:
    return (
        f"version {status['version']}, UDP port {status['port']}, up {age(status['up_s'])}, "
        f"{count(status['leader_changes'], 'leader change')}, {count(status['exchanges'], 'exchange')}"
    )


def _subordinate(each: Document) -> list[str]:
    heard = f"{'silent' if each['silent'] else 'heard'}, last {age(each['heard_s'])} ago"
    return [each["address"], each["place"], f"for {age(each['since_s'])}", f"{each['below']} below", heard]
