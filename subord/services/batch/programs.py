"""Whether the commands of a batch system are there, for `subord-agent --check`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from typing import Final

from subord.services.batch.adapter import environment_of
from subord.services.batch.running import PATH

PROGRAMS: Final = {
    "gridengine": ("qstat", "qhost", "qconf", "qmod", "qacct"),
    "slurm": ("sinfo", "squeue", "scontrol"),
}


def missing_programs(table: str, batch: str, environment: Iterable[str]) -> Iterator[str]:
    """`table`: of the configuration, with the names `batch` and `batch_environment`. Blocks."""
    path = environment_of(environment).get("PATH", PATH)
    missing = [each for each in PROGRAMS[batch] if shutil.which(each, path=path) is None]
    if missing:
        yield (
            f"{table}.batch is {batch}, and {', '.join(missing)} is not in {path}: install its commands, or give "
            f"PATH in {table}.batch_environment"
        )
