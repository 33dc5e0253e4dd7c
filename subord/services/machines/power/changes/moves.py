"""The steps of a cold move at one of the two servers. Runs in threads; raises libvirtError and RefusedError.

In every stage but the last at most one server could start the machine, and from the first step to the last none can:
the one has it with the stage `leaving`, the other with `arriving`. Images are not moved: both servers must have them,
on storage of all servers.
"""

from __future__ import annotations

import re
from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError

from subord.services.machines.power import reading
from subord.services.machines.power.changes.common import (
    UNDEFINE_HERE,
    RefusedError,
    Server,
    must_be_off,
    stage_words,
)
from subord.services.machines.power.definitions import images_of, of_template, parsed, written
from subord.services.machines.power.faults import NO_DOMAIN
from subord.services.machines.power.marks import put_mark, read_mark
from subord.services.machines.power.names import wrong_name
from subord.services.machines.power.records import Definition, Done, Found, Mark, Stage

ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def leave(server: Server, name: str, to: str) -> Definition | None:
    domain = server.domain(name)
    if domain is None:
        return None
    found = server.ours(domain)
    if (found.stage, found.peer) == (Stage.ARRIVING, to):
        raise RefusedError(f"{stage_words(found)}; it was not moved back")
    must_be_off(found, "moved")
    if found.stage != Stage.WHOLE and (found.stage, found.peer) != (Stage.LEAVING, to):
        raise RefusedError(f"{stage_words(found)}; it was not moved to {to}")
    if domain.hasManagedSaveImage() or domain.snapshotNum():
        raise RefusedError(
            f"{name} has a saved memory or snapshots, which stay on this server; it was not moved: start it here, or "
            "delete them, `virsh managedsave-remove`, `virsh snapshot-delete`"
        )
    server.mark(domain, Mark(found.id, server.cluster, found.type, Stage.LEAVING, to))
    return Definition(name, found.id, written(reading.definition_of(domain)))


def stay(server: Server, name: str, to: str) -> Done:
    domain, found = _moving(server, name)
    if found.stage == Stage.WHOLE:
        return Done(is_changed=False, machine=name)
    _expect(found, Stage.LEAVING, to)
    server.whole(domain, found)
    return Done(is_changed=True, machine=name)


def arrive(server: Server, definition: Definition, came_from: str, template: str = "") -> Done:
    """With a template of this server the machine is made from it: of the definition only id, mark and network
    addresses count, so it decides nothing else about a machine that runs here."""
    if wrong := wrong_name(definition.name):
        raise RefusedError(wrong.reason)
    try:
        domain = parsed(definition.xml)
    except ParseError as error:
        raise RefusedError(f"the definition of {definition.name} is damaged ({error}); nothing was defined") from None
    mark = read_mark(domain)
    if mark is None or mark.cluster != server.cluster or mark.stage != Stage.LEAVING:
        raise RefusedError(f"the definition of {definition.name} is not of a machine that moves; nothing was defined")
    _check_place(server, definition, came_from)
    if template:
        domain = _from_template(server, template, domain, definition, mark)
    reading.refresh(server.connection)
    for image in images_of(domain):
        if image.where and reading.volume_of(server.connection, image) is None:
            raise RefusedError(
                f"the image {image.where} of {definition.name} is in no storage pool that is active on this server; "
                "nothing was defined: a machine moves only where both servers have its storage"
            )
    put_mark(domain, mark._replace(stage=Stage.ARRIVING, peer=came_from))
    server.connection.defineXML(written(domain))
    return Done(is_changed=True, machine=definition.name)


def forget(server: Server, name: str, peer: str) -> Done:
    domain = server.domain(name)
    if domain is None:
        return Done(is_changed=False, machine=name)
    found = server.ours(domain)
    if found.stage not in (Stage.LEAVING, Stage.ARRIVING) or found.peer != peer:
        raise RefusedError(f"{name} is not moving to or from {peer}; it was kept")
    must_be_off(found, "undefined")
    server.undefine(domain, UNDEFINE_HERE)
    return Done(is_changed=True, machine=name)


def settle(server: Server, name: str, came_from: str) -> Done:
    domain, found = _moving(server, name)
    if found.stage == Stage.WHOLE:
        return Done(is_changed=False, machine=name)
    _expect(found, Stage.ARRIVING, came_from)
    server.whole(domain, found)
    return Done(is_changed=True, machine=name)


def _moving(server: Server, name: str) -> tuple[Any, Found]:
    domain = server.domain(name)
    if domain is None:
        raise RefusedError(f"there is no machine {name} on this server; nothing was moved")
    return domain, server.ours(domain)


def _from_template(server: Server, template: str, came: Element, definition: Definition, mark: Mark) -> Element:
    if mark.id != definition.id or not ID.fullmatch(mark.id):
        raise RefusedError(f"the definition of {definition.name} has no id of a machine; nothing was defined")
    found = server.domain(template)
    if found is None:
        raise RefusedError(
            f"there is no template {template} on this server, from which {definition.name} would be defined here; "
            "nothing was defined: define it as on the other servers"
        )
    return of_template(reading.definition_of(found), came, definition.name, mark)


def _expect(found: Found, stage: Stage, peer: str) -> None:
    if (found.stage, found.peer) != (stage, peer):
        raise RefusedError(f"{stage_words(found)}; it is not {stage.value}, with {peer} as the other server")


def _check_place(server: Server, definition: Definition, came_from: str) -> None:
    """A definition that arrived before may be given again."""
    same = None
    with reading.absent(NO_DOMAIN):
        same = server.connection.lookupByUUIDString(definition.id)
    named = server.domain(definition.name)
    if same is None and named is None:
        return
    if same is None or named is None or same.name() != definition.name:
        other = named if same is None else same
        raise RefusedError(
            f"this server has another machine with the name or id of {definition.name}, called {other.name()}; "
            "nothing was defined: rename one of them"
        )
    found = server.ours(same)
    if (found.stage, found.peer) != (Stage.ARRIVING, came_from):
        raise RefusedError(
            f"{definition.name} is on both servers, and did not arrive by this move; nothing was defined: undefine "
            "it where it is not wanted, `virsh undefine`"
        )
    must_be_off(found, "defined again")
