"""What Power returns: machines, a server's hardware, events, and the outcome of an effect.

Memory and disk are in MiB. `type` is "" for a machine that is not of this cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class State(StrEnum):
    ON = "on"
    OFF = "off"
    PAUSED = "paused"
    """It has its memory, and does not run: paused by hand, by an error of its disk, or a crash that was kept."""
    UNKNOWN = "unknown"

    @property
    def occupies(self) -> bool:
        """Whether it has memory and cores of the server, as far as known."""
        return self is not State.OFF


class Stage(StrEnum):
    """What is under way with a machine, or was interrupted. It is started in no stage but WHOLE."""

    WHOLE = ""
    CLONING = "cloning"
    DELETING = "deleting"
    LEAVING = "leaving"
    """To the server `peer`, which may have a definition, too."""
    ARRIVING = "arriving"
    """From the server `peer`, which may have a definition, too."""
    OTHER = "other"
    """Written by another release."""


class Mark(NamedTuple):
    """What the definition of a machine of ours says about it."""

    id: str
    """Of the machine: a copy that was made by hand has the mark, and another id, and is not ours."""
    cluster: str
    type: str
    stage: Stage = Stage.WHOLE
    peer: str = ""


class Found(NamedTuple):
    """A machine as libvirt has it now."""

    name: str
    id: str
    state: State
    word: str
    """The state as libvirt calls it."""
    cores: int
    memory: int
    """The most that it may take: of what runs and of its definition, which may have been changed, the larger one."""
    disk: int
    """Of its images in storage pools of this server."""
    type: str = ""
    stage: Stage = Stage.WHOLE
    peer: str = ""

    @property
    def is_ours(self) -> bool:
        return self.type != ""


class Pool(NamedTuple):
    """A storage pool."""

    name: str
    capacity: int
    free: int
    is_active: bool


class Hardware(NamedTuple):
    """A server. Nothing is taken off for the server itself."""

    cores: int
    memory: int
    mhz: int
    pools: tuple[Pool, ...]


class Definition(NamedTuple):
    """A machine on its way to another server."""

    name: str
    id: str
    xml: str


class EventKind(StrEnum):
    DEFINED = "defined"
    UNDEFINED = "undefined"
    STARTED = "started"
    PAUSED = "paused"
    RESUMED = "resumed"
    STOPPED = "stopped"
    CONNECTED = "connected"
    """Libvirt answers, for the first time or again. What happened before is not told: list the machines."""
    LOST = "lost"
    """The connection to libvirt is broken; another is tried."""
    MISSED = "missed"
    """Events before this one were dropped: list the machines."""


class Event(NamedTuple):
    kind: EventKind
    machine: str = ""
    """Its name, "" where the event is of the server."""


class Done(NamedTuple):
    is_changed: bool
    """False: everything was as wanted before."""
    machine: str = ""
    """The name of a clone."""


class Refused(NamedTuple):
    """What was asked for cannot be done now, or not at all. `reason`: whose fault, what is unchanged, what to do."""

    reason: str


class Fault(StrEnum):
    MISSING = "missing"
    """Python has no libvirt, or the server has no libvirtd."""
    SLOW = "slow"
    SILENT = "silent"
    """The connection is broken, or libvirtd does not run."""
    RIGHTS = "rights"
    FAILED = "failed"


class Unavailable(NamedTuple):
    """Libvirt gave no answer, or has not done what it was told. A caller may ask again later."""

    fault: Fault
    reason: str


Outcome: TypeAlias = Done | Refused | Unavailable
"""Of an effect."""

MayStart: TypeAlias = Callable[[Hardware, tuple[Found, ...], Found], str]
"""The server, all its machines, and the one to start: a reason why not, "": it may. It is called in a thread, so it
is pure."""
