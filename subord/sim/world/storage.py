"""What hosts have on their disks, as daemon.py writes it (runtime/state/store.py).

A neighbourhood is saved SAVE_S after a change, a key ring at once. Both survive the end of a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from subord.core.snapshots import neighbourhood

if TYPE_CHECKING:
    from subord.core.events import Neighbourhood
    from subord.core.view import Incarnation, Position
    from subord.sealing.keyfile import Kept
    from subord.sim.world.world import World

SAVE_S = 5.0  # as in daemon.py


class Storage:
    """By position; without `are_there` nothing is kept."""

    def __init__(self, world: World, *, are_there: bool) -> None:
        self._world = world
        self.are_there = are_there
        self._of: dict[Position, Neighbourhood] = {}
        self._images: dict[Position, Neighbourhood | None] = {}
        self.rings: dict[Position, Kept] = {}  # the last key ring
        self._ring_images: dict[Position, Kept | None] = {}
        self._to_save: set[tuple[Position, int]] = set()  # (position, life)

    def of(self, position: Position) -> Neighbourhood | None:
        return self._of.get(position)

    def begin(self, position: Position, incarnation: Incarnation) -> None:
        """Write the number of a new life that continues from the disk at once."""
        self._of[position] = msgspec.structs.replace(self._of[position], incarnation=incarnation)

    def lose(self, position: Position) -> None:
        """Another host is there now."""
        self._of.pop(position, None)
        self.rings.pop(position, None)

    def image(self, position: Position) -> None:
        """Save the present state of the disk."""
        self._images[position] = self._of.get(position)
        self._ring_images[position] = self.rings.get(position)
        if self._world.members is not None:
            self._world.members.image(position)

    def restore(self, position: Position) -> None:
        """Restore the last image; without one the disk stays."""
        if position not in self._images:
            return
        self.lose(position)
        before, ring = self._images[position], self._ring_images[position]
        if before is not None:
            self._of[position] = before
        if ring is not None:
            self.rings[position] = ring
        if self._world.members is not None:
            self._world.members.restore(position)

    def keep_ring(self, position: Position, ring: Kept) -> None:
        """At once, as in runtime/security/key_ring.py."""
        if self.are_there:
            self.rings[position] = ring

    def remember(self, position: Position, boot: int) -> None:
        """Save later, because one change often follows another."""
        life = position, boot
        if self.are_there and life not in self._to_save:
            self._to_save.add(life)
            self._world.after(SAVE_S, self.save, *life)

    def save(self, position: Position, boot: int) -> None:
        """Unless that life has ended."""
        self._to_save.discard((position, boot))
        node = self._world.nodes.get(position)
        found = neighbourhood(node) if node is not None and boot == self._world.boots[position] else None
        if self.are_there and found is not None:
            self._of[position] = found
