"""What a scenario does to nodes and their network. Every fault is noted in the node state and the assertions."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from netlab.lab import Lab
from netlab.scenarios.assertions import Assertions
from netlab.scenarios.node_state import NodeState, sides_of
from netlab.topology.filters import Block, Faults, Protocol, rules

LEAVE_S_MAX = 30.0


class FaultInjector:
    """The nodes of one lab, by position. A node that does not run is left alone by what would end it."""

    def __init__(self, lab: Lab, state: NodeState, assertions: Assertions) -> None:
        self._lab = lab
        self._state = state
        self._assertions = assertions
        self._sites = lab.options.sites
        self._faults = Faults()

    def start(self, positions: Collection[int]) -> None:
        """Start daemons in this order, with their cables plugged in. Raises LabError when one does not start."""
        order = [position for position in positions if position not in self._state.running]
        if not order:
            return
        self._lab.wait(lambda _: not any(map(self.is_leaving, order)), LEAVE_S_MAX)
        for position in order:
            self._plug_in(position)
        self._lab.start_and_wait(*order)
        self._state.running.update(order)

    def is_leaving(self, position: int) -> bool:
        """Whether it was told to leave and still runs."""
        node = self._lab.cluster.nodes.get(self._lab.address(position))
        return position not in self._state.running and node is not None and not node.exited

    def kill(self, positions: Iterable[int]) -> None:
        self._strike(positions, self._kill)

    def _kill(self, position: int) -> None:
        self._state.ended(position)
        self._lab.kill(position)

    def vanish(self, positions: Iterable[int]) -> None:
        self._strike(positions, self._vanish)

    def _vanish(self, position: int) -> None:
        self._lab.cut(position)  # first the cable, so that no node learns of the death
        self._state.vanished.add(position)
        self._kill(position)

    def leave(self, positions: Iterable[int]) -> None:
        """No loss: a node that leaves tells its subordinates where to go."""
        for position in self._running(positions):
            self._assertions.losses.strike(self._lab.address(position), time.monotonic())
            self._state.ended(position)
            self._lab.kill(position, signal.SIGTERM)

    def reuse(self, positions: Iterable[int]) -> None:
        """Hosts disappear, and other ones start at the same addresses."""
        gone = self._running(positions)
        self._strike(gone, self._replace)
        self.start(gone)

    def _replace(self, position: int) -> None:
        self._state.ended(position)
        identity = self._lab.directory.node(position) / "state" / "identity"
        kept = identity.read_bytes() if identity.exists() else b""
        self._lab.replace(position)
        if kept:  # from a backup: another identity would be refused until an operator forgets the node
            identity.touch(mode=0o600)
            identity.write_bytes(kept)
        self._state.cut.discard(position)

    def pause(self, positions: Iterable[int]) -> None:
        self._strike(positions, self._pause)

    def _pause(self, position: int) -> None:
        self._state.paused.add(position)
        self._lab.kill(position, signal.SIGSTOP)

    def resume(self, positions: Iterable[int]) -> None:
        for position in positions:
            if position in self._state.paused:
                self._lab.kill(position, signal.SIGCONT)
                self._state.paused.discard(position)
                self._assertions.losses.back(self._lab.address(position), time.monotonic())

    def freeze(self, position: int, *, frozen: bool) -> None:
        """Stop its process for a moment, or let it go on; it counts as living all the time."""
        if position in self._state.running - self._state.paused:
            self._lab.kill(position, signal.SIGSTOP if frozen else signal.SIGCONT)

    def _running(self, positions: Iterable[int]) -> list[int]:
        return [position for position in positions if position in self._state.running]

    def _strike(self, positions: Iterable[int], act: Callable[[int], None]) -> None:
        """Do it to those that run, and note the subordinates that lose a leader by it."""
        victims = self._running(positions)
        orphans = {position: self._assertions.orphans(position, victims) for position in victims}
        for position in victims:
            self._assertions.losses.leader_fell(self._lab.address(position), orphans[position], time.monotonic())
            act(position)

    def cut(self, positions: Iterable[int]) -> None:
        """Pull the cables, also of nodes that do not run."""
        for position in positions:
            if position not in self._state.running:
                self._pull(position)
        self._strike(positions, self._pull)

    def _pull(self, position: int) -> None:
        self._lab.cut(position)
        self._state.cut.add(position)
        self._assertions.excused.add(self._lab.address(position))

    def _plug_in(self, position: int) -> None:
        if position in self._state.cut | self._state.vanished:
            self._lab.cut(position, connected=True)
            self._state.cut.discard(position)
            self._state.vanished.discard(position)
            if position in self._state.running:  # else only the host is back
                self._assertions.losses.back(self._lab.address(position), time.monotonic())

    def block(self, sources: Iterable[int], targets: Iterable[int], protocol: Protocol) -> None:
        block = Block(self._ports(sources), self._ports(targets), protocol)
        self._filter(replace(self._faults, blocks=(*self._faults.blocks, block)))

    def partition(self, groups: Iterable[Iterable[int]]) -> None:
        """In the place of an earlier partition."""
        groups = list(map(list, groups))
        self._state.sides = sides_of(groups, self._state.nodes)
        if self._sites is not None:
            self._cut_off({self._sites.all_of(list(map(self._lab.address, group))) for group in groups})
            return
        self._filter(replace(self._faults, sides=tuple(self._ports(sorted(side)) for side in self._state.sides)))

    def _cut_off(self, names: Collection[str | None]) -> None:
        """These sites, and no others. Raises LabError."""
        for name in () if self._sites is None else self._sites.names:
            self._lab.cut_site(name, connected=name not in names)

    def lose(self, share: float) -> None:
        """Drop this share of all datagrams."""
        self._filter(replace(self._faults, loss=share))

    def mend(self) -> None:
        for position in sorted(self._state.cut | self._state.vanished):
            self._plug_in(position)
        self._state.sides = ()
        self._cut_off(())
        self._filter(Faults())

    def _filter(self, faults: Faults) -> None:
        if faults != self._faults:
            self._lab.filter(rules(faults))
            self._faults = faults

    def _ports(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(map(self._lab.port, positions))
