"""A clone of a template: a definition with the stage `cloning`, then its images, then the stage is taken away.

Runs in threads; raises libvirtError and RefusedError. A clone that was interrupted is deleted, and made anew by the
next call: of its images it is not known how much was copied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from uuid import uuid4
from xml.etree.ElementTree import Element, SubElement, tostring

from subord.services.machines.power import binding, reading
from subord.services.machines.power.changes.common import RefusedError, Server, must_be_off
from subord.services.machines.power.changes.deleting import scrap
from subord.services.machines.power.definitions import MIB, Image, clone_of, copied_name, images_of, parsed
from subord.services.machines.power.names import lowest_free, wrong_name
from subord.services.machines.power.records import Done, Mark, Stage


class Copy(NamedTuple):
    """An image of the template, and the name of the one to be made in the same pool."""

    source: Any
    pool: Any
    name: str


class Wanted(NamedTuple):
    template: str
    type: str
    name: str = ""
    """"": the lowest free one."""
    taken: Collection[str] = ()


def name_of(server: Server, wanted: Wanted) -> str:
    """A clone of this type that was interrupted gives its name to the next one."""
    if wanted.name:
        return wanted.name
    there = server.machines()
    unfinished = {each.name for each in there if each.type == wanted.type and each.stage == Stage.CLONING}
    return lowest_free(wanted.type, ({each.name for each in there} | set(wanted.taken)) - unfinished)


def clone(server: Server, wanted: Wanted) -> Done:
    """`wanted` has a name."""
    if wrong := wrong_name(wanted.type):
        raise RefusedError(wrong.reason)
    old = server.domain(wanted.name)
    if old is not None and not _is_unfinished(server, old, wanted):
        return Done(is_changed=False, machine=wanted.name)
    template = _template(server, wanted)
    if old is not None:
        scrap(server, old)
    reading.refresh(server.connection)
    id_ = str(uuid4())
    copies = _copies(server, images_of(template), wanted, id_)
    _check_room(copies)
    mark = Mark(id_, server.cluster, wanted.type, Stage.CLONING)
    domain = server.connection.defineXML(clone_of(template, wanted.name, id_, mark))
    _copy(server, domain, copies)
    server.mark(domain, mark._replace(stage=Stage.WHOLE))
    return Done(is_changed=True, machine=wanted.name)


def _is_unfinished(server: Server, old: Any, wanted: Wanted) -> bool:
    found = server.found(old)
    if found.type != wanted.type or found.stage not in (Stage.WHOLE, Stage.CLONING):
        raise RefusedError(
            f"the name {wanted.name} is taken by another machine; nothing was cloned: take another name"
        )
    if found.stage == Stage.WHOLE:
        return False
    must_be_off(found, "cloned again")
    return True


def _template(server: Server, wanted: Wanted) -> Element:
    domain = server.domain(wanted.template)
    if domain is None:
        raise RefusedError(
            f"there is no template {wanted.template} on this server; nothing was cloned: define it there, or correct "
            "the plan"
        )
    must_be_off(server.found(domain), "cloned")
    return reading.definition_of(domain)


def _copies(server: Server, images: Sequence[Image], wanted: Wanted, id_: str) -> list[Copy]:
    copies = []
    for image in images:
        if image.is_shared:
            continue
        source = reading.volume_of(server.connection, image)
        if source is None:
            raise RefusedError(
                f"the image {image.where or image.target} of the template {wanted.template} is in no storage pool "
                "that is active on this server; nothing was cloned: define and start the pool, or restore the image"
            )
        copies.append(Copy(source, source.storagePoolLookupByVolume(), copied_name(image, wanted.name, id_)))
    return copies


def _check_room(copies: Sequence[Copy]) -> None:
    needs: dict[str, int] = {}
    for each in copies:
        name = each.pool.name()
        needs[name] = needs.get(name, 0) + each.source.info()[2]
        free = each.pool.info()[3]
        if needs[name] > free:
            raise RefusedError(
                f"the pool {name} has {free // MIB} MiB free, and a clone takes {-(-needs[name] // MIB)}; the "
                "storage is full, and nothing was cloned: delete machines or images there"
            )


def _copy(server: Server, domain: Any, copies: Sequence[Copy]) -> None:
    """What cannot be copied completely is deleted again."""
    libvirt = binding.load()
    try:
        for each in copies:
            each.pool.createXMLFrom(_volume(each), each.source, 0)
    except libvirt.libvirtError:
        if server.connection.isAlive():
            scrap(server, domain)
        raise


def _volume(copy: Copy) -> str:
    volume = Element("volume")
    SubElement(volume, "name").text = copy.name
    SubElement(volume, "capacity", unit="bytes").text = str(copy.source.info()[1])
    kind = parsed(copy.source.XMLDesc()).find("target/format")
    if kind is not None and kind.get("type"):
        SubElement(SubElement(volume, "target"), "format", type=kind.get("type", ""))
    return tostring(volume, encoding="unicode")
