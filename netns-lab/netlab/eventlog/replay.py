"""What an event log shows when it is played again from the beginning, as a film is wound back.

Intuition: who only looks at the finish knows who won. Who has the film knows since when he was in front for good.

Pure: events come in, changes of one quantity go out as (moment, value), the moment on the log's clock in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from netlab.eventlog.events import Event
from netlab.topology.sites import Leaders

Change = tuple[float, int]
ENDS = ("stopped", "lab_exited", "lab_forked")


def frames(events: Iterable[Event], leaders: Leaders | None = None) -> Iterator[tuple[float, dict[str, str | None]]]:
    """Leaders of all that have a place, after each event that changes one; `leaders` is how it was before.

    The dictionary is always the same.
    """
    now: dict[str, str | None] = dict(leaders or {})
    for event in events:
        node = event["node"]
        if event["event"] == "place":
            now[node] = event.get("leader")
        elif event["event"] in ENDS and node in now:
            del now[node]
        else:
            continue
        yield float(event["mono"]), now


def wide(events: Iterable[Event], site_of: Callable[[str], str]) -> list[Change]:
    """How many edges lead from one site to another."""
    found: list[Change] = []
    wide_nodes: set[str] = set()
    for event in events:
        node, before = event["node"], len(wide_nodes)
        if event["event"] == "place":
            leader = event.get("leader")
            wide_nodes.discard(node)
            if leader is not None and site_of(leader) != site_of(node):
                wide_nodes.add(node)
        elif event["event"] in ENDS:
            wide_nodes.discard(node)
        if len(wide_nodes) != before:
            found.append((float(event["mono"]), len(wide_nodes)))
    return found


def level(events: Iterable[Event], node: str, leaders: Leaders) -> list[Change]:
    """How many edges lead from the node to its root; `leaders` is how it was before. Circles end the way."""
    found: list[Change] = []
    last: int | None = None
    for at, now in frames(events, leaders):
        edges, leader = 0, now.get(node)
        while leader is not None and edges < len(now):
            edges, leader = edges + 1, now.get(leader)
        if edges != last:
            found.append((at, edges))
            last = edges
    return found


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
