"""Deleting a machine: first its images, then its definition, which says until the end what is to be deleted.

Runs in threads; raises libvirtError and RefusedError. Only images that were made for the machine are deleted, by
the id in their names, and none that another machine of this server uses.
"""

from __future__ import annotations

from typing import Any

from subord.services.machines.power import reading
from subord.services.machines.power.changes.common import RefusedError, Server, must_be_off, stage_words
from subord.services.machines.power.definitions import images_of, is_own
from subord.services.machines.power.faults import NO_DOMAIN, NO_STORAGE_VOL
from subord.services.machines.power.records import Done, Mark, Stage

DELETABLE = (Stage.WHOLE, Stage.CLONING, Stage.DELETING)


def delete(server: Server, name: str) -> Done:
    domain = server.domain(name)
    if domain is None:
        return Done(is_changed=False, machine=name)
    found = server.ours(domain)
    must_be_off(found, "deleted")
    if found.stage not in DELETABLE:
        raise RefusedError(f"{stage_words(found)}; it was not deleted")
    server.mark(domain, Mark(found.id, server.cluster, found.type, Stage.DELETING))
    scrap(server, domain)
    return Done(is_changed=True, machine=name)


def scrap(server: Server, domain: Any) -> None:
    """The images and the definition of a machine that is off."""
    id_ = domain.UUIDString()
    own = [image for image in images_of(reading.definition_of(domain)) if is_own(image, id_)]
    if own:
        reading.refresh(server.connection)
        used = _used_by_others(server, domain)
        for image in own:
            volume = reading.volume_of(server.connection, image)
            if volume is not None and volume.path() not in used:
                with reading.absent(NO_STORAGE_VOL):
                    volume.delete()
    server.undefine(domain)


def _used_by_others(server: Server, domain: Any) -> set[str]:
    used = set()
    for other in server.connection.listAllDomains():
        if other.UUIDString() == domain.UUIDString():
            continue
        with reading.absent(NO_DOMAIN):
            for image in images_of(reading.definition_of(other)):
                volume = reading.volume_of(server.connection, image) if image.volume else None
                used.add(image.path if volume is None else volume.path())
    return used
