"""Carries out the deaths of a schedule in a lab: daemons are killed (SIGKILL), and started again some seconds later.

Inputs are the schedule, the time, and the event log, which says which node is the root; output is a list of what was
done. Invariants: a node that was killed is started again, also when the schedule is over; so is one whose daemon has
ended by itself, which is a fault.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from netlab.accounting.postgresql import Server
from netlab.accounting.schedule import Death, What, victim
from netlab.common.results import Record
from netlab.errors import LabError
from netlab.lab import Lab

AGAIN_S = 0.5
"""Until a death is tried again whose victim does not run now, such as the root while there is none."""


class Deaths:
    """`sinks`: their positions, in the order of their numbers; `server`: of the database of one of them."""

    def __init__(
        self, lab: Lab, schedule: Iterable[Death], chance: random.Random, sinks: Sequence[int], server: Server | None
    ) -> None:
        self.done: list[Record] = []
        """All but those of churn, in the order of time."""
        self.kills: Counter[What] = Counter()
        """Deaths of each kind that were carried out."""
        self.down: set[int] = set()
        self.ended: list[str] = []
        """Addresses of daemons that have ended by themselves."""
        self._lab = lab
        self._due = list(schedule)
        heapq.heapify(self._due)
        self._starts: list[tuple[float, int]] = []
        self._asked_at: dict[int, float] = {}  # of the last start of a node, on the clock of the event log
        self._chance = chance
        self._sinks = sinks
        self._server = server
        self._server_at = 0.0  # when it is started again; 0.0: it runs

    @property
    def is_over(self) -> bool:
        return not (self._due or self._starts or self._server_at)

    def act(self, now_s: float) -> None:
        """Carry out what is due. Raises LabError."""
        self._lab.look()
        for position in self._ended():
            self._note_end(position, now_s + AGAIN_S)
        while self._starts and self._starts[0][0] <= now_s:
            position = heapq.heappop(self._starts)[1]
            self._asked_at[position] = time.monotonic()
            self._lab.start(position)
            self.down.discard(position)
        if self._server and 0.0 < self._server_at <= now_s:
            self._server.start()
            self._server_at = 0.0
        while self._due and self._due[0].at_s <= now_s:
            death = heapq.heappop(self._due)
            if not self._carry_out(death, now_s):
                heapq.heappush(self._due, death._replace(at_s=now_s + AGAIN_S))

    def _carry_out(self, death: Death, now_s: float) -> bool:
        """False: not now."""
        if death.what == "server":
            return self._stop_server(death, now_s)
        victims = self._victims(death)
        if not victims:
            return False
        for position in victims:
            self._kill(position, now_s + death.down_s)
        self._note(death, now_s, [self._lab.address(each) for each in victims])
        return True

    def _victims(self, death: Death) -> list[int]:
        """[]: none of them runs now. Of all sinks, those that run are killed."""
        if death.what == "node":
            live = set(self._lab.positions) - self.down
            found = victim(self._chance, live, {*self._roots(), *self._sinks})
            return [] if found is None else [found]
        wanted = {"root": self._roots(), "sink": [self._sinks[death.sink]], "sinks": self._sinks}[death.what]
        return [each for each in wanted if each not in self.down]

    def _roots(self) -> list[int]:
        """As the event log has it; several, while they have not met."""
        return [self._lab.position(each.address) for each in self._lab.cluster.roots()]

    def _kill(self, position: int, again_s: float) -> None:
        try:
            self._lab.kill(position)
        except LabError:
            self._note_end(position, again_s)
            return
        self.down.add(position)
        heapq.heappush(self._starts, (again_s, position))

    def _ended(self) -> list[int]:
        """Those that run no longer since their last start, and that were not killed."""
        seen = {self._lab.position(each.address): each for each in self._lab.cluster.nodes.values() if each.exited}
        return [
            position
            for position, node in seen.items()
            if position not in self.down and (node.forked_at or 0.0) >= self._asked_at.get(position, 0.0)
        ]

    def _note_end(self, position: int, again_s: float) -> None:
        self.ended.append(self._lab.address(position))
        self.down.add(position)
        heapq.heappush(self._starts, (again_s, position))

    def _stop_server(self, death: Death, now_s: float) -> bool:
        assert self._server is not None
        self._server.stop()
        self._server_at = now_s + death.down_s
        self._note(death, now_s, [])
        return True

    def _note(self, death: Death, now_s: float, nodes: Sequence[str]) -> None:
        self.kills[death.what] += 1
        if death.what != "node":
            about = {"at_s": round(now_s, 1), "what": death.what, "down_s": round(death.down_s, 1)}
            self.done.append({**about, "nodes": list(nodes)})
