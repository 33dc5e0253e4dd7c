"""subord among the systems under comparison: the same questions, answered from its event log.

The leader of a dead node knows of the death at once, and every node that asks when the root's roster lacks it; no
other node is told, so no other node has to notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.systems import Costs, Noticed
from subord import __version__

RESTORE_S_MAX = 60.0


class Subord:
    """System: one daemon on each node."""

    meaning = (
        "converged: the root lists all nodes, below a leader; known: by its leader first, then by the root, which"
        " every node asks; a new leader: it lists all that live"
    )

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.settings = f"subord {__version__}: fan-out {lab.options.fanout}, timing {lab.options.timing}"

    def start(self) -> None:
        self._lab.start_all()

    def started_at(self) -> tuple[float, float]:
        cluster = self._lab.cluster
        return cluster.first_fork_at or 0.0, cluster.last_fork_at

    def converged_at(self) -> float | None:
        return self._lab.look().settled_at({self._lab.address(position) for position in self._lab.positions})

    def victims(self) -> Sequence[int]:
        """Leaders of others, where there are two besides the root: the death of a leaf is less trouble."""
        subordinates = self._lab.look().subordinates()
        others = self._lab.positions[1:]
        chosen = [position for position in others if self._lab.address(position) in subordinates]
        return chosen if len(chosen) > 1 else others

    def end(self, position: int) -> None:
        self._lab.kill(position)

    def noticed(self, victim: int) -> Noticed:
        """Its leader, and the root when its roster has the right length."""
        self._lab.look()
        gone = self._lab.address(victim)
        known = {
            self._lab.position(event["node"]): float(event["mono"])
            for event in self._lab.events
            if event["event"] == "subordinate_lost" and event["subordinate"] == gone
        }
        roots = [root for root in self._lab.cluster.roots() if root.address != gone]  # a node cut off is its own root
        living = sum(node.address != gone for node in self._lab.cluster.live())
        if known and len(roots) == 1 and roots[0].roster_nodes == living:
            root = self._lab.position(roots[0].address)
            known[root] = max(roots[0].roster_at, known.get(root, 0.0))
        return known

    def must_notice(self, victim: int) -> frozenset[int]:
        return frozenset(self._lab.position(root.address) for root in self._lab.look().roots()) - {victim}

    def leader(self) -> int:
        roots = [root.address for root in self._lab.look().roots()]
        if len(roots) != 1:
            raise LabError(f"subord has {len(roots)} roots where one was expected: {', '.join(roots) or 'none'}.")
        return self._lab.position(roots[0])

    def leader_since(self, other_than: int) -> float | None:
        """The new root, with all others below it."""
        cluster, gone = self._lab.look(), self._lab.address(other_than)
        return cluster.settled_at({node.address for node in cluster.live() if node.address != gone})

    def restore(self, position: int) -> None:
        self._lab.start(position)
        self._lab.wait_stable(RESTORE_S_MAX)

    def costs(self) -> Costs:
        found = self._lab.processes(*Costs._fields)
        missing = len(self._lab.positions) - len(found["cpu_s"])
        if missing:
            raise LabError(f"{missing} daemons ended by themselves: see the logs of the nodes.")
        by_position = ({self._lab.position(a): value for a, value in found[key].items()} for key in Costs._fields)
        return Costs(*by_position)

    def groups(self) -> dict[str, Sequence[int]]:
        return {"node": self._lab.positions}
