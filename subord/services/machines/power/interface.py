"""The interface to the machines of one server, and what makes one.

Each method returns a value for whatever libvirt does. A second call of an effect, or one after an interruption, ends
in the same state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import trio

from subord.services.machines.power.records import (
    Definition,
    Event,
    Found,
    Hardware,
    MayStart,
    Outcome,
    Refused,
    Unavailable,
)


class Power(Protocol):
    @property
    def server(self) -> str:
        """The name that other servers have for it."""

    @property
    def events(self) -> trio.MemoryReceiveChannel[Event]: ...

    async def watch(self) -> None:
        """Runs for ever: keeps the connection, so that there are events."""

    async def machines(self) -> tuple[Found, ...] | Unavailable:
        """All that are defined or run, also those that are not ours."""

    async def capacity(self) -> Hardware | Unavailable: ...

    async def start(self, name: str, may_start: MayStart) -> Outcome:
        """`may_start` judges what is there at this instant; no other start of this Power happens meanwhile."""

    async def stop(self, name: str, within: float) -> Outcome:
        """The guest is asked to shut down, and destroyed if it has not after so many seconds."""

    async def clone(self, template: str, type: str, name: str = "", taken: Collection[str] = ()) -> Outcome:  # noqa: A002
        """Without a name the lowest free one of the type; `taken`: names on other servers."""

    async def delete(self, name: str) -> Outcome:
        """Definition and images. Refused while it is on."""

    async def leave(self, name: str, to: str) -> Definition | Refused | Unavailable | None:
        """From now on it cannot be started here. None: there is no such machine here."""

    async def stay(self, name: str, to: str) -> Outcome:
        """Takes back `leave`."""

    async def arrive(self, definition: Definition, came_from: str, template: str = "") -> Outcome:
        """Defines it; it cannot be started yet. `template`: of this server, which says all of the machine but its id
        and its network addresses; "": the definition does, which is to be trusted then."""

    async def forget(self, name: str, peer: str) -> Outcome:
        """Undefines a machine that leaves to, or arrives from, the peer; its images stay."""

    async def settle(self, name: str, came_from: str) -> Outcome:
        """From now on a machine that arrived can be started. Only once the other server has forgotten it."""


def power_of(uri: str, cluster: str, server: str) -> Power:
    """By libvirt. `uri`: qemu:///system, or another that libvirt knows."""
    from subord.services.machines.power.driver import LibvirtPower

    return LibvirtPower(uri, cluster=cluster, server=server)
