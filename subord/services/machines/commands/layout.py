"""Lines that several actions of `subord machines` print: the plan, amounts, and the last round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from subord.client.daemon import Document
from subord.client.naming import with_address
from subord.client.text import age, columns, count
from subord.services.following import conflict_line, published_line

NEVER: Final = "no machines are managed: no plan was published; `subord machines plan FILE` publishes one"
OFF: Final = "it ends the plan; machines stay as they are"
UNSEEN: Final = "nothing has been looked at yet: the first round of the queue's node has not ended"
CONFLICT: Final = conflict_line("plan")
TYPE_HEAD: Final = ("type", "template", "queues", "cores", "memory", "disk", "image", "slots", "window", "most")
KIB: Final = 1024
QUEUES_SHOWN: Final = 4


def heading(plan: Document, names: Mapping[str, str], would: str = "") -> str:
    """`version 3 published by ann at 2026-11-26 10:30:00 UTC: head (10.0.0.1) has the queues`."""
    if not plan["version"]:
        return NEVER
    what = f"this release cannot follow it: {plan['fault']}"
    if plan["off"]:
        what = OFF
    elif plan["manager"]:
        trial = "; it is a trial, and nothing is done" if plan["trial"] else ""
        has = "is to have" if would else "has"
        what = f"{with_address(plan['manager'], dict(names))} {has} the queues{trial}"
    return published_line(plan, what, would)


def is_in_force(plan: Document) -> bool:
    """Whether a node is to decide."""
    return plan["manager"] is not None


def mib(found: int) -> str:
    """`24 GiB`, `1.5 GiB`, `512 MiB`."""
    if abs(found) < KIB:
        return f"{found} MiB"
    return f"{found / KIB:.0f} GiB" if found % KIB == 0 or abs(found) >= 100 * KIB else f"{found / KIB:.1f} GiB"


def seconds(found: int) -> str:
    """`-` for 0."""
    return f"{found} s" if found else "-"


def some(words: Sequence[str], most: int = QUEUES_SHOWN) -> str:
    """`a, b, c and 3 more`."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def amount_text(found: Document) -> str:
    """`4 cores, 8 GiB of memory, 3 slots`: what is not 0."""
    parts = [
        count(found["cores"], "core") if found["cores"] else "",
        f"{mib(found['memory_mb'])} of memory" if found["memory_mb"] else "",
        f"{mib(found['disk_mb'])} of disk" if found["disk_mb"] else "",
        count(found["slots"], "slot") if found.get("slots") else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing"


def used_text(used: Document, have: Document) -> str:
    """`12 of 16 cores, 24 GiB of 30 GiB of memory, 3 of 64 slots are used`."""
    parts = [
        f"{used['cores']} of {count(have['cores'], 'core')}",
        f"{mib(used['memory_mb'])} of {mib(have['memory_mb'])} of memory",
    ]
    if have["disk_mb"] or used["disk_mb"]:
        parts.append(f"{mib(used['disk_mb'])} of {mib(have['disk_mb'])} of disk")
    return ", ".join([*parts, f"{used['slots']} of {count(have['slots'], 'slot')}"]) + " are used"


# -- the plan -------------------------------------------------------------------------------------------------------


def plan_lines(plan: Document) -> Iterator[str]:
    """The types, and what holds for all of them."""
    rows = [TYPE_HEAD, *map(_type_cells, plan["types"])]
    keep = [place for place in range(len(TYPE_HEAD)) if place != TYPE_HEAD.index("disk") or _has_disk(plan)]
    yield from columns([[row[place] for place in keep] for row in rows], right=range(3, len(keep)))
    moves = "machines move to the fastest server" if plan["moves"] else "machines do not move"
    yield f"a round every {plan['period_s']} s; images take at most {mib(plan['store_mb'])}; {moves}"
    headroom = amount_text(plan["headroom"])
    if headroom != "nothing":
        yield f"headroom: {headroom} stay free"
    if plan["always_on"]:
        yield f"always on: {some(plan['always_on'], 12)}"


def _has_disk(plan: Document) -> bool:
    return any(each["disk_mb"] for each in plan["types"])


def _type_cells(kind: Document) -> tuple[str, ...]:
    group = f" ({kind['group']})" if kind["group"] else ""
    return (
        f"{kind['name']}{group}",
        kind["template"],
        some(kind["queues"]),
        str(kind["cores"]),
        mib(kind["memory_mb"]),
        mib(kind["disk_mb"]) if kind["disk_mb"] else "-",
        mib(kind["image_mb"]),
        str(kind["slots"]),
        seconds(kind["window_s"]),
        str(kind["most"]) if kind["most"] else "-",
    )


def values_of(plan: Document) -> dict[str, str]:
    """What an operator decides, by key of the file, as texts."""
    found = {"manager": plan["manager"] or "-"}
    found |= {key: _text(plan[key]) for key in ("trial", "period_s", "store_mb", "moves", "always_on")}
    for table in ("headroom", "waits"):
        found |= {f"{table}.{key}": _text(value) for key, value in plan[table].items()}
    for kind in plan["types"]:
        found |= {f"types.{kind['name']}.{key}": _text(value) for key, value in kind.items() if key != "name"}
    return found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value) if value != "" else "-"


# -- what the queue's node tells ------------------------------------------------------------------------------------


def silent_line(plan: Document, names: Mapping[str, str]) -> str:
    """Of an answer without what the queue's node sees."""
    name = with_address(plan["manager"], dict(names))
    return f"the last round is not known: {name} has reported nothing"


def ago(seconds_: float | None) -> str:
    """`12 s ago`."""
    return "never" if seconds_ is None else f"{age(seconds_)} ago"


def action_text(found: Document, names: Mapping[str, str]) -> str:
    """`start alma-3 on s2, from s1`."""
    server = f" on {named(found['server'], names)}" if found["server"] else ""
    source = f", from {named(found['source'], names)}" if found["source"] else ""
    return f"{found['action']} {found['machine']}{server}{source}"


def named(server: str, names: Mapping[str, str]) -> str:
    """A server has the address of its node as its name."""
    return names.get(server, server)
