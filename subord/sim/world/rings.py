"""The key rings of a simulated cluster: which ring each node holds, how a new one spreads, and the operator's steps.

Inputs are starts of nodes, streams that open, and the steps of a rotation; outputs are calls of `take` with the new
ring of a node. Which ring follows from which is decided by sealing/rotation.py. A node begins with the file of its
host and the ring on its disk, as in runtime/security/key_ring.py, and sends its ring along its streams, as in
runtime/net/streams.py. As docs/security.md asks, the operator removes a key only when every running node has the
newest ring, and then writes that ring to the files of all hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from subord.core.view import Position
from subord.sealing import rotation
from subord.sealing.keyfile import Kept
from subord.sealing.keys import SECRET_BYTES, Keyring, KeyringError, key_of
from subord.sim.scenario.lasting import Rotate
from subord.sim.world.edges import KERNEL_S

if TYPE_CHECKING:
    from subord.sim.world.world import World

AGAIN_S = 1.0  # until a delivery is retried
TRIES_MAX = 120


class Rings:
    """`take` is called with the new ring of a running node. `steps` counts the completed steps, by name."""

    def __init__(
        self, world: World, first: Keyring, chance: Random, take: Callable[[Position, Keyring], None]
    ) -> None:
        self.of: dict[Position, Keyring] = {}  # of the present life, or of the last one
        self.steps: dict[str, int] = {"install": 0, "use": 0, "remove": 0, "refused": 0}
        self._world = world
        self._chance = chance
        self._take = take
        self._file = first
        self._files: dict[Position, Keyring] = {}  # of hosts whose file is not `_file`
        self._since: dict[Position, str] = {}
        self._fresh = ""  # name of the key that was installed last
        self._copies = 0  # of the file that are still to be made

    # -- nodes --------------------------------------------------------------------------------------------

    def file_of(self, position: Position) -> Keyring:
        """The operator's file on this host."""
        return self._files.get(position, self._file)

    def begin(self, position: Position) -> Keyring:
        """The ring with which a life begins."""
        given, kept = self.file_of(position), self._world.disks.rings.get(position)
        ring = rotation.at_start(given, *(kept or (None, "")))
        self._since[position] = rotation.fingerprint(given)
        self._hold(position, ring)
        return ring

    def _hold(self, position: Position, ring: Keyring) -> None:
        self.of[position] = ring
        if ring.revision:
            self._world.disks.keep_ring(position, Kept(ring, self._since[position]))

    def _change(self, position: Position, ring: Keyring) -> None:
        """Tell both ends of each stream; a leader closes the streams of its subordinates when a key is gone."""
        edges, before = self._world.edges, self.of[position]
        self._hold(position, ring)
        self._take(position, ring)
        for other in edges.ends_of(position):
            self._tell(position, other)
        if before.keys.keys() - ring.keys.keys():
            edges.hang_up_below(position)

    def share_a_key(self, one: Position, other: Position) -> bool:
        """Whether a stream between the two can open."""
        return not self.of[one].keys.keys().isdisjoint(self.of[other].keys.keys())

    def opened(self, one: Position, other: Position) -> None:
        """A stream has opened: each end sends its ring."""
        self._tell(one, other)
        self._tell(other, one)

    def _tell(self, source: Position, target: Position) -> None:
        lives = self._world.nodes.get(source), self._world.nodes.get(target)
        self._world.after(KERNEL_S, self._arrive, source, target, self.of[source], lives, TRIES_MAX)

    def _arrive(self, source: Position, target: Position, ring: Keyring, lives: object, tries: int) -> None:
        """Deliver a ring written to a stream as soon as both ends run and the network is open."""
        world = self._world
        if lives != (world.nodes.get(source), world.nodes.get(target)) or not tries:
            return
        if target in world.paused or not world.weather.is_open(source, target, stream=True):
            world.after(AGAIN_S, self._arrive, source, target, ring, lives, tries - 1)
            return
        try:
            found = rotation.newer(self.of[target], ring)
        except KeyringError:  # the daemon closes the stream and keeps its ring
            return
        if found is not None:
            self._change(target, found)

    # -- the operator -------------------------------------------------------------------------------------

    def rotate(self, step: Rotate, root: Position | None, named: Sequence[Position]) -> float:
        """Seconds until the step is done; 0.0 also when it is refused, which changes nothing."""
        try:
            what, ring = self._next(step, root)
        except KeyringError:
            self.steps["refused"] += 1
            return 0.0
        self.steps[what] += 1
        assert root is not None
        if step.nodes == "root":
            self._change(root, ring)
            if what == "remove":
                self._write_all(ring)
            return 0.0
        given = ring._replace(revision=0)
        order = self._chance.sample(named, len(named))
        for number, position in enumerate(order):
            self._copies += 1
            self._world.after(number * step.gap_s, self._copy, position, given)
        return len(order) * step.gap_s

    def _next(self, step: Rotate, root: Position | None) -> tuple[str, Keyring]:
        """Name and ring of the next step. Raises KeyringError."""
        if root is None or root in self._world.paused or self._copies:
            raise KeyringError("the operator must wait")
        ring = self.of[root]
        others = sorted(key.name for key in ring.keys.values() if key != ring.primary)
        others.sort(key=lambda name: name == self._fresh)  # the fresh one last
        what: str = step.what
        if what == "next":
            what = "install" if not others else "use" if others[-1] == self._fresh else "remove"
        match what:
            case "install":
                key = key_of(self._chance.randbytes(SECRET_BYTES))
                found = rotation.install(ring, key)
                self._fresh = key.name
                return what, found
            case "use":
                return what, rotation.use(ring, others[-1] if others else self._fresh)
        if not step.forced and any(self.of[each] != ring for each in self._world.nodes):
            raise KeyringError("a running node does not have the newest ring")
        return what, rotation.remove(ring, others[0] if others else ring.primary.name)

    def _copy(self, position: Position, given: Keyring) -> None:
        """Write this file on a host; its daemon reloads it, as after SIGHUP."""
        self._copies -= 1
        self._files[position] = given
        world = self._world
        if position in world.nodes and position not in world.paused:
            ring = rotation.at_start(given, self.of[position], self._since[position])
            self._since[position] = rotation.fingerprint(given)
            if ring != self.of[position]:
                self._change(position, ring)
        if not self._copies:
            self._write_all(given)

    def _write_all(self, ring: Keyring) -> None:
        self._file = ring
        self._files.clear()
