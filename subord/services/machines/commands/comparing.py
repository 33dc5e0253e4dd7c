"""What servers and the batch system lack for a plan. Pure.

Inputs are the plan, and the documents of nodes that were asked; outputs are sentences: faults, for which no machine
of a type could start, and warnings. Invariant: what is not known is a warning, never a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from subord.client.daemon import Document
from subord.client.folding import in_short
from subord.client.text import count
from subord.services.machines.commands.layout import mib, some
from subord.services.machines.model import Capacity, lack
from subord.services.machines.plan import Plan, Type


class Compared(NamedTuple):
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


def compared(plan: Plan, listed: Document, queues: Sequence[str] | None, names: Mapping[str, str]) -> Compared:
    """`listed`: a ListDocument of all nodes. `queues`: those of the batch system; None: not known."""
    servers = listed["servers"]
    able = [each for each in servers if not each["fault"] and each["seen_s"] is not None]
    is_whole = listed["complete"] and not listed["silent"] and not listed["unread"] and len(able) == len(servers)
    faults, warnings = list[str](), list(_silent(listed, servers, names))
    if not servers and not listed["silent"]:
        text = "no node that has answered is a server: set machines.uri in the configuration of servers"
        (faults if is_whole else warnings).append(text)
    for kind in plan.types:
        if able:
            wrong, odd = list(_of_type(kind, able, names)), list(_on_some(kind, able, names))
            (faults if is_whole else warnings).extend(wrong)
            warnings += [] if wrong else odd
        faults += _queues(kind, queues)
    warnings += _left(plan, able)
    return Compared(tuple(faults), tuple(warnings))


def _silent(listed: Document, servers: Sequence[Document], names: Mapping[str, str]) -> Iterator[str]:
    for each in listed["silent"]:
        detail = f": {each['detail']}" if each["detail"] else ""
        nodes = _nodes(each["addresses"], names, each["nodes"])
        yield f"what is on {nodes} is not known: {each['text']}{detail}"
    for each in listed["missing"]:
        yield f"what is on {_nodes(each['addresses'], names, each['count'])} is not known: {each['text']}"
    for each in servers:
        name = names.get(each["address"], each["address"])
        if each["fault"] or each["seen_s"] is None:
            yield f"{name}: {each['fault'] or 'its machines were not listed yet'}"
        if any(each["excess"].values()):
            yield f"{name} is overbooked: no machine starts there before it is not"
    if listed["unread"]:
        yield f"the answers of {count(listed['unread'], 'node')} cannot be read: they are of another release"


def _queues(kind: Type, queues: Sequence[str] | None) -> Iterator[str]:
    if queues is None:
        return
    for each in kind.queues:
        if each not in queues:
            known = some(queues, 8) or "none"
            yield f"the type {kind.name} serves the queue {each}, and the batch system has only {known}"


# -- types ----------------------------------------------------------------------------------------------------------


def _of_type(kind: Type, servers: Sequence[Document], names: Mapping[str, str]) -> Iterator[str]:
    """Why no machine of it starts anywhere."""
    templates = [one for each in servers for one in each["machines"] if one["name"] == kind.template]
    has_machines = any(one["type"] == kind.name for each in servers for one in each["machines"])
    if not templates and not has_machines and not any(each["left_out"] for each in servers):
        yield f"the template {kind.template} of the type {kind.name} is on no server: define it there"
    rooms = [(_capacity(each), names.get(each["address"], each["address"])) for each in servers]
    if not any(room.fits(kind.need) for room, _ in rooms):
        room, name = max(rooms)
        lacks = f"on {name} {lack(room, kind.need)}"
        yield f"a machine of the type {kind.name} fits on no server, even if it is empty: {lacks}"


def _capacity(server: Document) -> Capacity:
    have = server["have"]
    return Capacity(have["cores"], have["memory_mb"], have["disk_mb"], have["slots"])


def _on_some(kind: Type, servers: Sequence[Document], names: Mapping[str, str]) -> Iterator[str]:
    """Servers where none is cloned, and what is odd about the template."""
    without = []
    for each in servers:
        found = [one for one in each["machines"] if one["name"] == kind.template]
        if not found and not each["left_out"]:
            without.append(each["address"])
        for one in found:
            name = names.get(each["address"], each["address"])
            where = f"the template {kind.template} of the type {kind.name} on {name}"
            if one["state"] != "off":
                yield f"{where} is {one['state']}: it is cloned when it is off"
            if one["type"]:
                yield f"{where} is itself a machine of the type {one['type']}, and may be deleted: take another"
    if without and len(without) < len(servers):
        nodes = _nodes(without, names, len(without))
        yield f"the template {kind.template} of the type {kind.name} is not on {nodes}: no machine is cloned there"
    most = max((pool["free_mb"] for each in servers for pool in each["pools"] if pool["active"]), default=None)
    if most is not None and most < kind.image_mb:
        text = f"no storage pool has {mib(kind.image_mb)} free for an image of the type {kind.name}"
        yield f"{text}, the most is {mib(most)}"


def _left(plan: Plan, servers: Sequence[Document]) -> Iterator[str]:
    """Machines of a plan before."""
    types = {each.name for each in plan.types}
    left = [one for each in servers for one in each["machines"] if one["type"] and one["type"] not in types]
    if left:
        kinds = some(sorted({one["type"] for one in left}))
        yield f"{count(len(left), 'machine')} of types that are not in the plan ({kinds}) are counted, and left alone"


def _nodes(addresses: Sequence[str], names: Mapping[str, str], total: int) -> str:
    return in_short([names.get(each, each) for each in addresses], total=total)
