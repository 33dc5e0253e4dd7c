"""`subord machines list`: servers with what is used of them, and their machines."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.services.asking import asked_nodes, missing_lines, shown_coverage
from subord.services.following import nodes_of, wrapped
from subord.services.machines.commands.layout import KIB, ago, heading, mib, named

SERVER_HEAD: Final = ("server", "cores", "memory", "disk", "slots", "mhz", "on", "off", "as of", "state")
MACHINE_HEAD: Final = ("machine", "server", "type", "state", "since", "cores", "memory", "disk")
UNKNOWN: Final = "-"
NOT_OURS: Final = "-"
FRESH_S: Final = 120.0
"""An agent tells its machines at least once a minute."""


def run(arguments: argparse.Namespace) -> int:
    """Prints both tables, and the coverage; OK if every server has told its machines. Raises CommandError."""
    found = asked_nodes(arguments, "machines/servers")
    names = names_for(arguments, found)
    code = shown_coverage(arguments, found, lines_of(found, names, only_servers=arguments.servers))
    is_whole = not found["silent"] and not found["unread"] and not any(map(_trouble, found["servers"]))
    return code if is_whole else exit_codes.NOT_REACHED


def _trouble(server: Document) -> bool:
    return bool(server["fault"]) or server["seen_s"] is None


def lines_of(found: Document, names: Mapping[str, str], *, only_servers: bool = False) -> Iterator[str]:
    """What is printed of a ListDocument."""
    servers = found["servers"]
    if not found["told"]:
        for text in missing_lines(found):
            yield from wrapped(text, "")
    elif not servers and not found["silent"]:
        yield heading(found["plan"], names)
        yield "no node that has answered is a server: set machines.uri in the configuration of servers"
    if servers:
        yield from _servers(servers, names)
    if not only_servers and any(each["machines"] for each in servers):
        yield ""
        yield from _machines(servers, names)
    for each in found["silent"]:
        detail = f": {each['detail']}" if each["detail"] else ""
        why = f"{each['text']}{detail}"
        yield from wrapped(f"{nodes_of(each, names)}: what is on it is not known: {why}", "")
    if found["unread"]:
        yield f"the answers of {count(found['unread'], 'node')} cannot be read: they are of another release"


# -- servers --------------------------------------------------------------------------------------------------------


def _servers(servers: list[Document], names: Mapping[str, str]) -> Iterator[str]:
    rows = [SERVER_HEAD, *(_server_cells(each, names) for each in servers)]
    has_disk = any(each["have"]["disk_mb"] or each["used"]["disk_mb"] for each in servers)
    keep = [place for place, head in enumerate(SERVER_HEAD) if head != "disk" or has_disk]
    head, *lines = columns([[row[place] for place in keep] for row in rows], right=range(1, len(keep) - 1))
    yield head
    for line, each in zip(lines, servers, strict=True):
        yield line
        for text in _remarks(each):
            yield from wrapped(text)


def _server_cells(each: Document, names: Mapping[str, str]) -> tuple[str, ...]:
    name, used, have = named(each["address"], names), each["used"], each["have"]
    if each["seen_s"] is None:
        return (name, *(UNKNOWN,) * (len(SERVER_HEAD) - 2), _state(each))
    states = Counter("off" if one["state"] == "off" else "on" for one in each["machines"])
    return (
        name,
        f"{used['cores']}/{have['cores']}",
        f"{used['memory_mb'] / KIB:.1f}/{mib(have['memory_mb'])}",
        f"{used['disk_mb'] / KIB:.1f}/{mib(have['disk_mb'])}",
        f"{used['slots']}/{have['slots']}",
        str(each["mhz"]),
        str(states["on"]),
        str(states["off"]),
        ago(each["seen_s"]),
        _state(each),
    )


def _state(each: Document) -> str:
    if any(each["excess"].values()):
        return "overbooked"
    if each["fault"]:
        return "no libvirt"
    return "drained" if each["drained"] else each["state"]


def _remarks(each: Document) -> Iterator[str]:
    """Below the line of a server: what a person should look at."""
    if each["fault"]:
        yield each["fault"]
    if each["detail"]:
        yield f"{each['text']}: {each['detail']}"
    if any(each["excess"].values()):
        excess = each["excess"]
        parts = [
            f"{excess['cores']} cores" if excess["cores"] else "",
            f"{mib(excess['memory_mb'])} of memory" if excess["memory_mb"] else "",
            f"{mib(excess['disk_mb'])} of disk" if excess["disk_mb"] else "",
            f"{excess['slots']} slots" if excess["slots"] else "",
        ]
        yield f"overbooked by {' and '.join(filter(None, parts))}; idle machines are stopped first"
    if each["seen_s"] is not None and each["seen_s"] > FRESH_S and not each["fault"]:
        yield f"its agent has reported nothing new for {age(each['seen_s'])}"
    for one in each["machines"]:
        if one["fault"]:
            yield f"{one['name']}: {one['fault']}"
    if each["left_out"]:
        yield f"{count(each['left_out'], 'machine')} more had no room in the answer"


# -- machines -------------------------------------------------------------------------------------------------------


def _machines(servers: list[Document], names: Mapping[str, str]) -> Iterator[str]:
    found = [(one, each) for each in servers for one in each["machines"]]
    rows = [MACHINE_HEAD, *(_machine_cells(one, named(each["address"], names), names) for one, each in found)]
    has_disk = any(one["disk_mb"] for one, _ in found)
    keep = [place for place, head in enumerate(MACHINE_HEAD) if head != "disk" or has_disk]
    yield from columns([[row[place] for place in keep] for row in rows], right=range(4, len(keep)))


def _machine_cells(one: Document, server: str, names: Mapping[str, str]) -> tuple[str, ...]:
    peer = f" ({named(one['peer'], names)})" if one["peer"] else ""
    return (
        one["name"],
        server,
        one["type"] or NOT_OURS,
        f"{one['doing']}{peer}" if one["doing"] else one["state"],
        "-" if one["since_s"] is None else age(one["since_s"]),
        str(one["cores"]),
        mib(one["memory_mb"]),
        mib(one["disk_mb"]) if one["disk_mb"] else "-",
    )
