"""Idle machines that are stopped so that a machine of any type can start soon.

Invariant: none is stopped when the headroom of the plan is there, with what is just stopping.
"""

from __future__ import annotations

from subord.services.machines.deciding.picture import Picture
from subord.services.machines.deciding.supplies import Here
from subord.services.machines.model import NOTHING, Capacity


def keep(picture: Picture) -> None:
    """The machines that have been on for the longest time go first."""
    wanted = picture.plan.headroom.capacity
    free = NOTHING
    for each in picture.finding.places_with_coming():
        free = free.plus(Capacity(*(max(0, part) for part in each.room)))
    chosen = {each.action.machine for each in picture.given}
    idle = [
        each for each in picture.idle.values()
        if each.machine.name not in chosen and picture.servers[each.server].is_reachable
    ]  # fmt: skip
    for here in sorted(idle, key=lambda each: (each.machine.since, each.machine.name)):
        if _helps(free, wanted, here):
            free = free.more(here.machine.need)
            picture.stop(here, "", f"{here.machine.name} is idle, and less than the headroom is free")


def _helps(free: Capacity, wanted: Capacity, here: Here) -> bool:
    """Whether the machine has any of what is lacking."""
    parts = zip(free, wanted, here.machine.need, strict=False)  # without slots
    return any(have < want and part for have, want, part in parts)
