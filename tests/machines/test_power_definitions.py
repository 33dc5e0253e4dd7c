"""Definitions of machines as text: what one says, and the one of a clone. Needs no libvirt."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from subord.services.machines.power.definitions import (
    Image,
    clone_of,
    copied_name,
    cores_of,
    images_of,
    is_own,
    memory_of,
    parsed,
    written,
)
from subord.services.machines.power.marks import put_mark, read_mark
from subord.services.machines.power.names import lowest_free, wrong_name
from subord.services.machines.power.records import Mark, Refused, Stage

ID = "1f3c9a2b-0000-4000-8000-000000000001"
MARK = Mark(ID, "physics", "alma", Stage.LEAVING, "s2")
TEMPLATE = """<domain type='kvm'>
  <name>alma</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><title>the template</title>
  <metadata><other:app xmlns:other='urn:other'>kept</other:app></metadata>
  <memory unit='KiB'>2097153</memory><vcpu placement='static' current='1'>4</vcpu>
  <os><type>hvm</type><nvram>/nvram/alma.fd</nvram><smbios mode='sysinfo'/></os>
  <sysinfo type='smbios'>
    <system><entry name='uuid'>6695eb01-f6a4-8304-79aa-97f2502e193f</entry>
      <entry name='serial'>ds=nocloud;h=@MACHINE@</entry><entry name='family'/></system>
    <oemStrings><entry>@MACHINE@ of @MACHINE@</entry></oemStrings>
  </sysinfo>
  <devices>
    <disk type='file' device='disk'><source file='/images/alma.v9.qcow2'/><target dev='vda'/>
      <backingStore type='file'><source file='/images/base.qcow2'/></backingStore></disk>
    <disk type='block' device='disk'><source dev='/dev/vg/scratch'/><target dev='vdb'/></disk>
    <disk type='volume' device='disk'><source pool='fast' volume='swap.raw'/><target dev='vdc'/></disk>
    <disk type='file' device='disk'><source file='/images/tools.img'/><target dev='vdd'/><readonly/></disk>
    <disk type='file' device='cdrom'><source file='/iso/tools.iso'/><target dev='hda'/></disk>
    <disk type='file' device='cdrom'><target dev='hdb'/></disk>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/></interface>
  </devices>
</domain>"""


def test_what_a_definition_says() -> None:
    domain = parsed(TEMPLATE)
    assert (cores_of(domain), memory_of(domain)) == (4, 2049)
    assert [(image.target, image.where, image.is_shared) for image in images_of(domain)] == [
        ("vda", "/images/alma.v9.qcow2", False),
        ("vdb", "/dev/vg/scratch", False),
        ("vdc", "fast/swap.raw", False),
        ("vdd", "/images/tools.img", True),
    ]


@pytest.mark.parametrize(
    ("text", "mib"),
    [("1048576", 1024), ("<memory unit='bytes'>1048577</memory>", 2), ("<memory unit='GiB'>3</memory>", 3072)],
)
def test_units_of_memory(text: str, mib: int) -> None:
    element = text if text.startswith("<") else f"<memory>{text}</memory>"
    assert memory_of(parsed(f"<domain>{element}</domain>")) == mib


def test_the_definition_of_a_clone() -> None:
    clone = parsed(clone_of(parsed(TEMPLATE), "alma-7", ID, Mark(ID, "physics", "alma", Stage.CLONING)))
    assert (clone.findtext("name"), clone.findtext("uuid"), clone.find("title")) == ("alma-7", ID, None)
    assert [image.where for image in images_of(clone)] == [
        "/images/alma-7-vda-1f3c9a2b.qcow2",
        "/dev/vg/alma-7-vdb-1f3c9a2b",
        "fast/alma-7-vdc-1f3c9a2b.raw",
        "/images/tools.img",
    ]
    assert [is_own(image, ID) for image in images_of(clone)] == [True, True, True, False]
    text = written(clone)
    for gone in ("52:54:00:00:00:01", "/nvram/alma.fd", "/images/base.qcow2"):
        assert gone not in text
    for kept in ("/iso/tools.iso", "br0", "urn:other"):
        assert kept in text
    assert read_mark(clone) == Mark(ID, "physics", "alma", Stage.CLONING)
    assert len(clone.findall("name")) == 1


def test_a_clone_tells_its_guest_which_one_it_is() -> None:
    """Libvirt refuses a machine whose SMBIOS has another id than itself."""
    clone = parsed(clone_of(parsed(TEMPLATE), "alma-7", ID, MARK))
    entries = [(each.get("name"), each.text or "") for each in clone.iterfind("sysinfo//entry")]
    assert entries == [("serial", "ds=nocloud;h=alma-7"), ("family", ""), (None, "alma-7 of alma-7")]
    assert "@MACHINE@" in written(parsed(TEMPLATE))


def test_the_image_of_another_machine_is_not_own() -> None:
    image = Image("vda", path="/images/alma-7-vda-1f3c9a2b.qcow2")
    assert image.name == copied_name(Image("vda", path="/images/alma.qcow2"), "alma-7", ID)
    assert not is_own(image, "2e4d8b3c-0000-4000-8000-000000000001")
    assert not is_own(image._replace(is_shared=True), ID)


def test_marks_are_read_as_they_were_put() -> None:
    domain = parsed(TEMPLATE)
    assert read_mark(domain) is None
    for mark in (MARK, MARK._replace(stage=Stage.WHOLE, peer="")):
        put_mark(domain, mark)
        assert read_mark(parsed(written(domain))) == mark
    assert ElementTree.tostring(domain).count(b"urn:subord:machine") == 1


def test_a_stage_of_another_release_is_not_whole() -> None:
    domain = parsed(TEMPLATE)
    put_mark(domain, MARK)
    text = written(domain).replace('stage="leaving"', 'stage="melting"')
    mark = read_mark(parsed(text))
    assert mark is not None
    assert mark.stage == Stage.OTHER


def test_names() -> None:
    assert lowest_free("alma", {"alma-1", "alma-3", "rocky-2"}) == "alma-2"
    assert wrong_name("alma-1") is None
    for name in ("", "-x", "a/b", "..", "a b", "x" * 64):
        assert isinstance(wrong_name(name), Refused)
