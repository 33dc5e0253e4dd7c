"""HashiCorp Serf: membership by gossip. Agents with the LAN profile, all of which join the first.

Everything is read from what the agents print.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable

from netlab.lab import Lab
from netlab.peers.programs import NodePrograms
from netlab.peers.systems import Costs, Noticed, Since

PROGRAM = "serf"
EVENT = re.compile(r"serf: EventMember(Join|Failed|Leave): n(\d+) ")


class Serf:
    """System: one agent on each node."""

    meaning = "converged: every agent lists every other; known: by all agents"

    def __init__(self, lab: Lab, programs: NodePrograms, version: str) -> None:
        self.settings = f"{version}: serf agent -profile=lan -retry-join=FIRST -retry-interval=1s"
        self._lab = lab
        self._programs = programs
        self._joined: defaultdict[int, set[int]] = defaultdict(set)
        self._failed: defaultdict[int, Noticed] = defaultdict(dict)
        self._started: list[float] = []
        self._converged = Since()

    def start(self) -> None:
        first = self._lab.positions[0]
        for position in self._lab.positions:
            self._started.append(time.monotonic())
            join = () if position == first else (f"-retry-join={self._lab.address(first)}", "-retry-interval=1s")
            self._programs.start(
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
        every = set(self._lab.positions)
        return self._converged.look(holds=all(self._joined[position] == every for position in every))

    def victims(self) -> tuple[int, int]:
        positions = self._lab.positions
        return positions[len(positions) // 2], positions[len(positions) // 2 - 1]

    def end(self, position: int) -> None:
        self._programs.end(position)

    def noticed(self, victim: int) -> Noticed:
        self._read()
        return self._failed[victim]

    def must_notice(self, victim: int) -> frozenset[int]:
        return self._programs.live() - {victim}

    def costs(self) -> Costs:
        return self._programs.costs()

    def groups(self) -> dict[str, Iterable[int]]:
        return {"node": self._lab.positions}

    def _read(self) -> None:
        now = time.monotonic()
        for writer, line in self._programs.lines("serf"):
            found = EVENT.search(line)
            if found is None:
                continue
            what, member = found[1], int(found[2])
            if what == "Join":
                self._joined[writer].add(member)
                self._failed[member].pop(writer, None)
            else:
                self._joined[writer].discard(member)
                self._failed[member].setdefault(writer, now)
