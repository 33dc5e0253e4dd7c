"""HashiCorp Serf: membership by gossip. Agents with the LAN profile, all of which join the first.

Intuition: a rumour mill. Everybody hears of everybody in the end; we count on the sheets who has heard of whom.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable

from netlab.lab import Lab
from netlab.peers.programs import Visitors
from netlab.peers.systems import Knowers, Meters

PROGRAM = "serf"
EVENT = re.compile(r"serf: EventMember(Join|Failed|Leave): n(\d+) ")


class Serf:
    """Rival: one agent on each node."""

    meaning = "converged: every agent lists every other; known: by all agents"

    def __init__(self, lab: Lab, visitors: Visitors, version: str) -> None:
        self.settings = f"{version}: serf agent -profile=lan -retry-join=FIRST -retry-interval=1s"
        self._lab = lab
        self._visitors = visitors
        self._joined: defaultdict[int, set[int]] = defaultdict(set)
        self._failed: defaultdict[int, Knowers] = defaultdict(dict)
        self._started: list[float] = []
        self._converged_at: float | None = None

    def start(self) -> None:
        for position in self._lab.positions:
            self._started.append(time.monotonic())
            self._start(position)

    def _start(self, position: int) -> None:
        first = self._lab.positions[0]
        join = () if position == first else (f"-retry-join={self._lab.address(first)}", "-retry-interval=1s")
        self._visitors.start(
            position,
            "serf",
            PROGRAM,
            "agent",
            f"-node=n{position}",
            f"-bind={self._lab.address(position)}",
            "-rpc-addr=127.0.0.1:7373",
            "-profile=lan",
            *join,
        )

    def started_at(self) -> tuple[float, float]:
        return self._started[0], self._started[-1]

    def converged_at(self) -> float | None:
        self._read()
        everybody = set(self._lab.positions)
        if any(self._joined[position] != everybody for position in everybody):
            self._converged_at = None
        elif self._converged_at is None:
            self._converged_at = time.monotonic()
        return self._converged_at

    def victims(self) -> tuple[int, int]:
        positions = self._lab.positions
        return positions[len(positions) // 2], positions[len(positions) // 2 - 1]

    def end(self, position: int) -> None:
        self._visitors.end(position)

    def knowers(self, victim: int) -> Knowers:
        self._read()
        return self._failed[victim]

    def must_know(self, victim: int) -> frozenset[int]:
        return self._visitors.live() - {victim}

    def meters(self) -> Meters:
        return self._visitors.meters()

    def groups(self) -> dict[str, Iterable[int]]:
        return {"node": self._lab.positions}

    def _read(self) -> None:
        now = time.monotonic()
        for writer, line in self._visitors.lines("serf"):
            found = EVENT.search(line)
            if found is None:
                continue
            what, whom = found[1], int(found[2])
            if what == "Join":
                self._joined[writer].add(whom)
                self._failed[whom].pop(writer, None)
            else:
                self._joined[writer].discard(whom)
                self._failed[whom].setdefault(writer, now)
