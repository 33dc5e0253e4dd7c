"""subord in the race against others: the same questions, answered from its event log.

Intuition: the home team fills in the same form. A death is known to the leader of the dead at once, and to everybody
who asks when the root's roster lacks it; nobody else is told, so nobody else has to know.
"""

from __future__ import annotations

from collections.abc import Iterable

from netlab.events import Event
from netlab.lab import Lab
from netlab.layout import position_of
from netlab.rivals import Knowers

RESTORE_S_MAX = 60.0


class Ours:
    """Rival: one daemon on each node."""

    settings = "subord, fan-out 8, timing lan"

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._events: list[Event] = []
        lab.events = self._events

    def start(self) -> None:
        self._lab.start_all()

    def started_at(self) -> tuple[float, float]:
        cluster = self._lab.cluster
        return cluster.first_fork_at or 0.0, cluster.last_fork_at

    def converged_at(self) -> float | None:
        return self._lab.look().settled_at()

    def victims(self) -> tuple[int, int]:
        """Leaders of others, where there are two besides the root: the death of a leaf is less trouble."""
        leading = self._lab.look().subordinates()
        others = self._lab.positions[1:]
        chosen = [position for position in others if self._lab.address(position) in leading]
        chosen = chosen if len(chosen) > 1 else others
        return chosen[len(chosen) // 2], chosen[len(chosen) // 2 - 1]

    def end(self, position: int) -> None:
        self._lab.kill(position)

    def knowers(self, victim: int) -> Knowers:
        """Its leader, and the root when its roster has the right length."""
        self._lab.look()
        network, known = self._lab.options.network, {}
        for event in self._events:
            if event["event"] == "subordinate_lost" and event["subordinate"] == self._lab.address(victim):
                known[position_of(event["node"], network)] = float(event["mono"])
        roots = self._lab.cluster.roots()
        living = sum(node.address != self._lab.address(victim) for node in self._lab.cluster.live())
        if known and len(roots) == 1 and roots[0].roster_nodes == living:
            root = position_of(roots[0].address, network)
            known[root] = max(roots[0].roster_at, known.get(root, 0.0))
        return known

    def must_know(self, victim: int) -> frozenset[int]:
        roots = self._lab.look().roots()
        return frozenset(position_of(root.address, self._lab.options.network) for root in roots) - {victim}

    def leader(self) -> int:
        (root,) = self._lab.look().roots()
        return position_of(root.address, self._lab.options.network)

    def leader_since(self, other_than: int) -> float | None:
        """The new root, with everybody else below it."""
        cluster, gone = self._lab.look(), self._lab.address(other_than)
        return cluster.settled_at({node.address for node in cluster.live() if node.address != gone})

    def restore(self, position: int) -> None:
        self._lab.start(position)
        self._lab.wait_stable(RESTORE_S_MAX)

    def meters(self) -> tuple[dict[int, float], dict[int, float]]:
        found = self._lab.processes("cpu_s", "pss_mib")
        network = self._lab.options.network
        cpu_s, pss_mib = (
            {position_of(address, network): value for address, value in found[key].items()}
            for key in ("cpu_s", "pss_mib")
        )
        return cpu_s, pss_mib

    def groups(self) -> dict[str, Iterable[int]]:
        return {"node": self._lab.positions}
