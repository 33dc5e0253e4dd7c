"""Which cell has which name: the batch systems of services/batch.

Inputs are a name and the environment of its commands; output is a cell. An adapter is imported when it is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from subord.services.batch.adapter import NAMES
from subord.services.transfer.cells.interface import Cell
from subord.services.transfer.plan import REMOTE, UID_MIN


def cell_of(
    name: str,
    transfer: Sequence[str] = ("transfer",),
    environment: Mapping[str, str] | None = None,
    prefix: tuple[str, ...] = (),
    *,
    is_verified: bool = True,
    remote: str = REMOTE,
    uid_min: int = UID_MIN,
) -> Cell:
    """`transfer`: the names of the transfer queues; those of Slurm are partitions. `prefix`: words before each
    command. `remote`: `opt_out` of the plan, for Grid Engine. `uid_min`: as in the plan. Raises ValueError."""
    from subord.services.batch.running import Commands

    own = dict(environment or {})
    match name:
        case "gridengine":
            from subord.services.batch.gridengine.adapter import ENVIRONMENT as GRIDENGINE
            from subord.services.transfer.cells.gridengine.accounting import path_of
            from subord.services.transfer.cells.gridengine.adapter import GridEngineCell

            commands = Commands(GRIDENGINE | own, prefix)
            return GridEngineCell(
                commands, transfer, path_of(own), remote=remote, is_verified=is_verified, uid_min=uid_min
            )
        case "slurm":
            from subord.services.batch.slurm.adapter import ENVIRONMENT as SLURM
            from subord.services.transfer.cells.slurm.adapter import SlurmCell

            return SlurmCell(Commands(SLURM | own, prefix), transfer, is_verified=is_verified, uid_min=uid_min)
    raise ValueError(f"no batch system is called {name!r}: {', '.join(NAMES)}")
