"""How one quantity changed, from an event log that is replayed from its beginning.

Pure: events come in, changes go out as (moment, value), the moment on the log's clock in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from netlab.eventlog import tree
from netlab.eventlog.events import Event
from netlab.eventlog.tree import Leaders

Change = tuple[float, int]
ENDS = ("stopped", "lab_exited", "lab_forked")


def changes(
    events: Iterable[Event], value_of: Callable[[Leaders], int], leaders: Leaders | None = None
) -> list[Change]:
    """A value of the leaders of all nodes that have a place, whenever it changes; `leaders`: as they were before."""
    now: dict[str, str | None] = dict(leaders or {})
    found: list[Change] = []
    for event in events:
        node = event["node"]
        if event["event"] == "place":
            now[node] = event.get("leader")
        elif event["event"] in ENDS and node in now:
            del now[node]
        else:
            continue
        value = value_of(now)
        if not found or value != found[-1][1]:
            found.append((float(event["mono"]), value))
    return found


def wide_edges(events: Iterable[Event], site_of: Callable[[str], str]) -> list[Change]:
    """How many edges lead from one site to another; 0 before the first change."""
    found = changes(events, lambda leaders: tree.wide_edges(leaders, site_of))
    return found[1:] if found and found[0][1] == 0 else found


def level(events: Iterable[Event], node: str, leaders: Leaders) -> list[Change]:
    """How many edges lead from the node to its root; `leaders` is how it was before."""
    return changes(events, lambda now: tree.level(now, node), leaders)


def since(changes: Iterable[Change], value: int) -> float | None:
    """The moment from which it has had this value until the end; None: it has another in the end."""
    at: float | None = None
    before: int | None = None
    for moment, found in changes:
        if found != before:
            at = moment if found == value else None
        before = found
    return at


def by_second(changes: Iterable[Change], begin: float, end: float) -> list[int]:
    """The value at each full second after `begin`, 0 before the first change; up to `end`."""
    known = list(changes)
    found, value, index = [], 0, 0
    for second in range(int(end - begin) + 1):
        while index < len(known) and known[index][0] <= begin + second:
            value = known[index][1]
            index += 1
        found.append(value)
    return found
