"""Space in the store of images: for a clone, machines of other types that are off are deleted.

Invariant: images of our machines, with those that are just copied, never take more than the plan says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from subord.services.machines.deciding.picture import Picture
from subord.services.machines.deciding.supplies import Image
from subord.services.machines.model import Want
from subord.services.machines.orders import Delete
from subord.services.machines.plan import Type


def has_space(picture: Picture, kind: Type) -> bool:
    return picture.images_mb + kind.image_mb <= picture.plan.store_mb


def make_space(picture: Picture, want: Want, kind: Type) -> str:
    """Why the job still waits. The smallest images go first, and none in vain."""
    lacking_mb = picture.images_mb + kind.image_mb - picture.plan.store_mb - picture.images_coming_mb
    if lacking_mb <= 0:
        picture.images_coming_mb -= kind.image_mb  # kept for this job
        return "waits until images of other machines are deleted"
    chosen, total_mb = list[Image](), 0
    for each in _candidates(picture, kind):
        chosen.append(each)
        total_mb += each.size_mb
        if total_mb >= lacking_mb:
            break
    if total_mb < lacking_mb:
        _stop_one(picture, want, kind)
        return f"the store of images lacks {lacking_mb} MiB for a clone of {kind.template}"
    for each in list(chosen):
        if total_mb - each.size_mb >= lacking_mb:
            chosen.remove(each)
            total_mb -= each.size_mb
    why = f"waits until the images of {', '.join(each.name for each in chosen)} are deleted"
    for each in chosen:
        picture.give(
            Delete(each.name, each.server), want.job, f"{each.name} is deleted for a clone of {kind.template}"
        )
        picture.images_coming_mb += each.size_mb
        picture.supply[each.type].take_off(each.name)
    picture.images_coming_mb -= kind.image_mb
    return why


def _candidates(picture: Picture, kind: Type) -> Iterator[Image]:
    """Of machines that are off and of another type, the smallest first."""
    if picture.deletable is None:
        found = (
            Image(picture.types[name].image_mb, machine, server, name)
            for name, supply in picture.supply.items()
            for off in supply.all_off
            for machine, server in off.servers.items()
            if picture.reachable[server] and machine not in picture.fixed and machine not in picture.going
        )
        picture.deletable = deque(sorted(found))
    images = picture.deletable
    while images and not picture.supply[images[0].type].has_off(images[0].name):
        images.popleft()
    return (each for each in images if each.type != kind.name and picture.supply[each.type].has_off(each.name))


def _stop_one(picture: Picture, want: Want, kind: Type) -> None:
    """An idle machine of another type is stopped, so that its image can be deleted next. The smallest goes first."""
    if picture.stoppable is None:
        found = (each for each in picture.idle.values() if picture.reachable[each.server])
        picture.stoppable = deque(sorted(found, key=lambda each: (each.machine.need, each.machine.name)))
    idle = picture.stoppable
    while idle and idle[0].machine.name not in picture.idle:
        idle.popleft()
    here = next((each for each in idle if each.machine.type != kind.name and each.machine.name in picture.idle), None)
    if here is not None:
        picture.stop(here, want.job, f"{here.machine.name} is idle, and its image takes space in the store")
