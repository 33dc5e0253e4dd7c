"""Which queues or partitions a batch system has, for a word about one that it does not have.

Inputs are the name of the batch system and its environment; output is their names, or why they are not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from subord.services.batch.faults import Pattern, failed
from subord.services.batch.records import Unavailable
from subord.services.batch.running import Commands

WORDS: Final = {
    "gridengine": ("qconf", "-sql"),
    "slurm": ("sinfo", "--all", "--noheader", "--format=%R"),
}


async def queues_of(
    name: str, environment: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()
) -> tuple[str, ...] | Unavailable:
    """`name`: of the batch system, as in adapter.py."""
    own, patterns = _about(name)
    ran = await Commands({**own, **(environment or {})}, prefix).run(*WORDS[name])
    if isinstance(ran, Unavailable):
        return ran
    found = tuple(sorted({*ran.text.split()}))
    if ran.code != 0 or (ran.errors and not found):  # sinfo ends with 0 while slurmctld is silent
        return failed(WORDS[name][0], ran, patterns)
    return found


def _about(name: str) -> tuple[Mapping[str, str], tuple[Pattern, ...]]:
    """The environment of its commands, and what its errors mean."""
    if name == "slurm":
        from subord.services.batch.slurm import adapter as slurm

        return slurm.ENVIRONMENT, slurm.PATTERNS
    from subord.services.batch.gridengine import adapter as gridengine

    return gridengine.ENVIRONMENT, gridengine.PATTERNS
