"""Definitions of machines in libvirt's XML: what one says, and the one of a clone. Pure.

A guest that is a clone has to learn which one it is. Its new network address says so where the site's DHCP knows it;
otherwise the template has NAME_HERE in an entry of its SMBIOS, which the firmware of the clone shows to the guest.
"""

from __future__ import annotations

import re
from posixpath import basename, dirname, join
from typing import Final, NamedTuple
from xml.etree import ElementTree

from subord.services.machines.power.marks import put_mark, read_mark
from subord.services.machines.power.records import Mark

MIB: Final = 1024 * 1024
MAC: Final = re.compile(r"([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")
NAME_HERE: Final = "@MACHINE@"
"""In an SMBIOS entry of a template: where each clone has its name."""
UNITS: Final = {
    "b": 1, "bytes": 1, "KB": 1000, "k": 1024, "KiB": 1024, "MB": 1000**2, "M": MIB, "MiB": MIB,
    "GB": 1000**3, "G": 1024**3, "GiB": 1024**3, "TB": 1000**4, "T": 1024**4, "TiB": 1024**4,
}  # fmt: skip


class Image(NamedTuple):
    """A disk of a machine. Either a path, or a pool and a volume, or neither: libvirt has it by other means."""

    target: str
    """What the guest calls it, such as vda."""
    path: str = ""
    pool: str = ""
    volume: str = ""
    is_shared: bool = False
    """Read only, or of several machines: it is not copied with a machine, nor deleted."""

    @property
    def name(self) -> str:
        return self.volume or basename(self.path)

    @property
    def where(self) -> str:
        return f"{self.pool}/{self.volume}" if self.volume else self.path


def parsed(xml: str) -> ElementTree.Element:
    return ElementTree.fromstring(xml)  # noqa: S314 - libvirt wrote it, which may do more than this program


def written(domain: ElementTree.Element) -> str:
    return ElementTree.tostring(domain, encoding="unicode")


def cores_of(domain: ElementTree.Element) -> int:
    """The most that it may have."""
    return int(domain.findtext("vcpu", "1") or 1)


def memory_of(domain: ElementTree.Element) -> int:
    """In MiB, rounded up: the most that it may have."""
    memory = domain.find("memory")
    if memory is None:
        return 0
    return -(-int(memory.text or 0) * UNITS.get(memory.get("unit", "KiB"), 1024) // MIB)


def images_of(domain: ElementTree.Element) -> list[Image]:
    """Hard disks; no CD-ROM and no floppy disk."""
    disks = [disk for disk in domain.iterfind("devices/disk") if disk.get("device", "disk") in ("disk", "lun")]
    return [_image(disk) for disk in disks if disk.find("source") is not None]


def copied_name(image: Image, machine: str, id_: str) -> str:
    """Of the volume of a clone: MACHINE-TARGET-BEGIN OF ID, and the ending of the template's.

    With the id, because a pool may be one of several servers: what is deleted with a machine, or with a clone that
    was interrupted, must be its own also where another server has used the name.
    """
    ending = image.name.rpartition(".")[2] if "." in image.name else ""
    return f"{machine}-{image.target}-{id_[:8]}" + (f".{ending}" if ending else "")


def is_own(image: Image, id_: str) -> bool:
    """Whether the volume was made for this machine, which may have another name by now, and goes with it."""
    return not image.is_shared and image.name.endswith(copied_name(image, "", id_))


def clone_of(template: ElementTree.Element, name: str, id_: str, mark: Mark) -> str:
    """The definition of a new machine. What must be unlike the template's is left out: libvirt makes it anew."""
    domain = parsed(written(template))
    for tag in ("uuid", "title", "name"):
        _remove(domain, tag)
    ElementTree.SubElement(domain, "name").text = name
    ElementTree.SubElement(domain, "uuid").text = id_
    for interface in domain.iterfind("devices/interface"):
        _remove(interface, "mac")
        _remove(interface, "target")
    for os in domain.iterfind("os"):
        _remove(os, "nvram")
    for entry in domain.iterfind("sysinfo//entry"):
        entry.text = (entry.text or "").replace(NAME_HERE, name)
    for system in domain.iterfind("sysinfo/system"):
        _remove(system, "entry[@name='uuid']")
    for disk in domain.iterfind("devices/disk"):
        _remove(disk, "backingStore")
        _repoint(disk, name, id_)
    put_mark(domain, mark)
    return written(domain)


def for_the_way(domain: ElementTree.Element) -> str:
    """What of a machine goes to a server that makes it from its own template: name, id, mark and network addresses.
    No passwords, and nothing that a server would do because it is told so."""
    found = ElementTree.Element("domain")
    for tag in ("name", "uuid"):
        ElementTree.SubElement(found, tag).text = domain.findtext(tag, "")
    if (mark := read_mark(domain)) is not None:
        put_mark(found, mark)
    devices = ElementTree.SubElement(found, "devices")
    for address in _addresses(domain):
        interface = ElementTree.SubElement(devices, "interface")
        ElementTree.SubElement(interface, "mac", address=address)
    return written(found)


def of_template(
    template: ElementTree.Element, came: ElementTree.Element, name: str, mark: Mark
) -> ElementTree.Element:
    """The machine as this server's template has it, with the network addresses that have come."""
    domain = parsed(clone_of(template, name, mark.id, mark))
    for interface, address in zip(domain.iterfind("devices/interface"), _addresses(came), strict=False):
        ElementTree.SubElement(interface, "mac", address=address)
    return domain


def _addresses(domain: ElementTree.Element) -> list[str]:
    """Of its network interfaces, in their order; what is none ends the list."""
    found = list[str]()
    for interface in domain.iterfind("devices/interface"):
        mac = interface.find("mac")
        address = "" if mac is None else mac.get("address", "")
        if not MAC.fullmatch(address):
            break
        found.append(address)
    return found


def _remove(element: ElementTree.Element, tag: str) -> None:
    for child in element.findall(tag):
        element.remove(child)


def _repoint(disk: ElementTree.Element, machine: str, id_: str) -> None:
    source = disk.find("source")
    if source is None or disk.get("device", "disk") not in ("disk", "lun"):
        return
    image = _image(disk)
    if image.is_shared:
        return
    new = copied_name(image, machine, id_)
    if image.volume:
        source.set("volume", new)
    elif image.path:
        source.set("dev" if source.get("dev") else "file", join(dirname(image.path), new))


def _image(disk: ElementTree.Element) -> Image:
    source, target = disk.find("source"), disk.find("target")
    assert source is not None
    return Image(
        target="" if target is None else target.get("dev", ""),
        path=source.get("file", "") or source.get("dev", ""),
        pool=source.get("pool", ""),
        volume=source.get("volume", ""),
        is_shared=disk.find("readonly") is not None or disk.find("shareable") is not None,
    )
