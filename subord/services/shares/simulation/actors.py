"""Nodes and leaders of an experiment: they report upwards, and obey rows from above.

Time is counted in requests: a node serves REQUESTS in a period, one after the other (decision A9). Invariant: a node
has served exactly as many requests as it had time for, or its queues are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, Protocol

from subord.core.carriage.shares.interface import Branch, Row
from subord.services.shares.folding import folded, over_time
from subord.services.shares.policy import Policy
from subord.services.shares.simulation.serving import Serve
from subord.services.shares.tickets import whole

REQUESTS: Final = 20
"""Of a node in a period of 0.3 s, 15 ms each: the spread of the paper's figures 4 and 5 is that of so many draws."""
PERIOD_S: Final = 0.3


class Actor(Protocol):
    """A node, or a leader with the nodes below it."""

    def report(self) -> Branch | None:
        """What it tells its leader; None: it has nothing yet."""
        ...

    def obey(self, row: Row, now: int) -> None:
        """A row from its leader."""
        ...


class Node:
    """A node that serves requests of several classes."""

    def __init__(self, loads: Sequence[float], row: Row, serve: Serve) -> None:
        """`loads`: for each class the requests that come in a period; `inf`: always more than the node can serve."""
        self._serve = serve
        self._queues = [0.0] * len(loads)
        self._tickets = whole(row)
        self._at = self._reported_at = 0
        self._given: Row = [0.0] * len(loads)
        """Tickets times requests since the last report."""
        self.served = [0.0] * len(loads)
        """In all."""
        self._served_before: Row = list(self.served)
        self.load(loads)

    def load(self, loads: Sequence[float]) -> None:
        """The work that comes from now on. What waits of a class that stops is gone with its clients."""
        self._loads = loads
        self._is_limited = any(0 < load < inf for load in loads)
        self._queues = [
            load if load in (0, inf) else queue if queue < inf else 0.0
            for load, queue in zip(loads, self._queues, strict=True)
        ]

    def arrive(self) -> None:
        """A period begins."""
        for place, load in enumerate(self._loads):
            if 0 < load < inf:
                self._queues[place] += load

    def advance(self, now: int) -> None:
        """Serves requests until then."""
        time = now - self._at
        if not time:
            return
        served = self._serve(self._tickets, self._queues, time)
        if self._is_limited:
            self._queues = [queue - each for queue, each in zip(self._queues, served, strict=True)]
        self.served = [before + each for before, each in zip(self.served, served, strict=True)]
        self._given = [before + time * each for before, each in zip(self._given, self._tickets, strict=True)]
        self._at = now

    def report(self) -> Branch | None:
        """Of the time since the last report."""
        time = self._at - self._reported_at
        if not time:
            return None
        usage = [100 * (now - before) / time for now, before in zip(self.served, self._served_before, strict=True)]
        whole_row = sum(self._tickets)
        allocation = [100 * each / (time * whole_row) for each in self._given]
        self._given = [0.0] * len(self._given)
        self._served_before, self._reported_at = self.served, self._at
        return Branch(allocation, usage, [queue > 0 for queue in self._queues], 1)

    def obey(self, row: Row, now: int) -> None:
        """From now on."""
        self.advance(now)
        self._tickets = whole(row)


class Leader:
    """Divides its branches by a policy, once in each of its rounds."""

    def __init__(self, branches: Sequence[Actor], wanted: Row, policy: Policy) -> None:
        self.branches = branches
        self._wanted = wanted
        self._policy = policy
        self._accounts: Row = [0.0] * len(wanted)
        self._heard: dict[int, Branch] = {}
        self._rounds: list[Branch] = []
        """Of its own, since the last report."""

    def hear(self, place: int, report: Branch | None) -> None:
        """The report of a branch."""
        if report is not None:
            self._heard[place] = report

    def decide(self, now: int) -> None:
        """Rows for all branches that have reported, from their last reports."""
        places = sorted(self._heard)
        if not places:
            return
        reports = [self._heard[place] for place in places]
        decision = self._policy.decide(reports, self._wanted, self._accounts)
        self._accounts = decision.accounts
        for place, row in zip(places, decision.rows, strict=True):
            self.branches[place].obey(row, now)
        self._rounds.append(folded(reports))

    def report(self) -> Branch | None:
        """Of its rounds since the last report."""
        if not self._rounds:
            return None
        report = over_time(self._rounds)
        self._rounds = []
        return report

    def obey(self, row: Row, now: int) -> None:  # noqa: ARG002  # it counts from the next round on
        """The row of a branch is what its leader wants over the nodes of the branch."""
        self._wanted = row
