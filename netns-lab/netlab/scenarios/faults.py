"""What can be done to nodes and their network, with everything that must be noted when it is done.

Intuition: the stagehands. They pull the trapdoor and write down who fell and when, because the critic will ask.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from netlab.lab import Lab
from netlab.scenarios.assertions import Watch
from netlab.scenarios.node_state import Crew, sides_of
from netlab.topology.filters import Block, Faults, Protocol, rules

FORK_S_MAX = 30.0
LEAVE_S_MAX = 30.0


class Stage:
    """The nodes of one lab, by position. Whoever is not running is left alone by what would end it."""

    def __init__(self, lab: Lab, crew: Crew, watch: Watch) -> None:
        self._lab = lab
        self._crew = crew
        self._watch = watch
        self._sites = lab.options.sites
        self._faults = Faults()

    # -- lives --------------------------------------------------------------------------------------------

    def start(self, positions: Collection[int]) -> None:
        """Daemons start, in this order, their cables plugged in. Raises LabError when one does not."""
        order = [position for position in positions if position not in self._crew.running]
        if not order:
            return
        self._lab.wait(lambda _: not any(map(self.is_leaving, order)), LEAVE_S_MAX)
        for position in order:
            self._plug_in(position)
        asked_at = time.monotonic()
        self._lab.start(*order)
        addresses = [self._lab.address(position) for position in order]
        # A copy writes its first line itself; until then the picture is the old one.
        self._lab.wait(lambda cluster: all(_is_forked(cluster.nodes.get(a), asked_at) for a in addresses), FORK_S_MAX)
        for position in order:
            self._crew.started(position)

    def is_leaving(self, position: int) -> bool:
        """Whether it was told to leave and still runs."""
        node = self._lab.cluster.nodes.get(self._lab.address(position))
        return position not in self._crew.running and node is not None and not node.exited

    def kill(self, positions: Iterable[int]) -> None:
        self._strike(positions, self._kill)

    def _kill(self, position: int) -> None:
        self._crew.ended(position)
        self._lab.kill(position)

    def vanish(self, positions: Iterable[int]) -> None:
        self._strike(positions, self._vanish)

    def _vanish(self, position: int) -> None:
        self._lab.cut(position)  # first the cable, so that the dead process can tell nobody
        self._crew.vanished.add(position)
        self._kill(position)

    def leave(self, positions: Iterable[int]) -> None:
        """No loss: who leaves tells its subordinates where to go."""
        for position in self._running(positions):
            self._watch.losses.strike(self._lab.address(position), time.monotonic())
            self._crew.ended(position)
            self._lab.kill(position, signal.SIGTERM)

    def reuse(self, positions: Iterable[int]) -> None:
        """Hosts disappear, and other ones start at the same addresses."""
        gone = self._running(positions)
        self._strike(gone, self._replace)
        self.start(gone)

    def _replace(self, position: int) -> None:
        self._crew.ended(position)
        self._lab.replace(position)
        self._crew.cut.discard(position)

    def pause(self, positions: Iterable[int]) -> None:
        self._strike(positions, self._pause)

    def _pause(self, position: int) -> None:
        self._crew.paused.add(position)
        self._lab.kill(position, signal.SIGSTOP)

    def resume(self, positions: Iterable[int]) -> None:
        for position in positions:
            if position in self._crew.paused:
                self._lab.kill(position, signal.SIGCONT)
                self._crew.paused.discard(position)
                self._watch.losses.back(self._lab.address(position), time.monotonic())

    def freeze(self, position: int, *, frozen: bool) -> None:
        """Stop its process for a moment, or let it go on; it counts as living all the time."""
        if position in self._crew.running - self._crew.paused:
            self._lab.kill(position, signal.SIGSTOP if frozen else signal.SIGCONT)

    def _running(self, positions: Iterable[int]) -> list[int]:
        return [position for position in positions if position in self._crew.running]

    def _strike(self, positions: Iterable[int], act: Callable[[int], None]) -> None:
        """Do it to those that run, and note who loses a leader by it."""
        victims = self._running(positions)
        orphans = {position: self._watch.orphans(position, victims) for position in victims}
        for position in victims:
            self._watch.losses.leader_fell(self._lab.address(position), orphans[position], time.monotonic())
            act(position)

    # -- the network --------------------------------------------------------------------------------------

    def cut(self, positions: Iterable[int]) -> None:
        """Pull the cables, also of those that do not run."""
        for position in positions:
            if position not in self._crew.running:
                self._pull(position)
        self._strike(positions, self._pull)

    def _pull(self, position: int) -> None:
        self._lab.cut(position)
        self._crew.cut.add(position)
        self._watch.excused.add(self._lab.address(position))

    def _plug_in(self, position: int) -> None:
        if position in self._crew.cut | self._crew.vanished:
            self._lab.cut(position, connected=True)
            self._crew.cut.discard(position)
            self._crew.vanished.discard(position)
            if position in self._crew.running:  # else there is only a host again
                self._watch.losses.back(self._lab.address(position), time.monotonic())

    def block(self, sources: Iterable[int], targets: Iterable[int], protocol: Protocol) -> None:
        block = Block(self._ports(sources), self._ports(targets), protocol)
        self._filter(replace(self._faults, blocks=(*self._faults.blocks, block)))

    def partition(self, groups: Iterable[Iterable[int]]) -> None:
        """In the place of an earlier partition."""
        groups = list(map(list, groups))
        self._crew.sides = sides_of(groups, self._crew.cast)
        if self._sites is not None:
            self._cut_off({self._sites.all_of(list(map(self._lab.address, group))) for group in groups})
            return
        self._filter(replace(self._faults, sides=tuple(self._ports(sorted(side)) for side in self._crew.sides)))

    def _cut_off(self, names: Collection[str | None]) -> None:
        """These sites, and no others. Raises LabError."""
        for name in () if self._sites is None else self._sites.names:
            self._lab.cut_site(name, connected=name not in names)

    def lose(self, share: float) -> None:
        """So much of all datagrams is lost."""
        self._filter(replace(self._faults, loss=share))

    def mend(self) -> None:
        for position in sorted(self._crew.cut | self._crew.vanished):
            self._plug_in(position)
        self._crew.sides = ()
        self._cut_off(())
        self._filter(Faults())

    def _filter(self, faults: Faults) -> None:
        if faults != self._faults:
            self._lab.filter(rules(faults))
            self._faults = faults

    def _ports(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(map(self._lab.port, positions))


def _is_forked(node: object, since: float) -> bool:
    forked_at = getattr(node, "forked_at", None)
    return forked_at is not None and forked_at >= since
