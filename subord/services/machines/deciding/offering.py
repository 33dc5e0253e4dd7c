"""What each job gets, in the order of the scheduler: the first of four ways that is there.

1. A machine of its type that is open, or on and closed: it is opened. 2. One that is off: it is started on the
fastest server that fits, after a cold move if it is elsewhere. 3. A new clone; without one, a machine that is off and
has lately not come up. 4. Room is made (freeing.py). What is under way counts before a way that takes longer.
Invariant: a job that comes first chooses first, and room that is kept for it is not given to a job that comes later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from subord.services.machines.deciding import freeing, images
from subord.services.machines.deciding.picture import Picture
from subord.services.machines.deciding.supplies import Off
from subord.services.machines.deciding.windows import end_of
from subord.services.machines.model import Want
from subord.services.machines.orders import Clone, Open, Start
from subord.services.machines.plan import Type


class Offer(NamedTuple):
    """`why`: a sentence without a full stop. `is_final`: nothing is left for another such job either."""

    is_met: bool
    why: str
    is_final: bool = False


class Provided(NamedTuple):
    """`whys`: for each job in words what it gets, or why it gets nothing. `unmet`: jobs that do not get all."""

    whys: dict[str, str]
    unmet: set[str]


def provide(picture: Picture, wants: Iterable[Want]) -> Provided:
    """Actions go into the picture."""
    whys, unmet = dict[str, str](), set[str]()
    final = dict[tuple[str, int], Offer]()
    for want in wants:
        key = (want.type, want.slots)
        offer = final.get(key) or _offer(picture, want)
        if offer.is_final:
            final[key] = offer
        if want.job not in unmet:
            whys[want.job] = offer.why
        if not offer.is_met:
            unmet.add(want.job)
    return Provided(whys, unmet)


def _offer(picture: Picture, want: Want) -> Offer:
    kind, supply = picture.types[want.type], picture.supply[want.type]
    if name := supply.open.take(want.slots):
        picture.idle.pop(name)
        return Offer(True, f"the machine {name} is open for it")
    if offer := _opened(picture, want, kind):
        return offer
    if name := supply.coming.take(want.slots):
        return Offer(True, f"the machine {name} is coming up")
    if kind.most and supply.on >= kind.most:
        return Offer(
            False, f"{supply.on} machines of the type {kind.name} are on, and {kind.most} are the most", True
        )
    return (
        _started(picture, want, kind, supply.off)
        or _cloned(picture, want, kind)
        or _started(picture, want, kind, supply.unsure)
        or _not_now(picture, want, kind)
    )


def _opened(picture: Picture, want: Want, kind: Type) -> Offer | None:
    supply = picture.supply[kind.name]
    name = supply.closed.take(want.slots)
    if not name:
        return None
    if left := supply.closed.pop(name):
        supply.open[name] = left
    picture.idle.pop(name)
    why = f"the machine {name} is opened for it"
    picture.give(Open(name, end_of(kind, picture.now)), want.job, why)
    return Offer(True, why)


def _started(picture: Picture, want: Want, kind: Type, off: Off) -> Offer | None:
    """A machine that is off: on the fastest server that fits."""
    found = _off(picture, kind, off)
    if found is None:
        return None
    name, server, source = found
    supply = picture.supply[kind.name]
    off.take(name)
    supply.on += 1
    if kind.slots > want.slots:
        supply.coming[name] = kind.slots - want.slots
    picture.take_room(server, kind.need)
    why = f"the machine {name} starts on {server}" + (f" after a move from {source}" if source else "")
    picture.give(Start(name, server, source), want.job, why)
    return Offer(True, why)


def _off(picture: Picture, kind: Type, off: Off) -> tuple[str, str, str] | None:
    """A machine, its server, and the server that gives it; ""."""
    off.index(picture.going, picture.fixed, picture.reachable)
    movable = off.first_movable() if picture.plan.moves else ""
    server = None
    if movable or off.at:
        server = picture.finding.server(kind.need, None if movable else off.at, off.at)
    if server is not None:
        name = off.first_at(server) or movable
        return name, server, "" if off.servers[name] == server else off.servers[name]
    for name in off.on_their_way():
        target = picture.going[name]
        if picture.finding.server(kind.need, (target,)):
            return name, target, off.servers[name]
    return None


def _cloned(picture: Picture, want: Want, kind: Type) -> Offer | None:
    if not images.has_space(picture, kind):
        return None
    server = picture.finding.server(kind.need, _with_template(picture, kind))
    if server is None:
        return None
    name, supply = _new_name(picture, kind), picture.supply[kind.name]
    picture.names.add(name)
    picture.images_mb += kind.image_mb
    supply.on += 1
    if kind.slots > want.slots:
        supply.coming[name] = kind.slots - want.slots
    picture.take_room(server, kind.need)
    why = f"the machine {name} is cloned from {kind.template} on {server}"
    picture.give(Clone(name, kind.name, server), want.job, why)
    return Offer(True, why)


def _with_template(picture: Picture, kind: Type) -> Collection[str] | None:
    """None: all."""
    return () if kind.name in picture.seen.lacking else picture.seen.templates.get(kind.name)


def _new_name(picture: Picture, kind: Type) -> str:
    number = picture.numbers.get(kind.name, 1)
    while (name := f"{kind.name}-{number:03}") in picture.names:
        number += 1
    picture.numbers[kind.name] = number
    return name


def _not_now(picture: Picture, want: Want, kind: Type) -> Offer:
    """There is no machine, or no room for one."""
    has_space, at = images.has_space(picture, kind), _with_template(picture, kind)
    has_template, servers = at is None or bool(at), _targets(picture, kind)
    if has_space and has_template:
        servers = None if at is None or servers is None else servers | set(at)
    elif servers and has_template and _has_room_elsewhere(picture, kind, servers):
        why = images.make_space(picture, want, kind)
        if why.startswith("waits"):
            return Offer(False, why)
    if servers is None or servers:
        freed = freeing.make_room(picture, want, kind, servers)
        return Offer(False, freed.why, freed.is_final)
    if not has_template:
        why = (
            f"no machine of the type {kind.name} is off, and no server that answers has its template "
            f"{kind.template}, or could clone it lately"
        )
        return Offer(False, why, True)
    why = images.make_space(picture, want, kind)
    return Offer(False, why, not why.startswith("waits"))


def _has_room_elsewhere(picture: Picture, kind: Type, servers: set[str]) -> bool:
    """A clone could start where no machine that is off can."""
    finding = picture.finding
    if finding.server(kind.need, servers, with_coming=True) is not None:
        return False
    return finding.server(kind.need, _with_template(picture, kind)) is not None


def _targets(picture: Picture, kind: Type) -> set[str] | None:
    """The servers where a machine that is off could start if there were room; None: all."""
    found = set[str]()
    for off in picture.supply[kind.name].all_off:
        off.index(picture.going, picture.fixed, picture.reachable)
        if picture.plan.moves and off.first_movable():
            return None
        found.update(off.at, (picture.going[name] for name in off.on_their_way()))
    return found
