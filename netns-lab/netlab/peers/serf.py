"""HashiCorp Serf: membership by gossip. Agents with the LAN profile, all of which join the first.

Everything is read from what the agents print.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from netlab.lab import Lab
from netlab.peers.programs import NodePrograms
from netlab.peers.systems import Costs, Noticed, Sightings

PROGRAM = "serf"
EVENT = re.compile(r"serf: EventMember(Join|Failed|Leave): n(\d+) ")


class Serf:
    """System: one agent on each node."""

    meaning = "converged: every agent lists every other; known: by all agents"

    def __init__(self, lab: Lab, programs: NodePrograms, version: str, handler: str | None = None) -> None:
        """`handler`: what an agent runs on an event, as Serf has it."""
        self._handlers = () if handler is None else (f"-event-handler={handler}",)
        words = " ".join(("serf agent -profile=lan -retry-join=FIRST -retry-interval=1s", *self._handlers))
        self.settings = f"{version}: {words}"
        self._lab = lab
        self._programs = programs
        self._sightings = Sightings()

    def start(self) -> None:
        first = self._lab.positions[0]
        for position in self._lab.positions:
            join = () if position == first else (f"-retry-join={self._lab.address(first)}", "-retry-interval=1s")
            names = (f"-node=n{position}", f"-bind={self._lab.address(position)}", "-rpc-addr=127.0.0.1:7373")
            self._programs.start(position, "serf", PROGRAM, "agent", *names, "-profile=lan", *join, *self._handlers)

    def started_at(self) -> tuple[float, float]:
        return self._programs.started_at()

    def converged_at(self) -> float | None:
        self._read()
        return self._sightings.complete_at(self._lab.positions)

    def victims(self) -> Sequence[int]:
        return self._lab.positions

    def end(self, position: int) -> None:
        self._programs.end(position)

    def noticed(self, victim: int) -> Noticed:
        self._read()
        return self._sightings.gone[victim]

    def must_notice(self, victim: int) -> frozenset[int]:
        return self._programs.live() - {victim}

    def costs(self) -> Costs:
        return self._programs.costs()

    def groups(self) -> dict[str, Sequence[int]]:
        return {"node": self._lab.positions}

    def _read(self) -> None:
        now = time.monotonic()
        for writer, line in self._programs.lines("serf"):
            if (found := EVENT.search(line)) is not None:
                self._sightings.note(writer, int(found[2]), now, present=found[1] == "Join")
