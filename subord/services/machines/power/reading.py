"""What is on a server, by calls of libvirt. Runs in threads; raises libvirtError.

A machine or pool that vanishes between two calls is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from xml.etree.ElementTree import Element

from subord.services.machines.power import binding
from subord.services.machines.power.definitions import MIB, Image, cores_of, images_of, memory_of, parsed
from subord.services.machines.power.faults import (
    NO_DOMAIN,
    NO_STORAGE_POOL,
    NO_STORAGE_VOL,
    NO_SUPPORT,
    OPERATION_INVALID,
)
from subord.services.machines.power.link import trouble_of
from subord.services.machines.power.marks import read_mark
from subord.services.machines.power.records import Found, Hardware, Mark, Pool, State

INACTIVE: Final = 2
SECURE: Final = 1
"""Of virDomainXMLFlags: the definition of the next start, with its passwords."""
POOL_RUNNING: Final = 2

STATES: Final = {
    1: (State.ON, "running"),
    2: (State.ON, "blocked"),
    3: (State.PAUSED, "paused"),
    4: (State.ON, "shutting down"),
    5: (State.OFF, "shut off"),
    6: (State.PAUSED, "crashed"),
    7: (State.PAUSED, "suspended by its guest"),
}
"""By the numbers of libvirt's virDomainState."""
OFF_OR_CRASHED: Final = 6


def machines(connection: Any, cluster: str) -> tuple[Found, ...]:
    found = []
    for domain in connection.listAllDomains():
        with absent(NO_DOMAIN):
            found.append(machine(connection, domain, cluster))
    return tuple(sorted(found))


def machine(connection: Any, domain: Any, cluster: str) -> Found:
    number, _reason = domain.state()
    state, word = STATES.get(number, (State.UNKNOWN, f"state {number}"))
    if number == OFF_OR_CRASHED and not domain.isActive():
        state = State.OFF
    definition, id_ = definition_of(domain), domain.UUIDString()
    forms = [definition, parsed(domain.XMLDesc(SECURE))] if state.occupies else [definition]
    mark = read_mark(definition)
    is_ours = mark is not None and (mark.id, mark.cluster) == (id_, cluster) and mark.type != ""
    ours = mark if mark is not None and is_ours else Mark(id_, "", "")
    return Found(
        name=domain.name(),
        id=id_,
        state=state,
        word=word,
        cores=max(map(cores_of, forms)),
        memory=max(map(memory_of, forms)),
        disk=sum(_size(connection, image) for image in images_of(definition)),
        type=ours.type,
        stage=ours.stage,
        peer=ours.peer,
    )


def definition_of(domain: Any) -> Element:
    """Of the next start."""
    return parsed(domain.XMLDesc(INACTIVE | SECURE))


def domain_of(connection: Any, name: str) -> Any:
    """None: there is none."""
    with absent(NO_DOMAIN):
        return connection.lookupByName(name)
    return None


def volume_of(connection: Any, image: Image) -> Any:
    """None: no storage pool that is active here has it."""
    with absent(NO_STORAGE_POOL, NO_STORAGE_VOL, NO_SUPPORT, OPERATION_INVALID):
        if image.volume:
            return connection.storagePoolLookupByName(image.pool).storageVolLookupByName(image.volume)
        if image.path:
            return connection.storageVolLookupByPath(image.path)
    return None


def refresh(connection: Any) -> None:
    """Libvirt sees what others did in a pool, and what is free, only then."""
    libvirt = binding.load()
    for pool in pools_of(connection):
        if not pool.isActive():
            continue
        try:
            pool.refresh()
        except libvirt.libvirtError:  # a volume is just being made there, or the pool is gone
            continue


def pools_of(connection: Any) -> list[Any]:
    """A libvirtd may be without storage."""
    with absent(NO_SUPPORT):
        return list(connection.listAllStoragePools())
    return []


def hardware(connection: Any) -> Hardware:
    _model, memory, cores, mhz, *_ = connection.getInfo()
    pools = []
    for pool in pools_of(connection):
        with absent(NO_STORAGE_POOL):
            state, capacity, _allocated, free = pool.info()
            pools.append(Pool(pool.name(), capacity // MIB, free // MIB, state == POOL_RUNNING))
    return Hardware(cores, memory, mhz, tuple(sorted(pools)))


@contextmanager
def absent(*codes: int) -> Iterator[None]:
    """Goes on after what is not there."""
    libvirt = binding.load()
    try:
        yield
    except libvirt.libvirtError as error:
        if trouble_of(error).code not in codes:
            raise


def _size(connection: Any, image: Image) -> int:
    """In MiB, rounded up; 0 where it is not known, as of a file that was removed by hand: all machines of the server
    would be unknown otherwise."""
    with absent(NO_STORAGE_POOL, NO_STORAGE_VOL, OPERATION_INVALID):
        volume = volume_of(connection, image)
        return 0 if volume is None else -(-volume.info()[1] // MIB)
    return 0
