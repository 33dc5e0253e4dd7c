"""The mark in a machine's definition: that it is ours, of which type, and what is under way with it.

It is an element of libvirt's `metadata`, which libvirt keeps and does not read. Pure.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from subord.services.machines.power.records import Mark, Stage

NAMESPACE: Final = "urn:subord:machine"
PREFIX: Final = "subord"
TAG: Final = f"{{{NAMESPACE}}}machine"
STAGES: Final = frozenset(stage.value for stage in Stage)

ElementTree.register_namespace(PREFIX, NAMESPACE)


def read_mark(domain: ElementTree.Element) -> Mark | None:
    """None: there is none."""
    found = domain.find(f"metadata/{TAG}")
    if found is None:
        return None
    word = found.get("stage", "")
    stage = Stage(word) if word in STAGES else Stage.OTHER
    return Mark(found.get("id", ""), found.get("cluster", ""), found.get("type", ""), stage, found.get("peer", ""))


def put_mark(domain: ElementTree.Element, mark: Mark) -> None:
    """In the place of one that is there."""
    metadata = domain.find("metadata")
    if metadata is None:
        metadata = ElementTree.SubElement(domain, "metadata")
    for old in metadata.findall(TAG):
        metadata.remove(old)
    ElementTree.SubElement(metadata, TAG, _attributes(mark))


def mark_text(mark: Mark) -> str:
    """As libvirt takes it alone: it adds the namespace."""
    return ElementTree.tostring(ElementTree.Element("machine", _attributes(mark)), encoding="unicode")


def _attributes(mark: Mark) -> dict[str, str]:
    pairs = {"id": mark.id, "cluster": mark.cluster, "type": mark.type, "stage": mark.stage.value, "peer": mark.peer}
    return {key: value for key, value in pairs.items() if value}
