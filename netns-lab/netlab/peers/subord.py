"""subord in the race against others: the same questions, answered from its event log.

Intuition: the home team fills in the same form. A death is known to the leader of the dead at once, and to everybody
who asks when the root's roster lacks it; nobody else is told, so nobody else has to know.
"""

from __future__ import annotations

from collections.abc import Iterable

from netlab.errors import LabError
from netlab.eventlog.events import Event
from netlab.lab import Lab
from netlab.peers.systems import Knowers, Meters
from netlab.topology.layout import position_of
from subord import __version__

RESTORE_S_MAX = 60.0


class Ours:
    """Rival: one daemon on each node."""

    meaning = (
        "converged: the root lists everybody, below a leader; known: by its leader first, then by the root, which"
        " answers all who ask; a new leader: it lists everybody who lives"
    )

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.settings = f"subord {__version__}: fan-out {lab.options.fanout}, timing {lab.options.timing}"
        self._events: list[Event] = []
        lab.events = self._events

    def start(self) -> None:
        self._lab.start_all()

    def started_at(self) -> tuple[float, float]:
        cluster = self._lab.cluster
        return cluster.first_fork_at or 0.0, cluster.last_fork_at

    def converged_at(self) -> float | None:
        return self._lab.look().settled_at({self._lab.address(position) for position in self._lab.positions})

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
        gone = self._lab.address(victim)
        roots = [root for root in self._lab.cluster.roots() if root.address != gone]  # who is cut off is its own root
        living = sum(node.address != gone for node in self._lab.cluster.live())
        if known and len(roots) == 1 and roots[0].roster_nodes == living:
            root = position_of(roots[0].address, network)
            known[root] = max(roots[0].roster_at, known.get(root, 0.0))
        return known

    def must_know(self, victim: int) -> frozenset[int]:
        roots = self._lab.look().roots()
        return frozenset(position_of(root.address, self._lab.options.network) for root in roots) - {victim}

    def leader(self) -> int:
        roots = [root.address for root in self._lab.look().roots()]
        if len(roots) != 1:
            raise LabError(f"subord has {len(roots)} roots where one was expected: {', '.join(roots) or 'nobody'}.")
        return position_of(roots[0], self._lab.options.network)

    def leader_since(self, other_than: int) -> float | None:
        """The new root, with everybody else below it."""
        cluster, gone = self._lab.look(), self._lab.address(other_than)
        return cluster.settled_at({node.address for node in cluster.live() if node.address != gone})

    def restore(self, position: int) -> None:
        self._lab.start(position)
        self._lab.wait_stable(RESTORE_S_MAX)

    def meters(self) -> Meters:
        found, network = self._lab.processes(*Meters._fields), self._lab.options.network
        missing = len(self._lab.positions) - len(found["cpu_s"])
        if missing:
            raise LabError(f"{missing} daemons ended by themselves: see the logs of the nodes.")
        return Meters(
            *(
                {position_of(address, network): value for address, value in found[key].items()}
                for key in Meters._fields
            )
        )

    def groups(self) -> dict[str, Iterable[int]]:
        return {"node": self._lab.positions}
