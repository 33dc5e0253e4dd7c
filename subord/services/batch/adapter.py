"""The interface of a batch system, and which adapter has which name.

Each method returns a value for whatever the batch system does. A second call of an effect, or one after an
interruption, ends in the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from subord.services.batch.records import History, Host, NewHost, Outcome, Queue, Unavailable

NAMES: Final = ("gridengine", "slurm")


class Adapter(Protocol):
    async def queue(self) -> Queue | Unavailable:
        """All jobs that have not ended; those that wait in the order of the scheduler."""

    async def hosts(self) -> tuple[Host, ...] | Unavailable: ...

    async def history(self, since: float) -> History | Unavailable:
        """Jobs that have ended since."""

    async def drain(self, host: str, reason: str = "") -> Outcome:
        """No job starts on the host from now on; those that run go on."""

    async def undrain(self, host: str) -> Outcome:
        """Jobs may start there again, even if a person had drained it."""

    async def add(self, host: NewHost) -> Outcome:
        """The batch system starts jobs on the host as soon as its daemon runs."""

    async def remove(self, host: str) -> Outcome:
        """The batch system forgets the host. Refused while a job is there; the host is drained then."""


def environment_of(lines: Iterable[str]) -> dict[str, str]:
    """`lines`: NAME=VALUE, as in elastic.batch_environment."""
    return dict(each.partition("=")[::2] for each in lines)


def adapter_of(
    name: str, queue: str = "", environment: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()
) -> Adapter:
    """`queue`: of Grid Engine, or the partition of Slurm, "": all.q, or all nodes. Raises ValueError."""
    from subord.services.batch.running import Commands

    match name:
        case "gridengine":
            from subord.services.batch.gridengine import adapter as gridengine

            commands = Commands(gridengine.ENVIRONMENT | dict(environment or {}), prefix)
            return gridengine.GridEngine(commands, queue or "all.q")
        case "slurm":
            from subord.services.batch.slurm import adapter as slurm

            commands = Commands(slurm.ENVIRONMENT | dict(environment or {}), prefix)
            return slurm.Slurm(commands, queue)
    raise ValueError(f"no batch system is called {name!r}: {', '.join(NAMES)}")
