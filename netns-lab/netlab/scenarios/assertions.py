"""What a scenario expects: every part of the network is one whole tree, and only allowed nodes have moved.

Everything is read from the event log. The clock of an expectation runs from its step in the script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from netlab.eventlog import changes as log_changes
from netlab.eventlog.events import Cluster
from netlab.lab import Lab
from netlab.scenarios.node_state import NodeState, Positions
from netlab.scenarios.report import Seen
from netlab.topology.addresses import position_of
from subord.core.address.numbering import numbering
from subord.sim.checkers.metrics import percentile
from subord.sim.scenario import definition

QUIET_S = 1.0  # no node moves for so long after all is whole; not counted
NAMED_MAX = 8

Wait = Callable[[float, Callable[[], bool]], bool]
"""Wait until a moment or a condition, whichever comes first; whether the condition holds."""


class Shortfall(Exception):  # noqa: N818  # a fault of the daemons, not of the lab
    """The daemons did not do what the scenario demands; the text holds the facts."""


class Assertions:
    """Reads the log of one scenario; `losses` is told what happens to leaders."""

    def __init__(self, lab: Lab, state: NodeState, cluster: definition.Cluster) -> None:
        self._lab = lab
        self._state = state
        self._cluster = cluster
        self._computed_leader = numbering(cluster.numbering, cluster.fanout).computed_leader
        self._events = lab.events
        self._baseline: log_changes.Baseline = {}
        self.losses = log_changes.Losses()
        self.excused: set[str] = set()  # their moves do not count: they were cut off

    def look(self) -> Cluster:
        """The state now. Raises Shortfall when a daemon has ended by itself."""
        cluster = self._lab.look()
        for position in self._state.running:
            if not cluster.nodes[self._lab.address(position)].alive:
                address = self._lab.address(position)
                codes = [e["code"] for e in self._events if e["node"] == address and e["event"] == "lab_exited"]
                known = f", exit code {codes[-1]}" if codes else ""
                raise Shortfall(f"the daemon of node {position} ended by itself{known}")
        return cluster

    def root(self) -> int | None:
        """The present root; of several the lowest."""
        nodes = self._lab.look().nodes
        living = self._state.living
        return next((p for p in living if nodes[self._lab.address(p)].place == "root"), None)

    def orphans(self, leader: int, victims: Collection[int]) -> list[str]:
        """Addresses of the living subordinates of `leader` that are not struck themselves."""
        safe = {self._lab.address(p) for p in self._state.living if p not in victims}
        return [a for a in self._lab.look().subordinates().get(self._lab.address(leader), []) if a in safe]

    def expect(self, step: definition.Expect, moved: Collection[int] | None, wait: Wait) -> Seen:
        """What was seen since the last expectation; its `faults` are what `step` demands and is not so."""
        began = time.monotonic()
        until = began + step.within_s

        def is_whole_and_quiet() -> bool:
            at = self._whole_at(home=step.home)
            return at is not None and at <= until and time.monotonic() - max(at, began) >= QUIET_S

        is_held = wait(until + QUIET_S, is_whole_and_quiet)
        at = self._whole_at(home=step.home)
        seen = self._count(None if at is None else max(0.0, at - began), moved)
        if not is_held:
            seen.faults.append(f"not whole within {step.within_s:g} s: {self._facts(home=step.home)}")
        seen.faults += _complaints(seen, step)
        self._events.clear()
        self._baseline = log_changes.baseline(self._lab.cluster)
        self.losses = log_changes.Losses()
        self.excused.clear()
        return seen

    def _count(self, whole_s: float | None, moved: Collection[int] | None) -> Seen:
        moves = log_changes.moves(self._lab.cluster, self._baseline)
        by_position = {self._position(a): n for a, n in moves.items() if a not in self.excused}
        attached_s, never = self.losses.attached_s(self._events)
        return Seen(
            whole_s=whole_s,
            moves=sum(by_position.values()),
            moved=sorted(by_position),
            outside=[] if moved is None else sorted(set(by_position) - set(moved)),
            attached_s=attached_s,
            never=sorted(map(self._position, never)),
        )

    def _position(self, address: str) -> int:
        return position_of(address, self._cluster.network)

    def _whole_at(self, *, home: bool) -> float | None:
        """Since when every part is one tree; None while one is not, or a node has not left yet."""
        if self._lingering():
            return None
        found = 0.0
        for part in self._state.parts():
            at = self._lab.cluster.settled_at(frozenset(map(self._lab.address, part)))
            if at is None or (home and self._away(part)):
                return None
            found = max(found, at)
        return found

    def _lingering(self) -> list[int]:
        """Those that were told to leave and still run."""
        alive = {self._position(node.address) for node in self._lab.cluster.live()}
        return sorted(alive - self._state.running)

    def _away(self, part: Positions) -> list[int]:
        """Those that are not below their computed leader, though it is in the same part."""
        computed = {position: self._computed_leader(position) for position in sorted(part)}
        return [each for each, leader in computed.items() if leader in part and self._leader(each) != leader]

    def _leader(self, position: int) -> int | None:
        leader = self._lab.cluster.nodes[self._lab.address(position)].leader
        return None if leader is None else self._position(leader)

    def _facts(self, *, home: bool) -> str:
        """One sentence a part that is not whole."""
        found = [f"still leaving: {_named(lingering)}"] if (lingering := self._lingering()) else []
        found += [
            f"of {_named(sorted(part))} {', '.join(wrong)}"
            for part in self._state.parts()
            if (wrong := self._facts_of(part, home=home))
        ]
        return "; ".join(found) or "a node moved again, or it was late"

    def _facts_of(self, part: Positions, *, home: bool) -> list[str]:
        nodes = self._lab.cluster.nodes
        seen = {position: nodes[self._lab.address(position)] for position in sorted(part)}
        roots = [p for p, node in seen.items() if node.place == "root"]
        placeless = [p for p, node in seen.items() if node.place is None]
        astray = [p for p in seen if p not in roots and p not in placeless and self._leader(p) not in part]
        away = self._away(part) if home else []
        found = (
            [] if len(roots) == 1 else [f"{len(roots)} are root ({_named(roots)})" if roots else "no node is root"]
        )
        found += [
            f"the roster of {p} has {seen[p].roster_nodes} nodes instead of {len(part)}"
            for p in roots
            if seen[p].roster_nodes != len(part)
        ]
        for what, positions in (
            ("have no place yet", placeless),
            ("have a leader that is not there", astray),
            ("are not at home", away),
        ):
            found += [f"{_named(positions)} {what}"] if positions else []
        return found


def _complaints(seen: Seen, step: definition.Expect) -> list[str]:
    """What the counts are, where they may not be so."""
    found = []
    if seen.outside:
        found.append(f"{_named(seen.outside)} changed the leader, and only {step.moved} may")
    if step.moves_max is not None and seen.moves > step.moves_max:
        found.append(f"{seen.moves} changes of leader, at most {step.moves_max} are allowed: {_named(seen.moved)}")
    if step.attached_p99_s is not None:
        if seen.never:
            found.append(f"{_named(seen.never)} had no leader again")
        p99 = percentile(seen.attached_s, 0.99)
        if p99 is not None and p99 > step.attached_p99_s:
            found.append(f"99 of 100 orphans had a leader after {p99:.2f} s, {step.attached_p99_s:g} s are allowed")
    return found


def _named(positions: list[int]) -> str:
    """Positions as `1-4,9`, not too many of them."""
    text = definition.folded(positions)
    words = text.split(",")
    return text if len(words) <= NAMED_MAX else f"{','.join(words[:NAMED_MAX])} and more"
