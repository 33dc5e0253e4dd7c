"""What has changed in a stretch of the event log: leaders, how long each orphan had none, and one quantity over time.

Pure: states and events of the log come in, numbers go out, and changes of a quantity as (moment, value). Times are on
the log's clock, in seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from netlab.eventlog import tree
from netlab.eventlog.events import Cluster, Event
from netlab.eventlog.tree import Leaders

Change = tuple[float, int]
ENDS = ("stopped", "lab_exited", "lab_forked")
Baseline = Mapping[str, tuple[float | None, int]]
"""Address -> (when its life began, how often it had changed its leader)."""


def baseline(cluster: Cluster) -> Baseline:
    """What `moves` is counted from."""
    return {node.address: (node.forked_at, node.leader_changes) for node in cluster.live()}


def moves(cluster: Cluster, since: Baseline) -> dict[str, int]:
    """How often each node has changed its leader since then; those with a new life, or none, do not count."""
    found = {}
    for node in cluster.live():
        forked_at, before = since.get(node.address, (None, 0))
        if node.address in since and node.forked_at == forked_at and node.leader_changes > before:
            found[node.address] = node.leader_changes - before
    return found


def places_told(events: Iterable[Event], node: str) -> list[str]:
    """Each place that the node took in these events, with its reason."""
    found = []
    for event in events:
        if event["event"] == "place" and event["node"] == node:
            leader = event.get("leader") or "none"
            found.append(f"{event['place']}, leader {leader}: {event.get('reason', 'no reason')}")
    return found


@dataclass
class Losses:
    """Orphans, and what became of them. Addresses; times in seconds."""

    fallen: list[tuple[str, str, float]] = field(default_factory=list)  # orphan, its leader, when that fell
    struck: dict[str, list[float]] = field(default_factory=dict)  # when something happened to the node itself
    returned: dict[str, list[float]] = field(default_factory=dict)  # when a stopped or cut leader was there again

    def leader_fell(self, leader: str, orphans: Iterable[str], at: float) -> None:
        self.strike(leader, at)
        self.fallen += [(orphan, leader, at) for orphan in orphans]

    def strike(self, node: str, at: float) -> None:
        """The node itself died, was cut or stopped: from now on its own loss is no measure."""
        self.struck.setdefault(node, []).append(at)

    def back(self, leader: str, at: float) -> None:
        self.returned.setdefault(leader, []).append(at)

    def attached_s(self, events: Iterable[Event]) -> tuple[list[float], list[str]]:
        """(seconds of each orphan until it had a leader or was root, ascending; orphans that never had one).

        `events` are those since the first fall. Orphans that were struck before they had a leader do not count.
        """
        placed, reborn = _places(events)
        found, never = [], []
        for orphan, leader, at in self.fallen:
            times = [*placed.get(orphan, ()), *reborn.get(leader, ()), *self.returned.get(leader, ())]
            attached_at = min((time for time in times if time >= at), default=None)
            struck_at = min((time for time in self.struck.get(orphan, ()) if time >= at), default=None)
            if struck_at is not None and (attached_at is None or struck_at < attached_at):
                continue
            if attached_at is None:
                never.append(orphan)
            else:
                found.append(attached_at - at)
        return sorted(found), never


def _places(events: Iterable[Event]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """(times of all places of each node, times of the first place in each life that began in these events)."""
    placed: dict[str, list[float]] = {}
    reborn: dict[str, list[float]] = {}
    newborn: set[str] = set()
    for event in events:
        node, mono = event["node"], float(event["mono"])
        if event["event"] == "lab_forked":
            newborn.add(node)
        elif event["event"] == "place":
            placed.setdefault(node, []).append(mono)
            if node in newborn:
                newborn.discard(node)
                reborn.setdefault(node, []).append(mono)
    return placed, reborn


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
    known = [(-inf, 0), *changes]
    return [known[bisect_right(known, (begin + second, inf)) - 1][1] for second in range(int(end - begin) + 1)]
