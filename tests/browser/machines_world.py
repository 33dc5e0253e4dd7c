"""Servers with virtual machines for the page: a made-up round of a batch queue."""

from __future__ import annotations

from typing import Any

from subord.api.models.coverage import MissingDocument
from subord.services.machines.shown.documents import (
    MachinesShownDocument,
    ShownAmount,
    ShownFigures,
    ShownPart,
    ShownServer,
    ShownType,
    ShownWhy,
)

SILENT = MissingDocument(cause="silent", text="is silent", count=1, addresses=("10.0.0.1",))
CORES, MEMORY_MB = 16, 61_440
TYPES = {"alma": (4, 8192), "deb": (1, 4096), "sl7": (2, 16_384), "": (2, 6144)}
"""Cores and memory of one machine."""


def amount(cores: int, memory_mb: int) -> ShownAmount:
    return ShownAmount(cores=cores, memory_mb=memory_mb)


def part(kind: str | None, on: int) -> ShownPart:
    cores, memory_mb = TYPES[kind or ""]
    return ShownPart(type=kind, on=on, cores=on * cores, memory_mb=on * memory_mb)


def server(name: str, *parts: ShownPart, coming: tuple[int, int] = (0, 0), **other: Any) -> ShownServer:
    """`coming`: cores and memory of machines that are no part yet."""
    cores = sum(each.cores for each in parts) + coming[0]
    memory_mb = sum(each.memory_mb for each in parts) + coming[1]
    fields: dict[str, Any] = {
        "have": amount(CORES, MEMORY_MB),
        "used": amount(cores, memory_mb),
        "overbooked": cores > CORES or memory_mb > MEMORY_MB,
        "drained": False,
        "fault": None,
        "age_s": 5,
    }
    return ShownServer(name=name, parts=parts, **fields | other)


def servers(number: int) -> tuple[ShownServer, ...]:
    """10.0.0.2 is overbooked, 10.0.0.3 does not answer, 10.0.0.4 never has, 10.0.0.5 is drained."""
    first = (
        server("10.0.0.2", part("alma", 3), part("deb", 2), part("", 2)),
        server("10.0.0.3", part("alma", 1), part("sl7", 2), fault="it has last answered 310 s ago", age_s=310),
        server("10.0.0.4", fault="libvirt does not answer", age_s=None, have=amount(0, 0)),
        server("10.0.0.5", part("deb", 2), part("", 1), drained=True),
    )
    rest = (_some(each) for each in range(6, 2 + number))
    return (*first, *rest)[:number]


def _some(at: int) -> ShownServer:
    parts = [part("alma", at % 3), part("deb", at * 7 % 5), part("sl7", at % 2), part("", at * 5 % 7 // 5)]
    found = [each for each in parts if each.on]
    coming = (1, 4096) if at % 6 == 0 else (0, 0)
    return server(f"10.0.{at // 256}.{at % 256}", *found, coming=coming)


def machines_document(number: int = 12, **other: Any) -> MachinesShownDocument:
    """The queue's node decides, unless `other` says something else."""
    every = servers(number)
    fields: dict[str, Any] = {
        "asked": 1,
        "told": 1,
        "complete": True,
        "missing": (),
        "oldest_ms": 12.0,
        "version": 2,
        "off": False,
        "address": "10.0.0.1",
        "state": "manages",
        "text": "the node decides which machines are on",
        "figures": figures(every),
        "types": tuple(_type(each, every) for each in TYPES),
        "whys": (
            ShownWhy(why="6 machines of the type deb are on, and 6 are the most", jobs=9),
            ShownWhy(why="no server has room for a machine of the type alma", jobs=4),
        ),
        "servers": every,
    }
    return MachinesShownDocument(**fields | other)


def _type(kind: str, every: tuple[ShownServer, ...]) -> ShownType:
    on = sum(each.on for one in every for each in one.parts if each.type == kind)
    ours = bool(kind)
    return ShownType(
        type=kind, on=on, off=2, open=ours * on // 3, busy=ours * on // 2, coming=int(kind == "deb"), left_alone=0
    )


def figures(every: tuple[ShownServer, ...], **other: Any) -> ShownFigures:
    fields: dict[str, Any] = {
        "age_s": 4,
        "round": 12,
        "waiting": 20,
        "unmet": 13,
        "running": 61,
        "servers": len(every),
        "unreachable": sum(each.fault is not None for each in every),
        "overbooked": sum(each.overbooked for each in every),
        "drained": sum(each.drained for each in every),
        "have": amount(sum(each.have.cores for each in every), sum(each.have.memory_mb for each in every)),
        "used": amount(sum(each.used.cores for each in every), sum(each.used.memory_mb for each in every)),
    }
    return ShownFigures(**fields | other)
