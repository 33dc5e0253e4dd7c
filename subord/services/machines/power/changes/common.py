"""What the changes of machines have in common. Runs in threads; raises libvirtError, and RefusedError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from subord.services.machines.power import binding, reading
from subord.services.machines.power.link import trouble_of
from subord.services.machines.power.marks import NAMESPACE, PREFIX, mark_text
from subord.services.machines.power.names import wrong_name
from subord.services.machines.power.records import Found, Mark, Refused, Stage, State

METADATA_ELEMENT: Final = 2
AFFECT_CONFIG: Final = 2
INVALID_ARGUMENT: Final = 8
UNDEFINE_ALL: Final = (1 | 2 | 4 | 16, 1 | 2, 0)
"""A saved memory, snapshots, firmware variables and checkpoints go with the machine. Each driver knows other flags,
and refuses those that it does not know: the next are tried."""
UNDEFINE_HERE: Final = (8, 0)
"""Firmware variables are kept, which may be on the storage of all servers."""


class RefusedError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.refused = Refused(reason)


class Server:
    """The libvirt of one server, and the cluster whose machines are ours."""

    def __init__(self, connection: Any, cluster: str) -> None:
        self.connection = connection
        self.cluster = cluster

    def domain(self, name: str) -> Any:
        """None: there is none."""
        if wrong := wrong_name(name):
            raise RefusedError(wrong.reason)
        return reading.domain_of(self.connection, name)

    def found(self, domain: Any) -> Found:
        return reading.machine(self.connection, domain, self.cluster)

    def machines(self) -> tuple[Found, ...]:
        return reading.machines(self.connection, self.cluster)

    def ours(self, domain: Any) -> Found:
        found = self.found(domain)
        if not found.is_ours:
            raise RefusedError(
                f"{found.name} is not a machine of the cluster {self.cluster}; it was not changed: only machines "
                "that were cloned here are"
            )
        return found

    def mark(self, domain: Any, mark: Mark) -> None:
        domain.setMetadata(METADATA_ELEMENT, mark_text(mark), PREFIX, NAMESPACE, AFFECT_CONFIG)

    def whole(self, domain: Any, found: Found) -> None:
        self.mark(domain, Mark(found.id, self.cluster, found.type))

    def undefine(self, domain: Any, choices: Sequence[int] = UNDEFINE_ALL) -> None:
        libvirt = binding.load()
        for flags in choices:
            try:
                domain.undefineFlags(flags)
            except libvirt.libvirtError as error:
                if trouble_of(error).code != INVALID_ARGUMENT or flags == choices[-1]:
                    raise
            else:
                return


def must_be_off(found: Found, what: str) -> None:
    """`what`: such as "moved"."""
    if found.state != State.OFF:
        raise RefusedError(f"{found.name} is {found.word}; it was not {what}: stop it first")


def stage_words(found: Found) -> str:
    """What is under way with a machine, and what completes it."""
    match found.stage:
        case Stage.CLONING:
            return f"the clone {found.name} is not complete: clone it again, or delete it"
        case Stage.DELETING:
            return f"{found.name} is partly deleted: delete it again"
        case Stage.LEAVING:
            return f"{found.name} is moving to {found.peer}: complete the move"
        case Stage.ARRIVING:
            return f"{found.name} is moving here from {found.peer}: complete the move"
        case Stage.OTHER:
            return f"{found.name} has a stage that this release does not know: upgrade this agent"
    return ""
