"""Reading the daemons' event log, and the state of the cluster that follows from it.

All daemons append to one file, with the time from one clock, so reading it asks no daemon and disturbs none. Lines
are JSON objects with `mono` (CLOCK_MONOTONIC, seconds), `wall`, `node` (address), `event`, and fields by event.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netlab.eventlog.tree import level

LINE_BYTES_MAX = 1 << 16
CHUNK_BYTES = 1 << 20

Event = dict[str, Any]


def append_event(descriptor: int, node: str, event: str, *, mono: float | None = None, **fields: Any) -> None:
    """Write one line to a log opened with O_APPEND: lines of several writers do not mix."""
    at = time.monotonic() if mono is None else mono
    line = {"mono": at, "wall": time.time(), "node": node, "event": event, **fields}
    os.write(descriptor, json.dumps(line).encode() + b"\n")


class EventLog:
    """Incremental reader: each call of `read` returns what was appended since the last, a bounded piece at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.malformed = 0

    def read(self) -> list[Event]:
        """Complete new lines in at most 1 MiB; [] when there is nothing new. Lines that are no event are counted."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return []
        self._offset += len(chunk)
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            self._rest = b"?"  # the end of this line will be counted as malformed
        return [event for line in complete if (event := self._parse(line)) is not None]

    def new(self) -> Iterator[Event]:
        while events := self.read():
            yield from events

    def _parse(self, line: bytes) -> Event | None:
        try:
            event = json.loads(line)
            float(event["mono"]), str(event["node"]), str(event["event"])
        except (ValueError, KeyError, TypeError):
            self.malformed += 1
            return None
        return event if isinstance(event, dict) else None


@dataclass
class NodeSeen:
    """What the log says about one node since its last start."""

    address: str
    alive: bool = True
    exited: bool = False  # also its process, a moment after its last event
    forked_at: float | None = None
    place: str | None = None  # "root", "home", "guest"; None before the first
    leader: str | None = None
    placed_at: float = 0.0
    places: int = 0
    leader_changes: int = 0  # the first leader (or none, of a first root) is no change
    roster_nodes: int = 0  # the last count it gave as a root
    roster_at: float = 0.0
    ready: bool = False
    contact_at: float | None = None  # when the first message reached it


@dataclass
class Cluster:
    """All nodes as the log shows them. Times are on the log's clock, in seconds."""

    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    first_fork_at: float | None = None
    last_fork_at: float = 0.0
    last_place_at: float = 0.0

    @staticmethod
    def of(events: Iterable[Event]) -> Cluster:
        cluster = Cluster()
        for event in events:
            cluster.apply(event)
        return cluster

    def apply(self, event: Event) -> None:
        change = getattr(self, f"_on_{event['event']}", None)
        if change is not None:  # `lost`, `healed` and what later versions write do not change the state
            change(event, float(event["mono"]))

    def live(self) -> list[NodeSeen]:
        return [node for node in self.nodes.values() if node.alive]

    def roots(self) -> list[NodeSeen]:
        return [node for node in self.live() if node.place == "root"]

    def settled_at(self, part: Collection[str] | None = None) -> float | None:
        """Since when one root has every live node in its roster and no node moved; None while that is not so.

        With `part`, of these nodes alone, all of which have to live.
        """
        if part is None:
            live, moved_at = self.live(), self.last_place_at
        else:
            live = [node for node in self.live() if node.address in part]
            moved_at = max((node.placed_at for node in live), default=0.0)
            if len(live) != len(part):
                return None
        roots = [node for node in live if node.place == "root"]
        if len(roots) != 1 or roots[0].roster_nodes != len(live):
            return None
        if not all(node is roots[0] or self._is_led(node, part) for node in live):
            return None
        return max(moved_at, roots[0].roster_at)

    def depth(self) -> int:
        leaders = {address: node.leader for address, node in self.nodes.items()}
        return max((level(leaders, node.address) for node in self.live()), default=0)

    def subordinates(self) -> dict[str, list[str]]:
        """Live subordinates of every leader."""
        found: dict[str, list[str]] = {}
        for node in self.live():
            if node.leader is not None:
                found.setdefault(node.leader, []).append(node.address)
        return found

    def leaders(self) -> dict[str, str | None]:
        """Leader of every live node; None: it has none."""
        return {node.address: node.leader for node in self.live()}

    def _is_led(self, node: NodeSeen, part: Collection[str] | None) -> bool:
        leader = None if node.leader is None else self.nodes.get(node.leader)
        return leader is not None and leader.alive and (part is None or leader.address in part)

    def _on_lab_forked(self, event: Event, mono: float) -> None:
        self.nodes[event["node"]] = NodeSeen(event["node"], forked_at=mono)
        self.first_fork_at = mono if self.first_fork_at is None else min(mono, self.first_fork_at)
        self.last_fork_at = max(mono, self.last_fork_at)

    def _on_lab_exited(self, event: Event, _mono: float) -> None:
        node = self._node(event)
        node.alive, node.exited = False, True

    def _on_stopped(self, event: Event, _mono: float) -> None:
        self._node(event).alive = False

    def _on_started(self, event: Event, _mono: float) -> None:
        node = self._node(event)
        if node.places or not node.alive:  # restarted, and not by the lab
            self.nodes[node.address] = NodeSeen(node.address)

    def _on_place(self, event: Event, mono: float) -> None:
        node = self._node(event)
        if node.places and event.get("leader") != node.leader:
            node.leader_changes += 1
        if event["place"] != "root":
            node.roster_nodes = 0  # what it counted as a root holds no longer
        node.places += 1
        node.place, node.leader, node.placed_at = event["place"], event.get("leader"), mono
        self.last_place_at = max(mono, self.last_place_at)

    def _on_roster(self, event: Event, mono: float) -> None:
        node = self._node(event)
        node.roster_nodes, node.roster_at = int(event["nodes"]), mono

    def _on_ready(self, event: Event, _mono: float) -> None:
        self._node(event).ready = True

    def _on_contact(self, event: Event, mono: float) -> None:
        node = self._node(event)
        node.contact_at = mono if node.contact_at is None else node.contact_at

    def _node(self, event: Event) -> NodeSeen:
        return self.nodes.setdefault(event["node"], NodeSeen(event["node"]))
