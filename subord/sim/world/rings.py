"""The key rings of a simulated cluster: which ring each node holds, and the operator's steps.

Inputs are starts of nodes, new documents, and the steps of a rotation; outputs are calls of `take` with the new ring
of a node. Which ring follows from which is decided by sealing/rotation.py. A node begins with the file of its host
and the ring on its disk, as in runtime/security/key_ring.py; a new ring travels as a signed document (members.py). As
docs/security.md asks, the operator removes a key only when every running node has the newest ring, and then writes
that ring to the files of all hosts; a ring that spreads by files has a revision of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING

from subord.core.carriage.documents import RING, Document
from subord.core.view import Position
from subord.sealing import rotation
from subord.sealing.keyfile import Kept
from subord.sealing.keys import SECRET_BYTES, Keyring, KeyringError, key_of
from subord.sim.scenario.lasting import Rotate

if TYPE_CHECKING:
    from subord.sim.world.world import World

AGAIN_S = 1.0  # until a stopped daemon is looked at again
SPREAD_S = 1.0  # as in runtime/net/streams.py


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

    def follow(self, position: Position, documents: Iterable[Document]) -> None:
        """Documents are new at a node: the signed ring among them counts."""
        for document in documents:
            ring = rotation.ring_of(document.order) if document.name == RING else None
            found = None if ring is None else rotation.followed(self.of[position], ring)
            if found is not None:
                self._change(position, found)

    def catch_up(self, position: Position, documents: Iterable[Document]) -> None:
        """A life begins with these documents on its disk."""
        self.follow(position, (each for each in documents if each.version > self.of[position].revision))

    def _change(self, position: Position, ring: Keyring) -> None:
        """A leader closes the streams of its subordinates when a key is gone, once the carrier has sent the ring."""
        world, before = self._world, self.of[position]
        self._hold(position, ring)
        self._take(position, ring)
        if before.keys.keys() - ring.keys.keys():
            world.after(SPREAD_S, self._hang_up, position, world.boots[position])

    def _hang_up(self, position: Position, life: int) -> None:
        if position in self._world.nodes and self._world.boots[position] == life:
            self._world.edges.hang_up_below(position)

    def share_a_key(self, one: Position, other: Position) -> bool:
        """Whether a stream between the two can open."""
        return not self.of[one].keys.keys().isdisjoint(self.of[other].keys.keys())

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
            assert self._world.members is not None
            self._world.members.give(root, rotation.ring_order(ring, self._world.members.wall_ms(root)))
            if what == "remove":
                self._write_all(ring)
            return 0.0
        order = self._chance.sample(named, len(named))
        for number, position in enumerate(order):
            self._copies += 1
            self._world.after(number * step.gap_s, self._copy, position, ring)
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
        self._reload(position, given, self._world.boots[position])
        if not self._copies:
            self._write_all(given)

    def _reload(self, position: Position, given: Keyring, life: int) -> None:
        """A stopped daemon reloads when it goes on; a later life begins with the file."""
        world = self._world
        if position not in world.nodes or world.boots[position] != life:
            return
        if position in world.paused:
            world.after(AGAIN_S, self._reload, position, given, life)
            return
        ring = rotation.at_start(given, self.of[position], self._since[position])
        self._since[position] = rotation.fingerprint(given)
        if ring != self.of[position]:
            self._change(position, ring)

    def _write_all(self, ring: Keyring) -> None:
        self._file = ring
        self._files.clear()
