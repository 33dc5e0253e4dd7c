"""The sbatch of a foreign job.

Inputs are its mark and what it needs; outputs are words and the script. Nothing but these words decides what the job
asks for, so options in its script are made plain comments. Invariant: the job is held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from subord.services.batch.records import Refused
from subord.services.transfer.cells.users import VARIABLE
from subord.services.transfer.jobs import Spec, key_of

OPTIONS: Final = frozenset(
    {
        *("constraint", "cpus-per-task", "exclusive", "gpus", "gres", "licenses", "mem", "mem-per-cpu", "nodes"),
        *("ntasks-per-node", "qos", "reservation", "time", "tmp"),
    }
)
"""What a request may be called: the options of sbatch that say what a job needs."""
ONE_NODE: Final = "node"
"""The name of a parallel environment whose slots are on one node; those of others may be anywhere."""
OWN: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ")
"""Of the environment that runuser gives to sbatch."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+ -]*", re.ASCII)
_DIRECTIVE: Final = re.compile(r"^#SBATCH", re.MULTILINE)
TRIED: Final = re.compile(r"Job \d+ to start at ")
_SHELL: Final = "/bin/sh"


def words_for(mark: str, spec: Spec) -> tuple[str, ...] | Refused:
    unknown = [name for name, _ in spec.requests if name not in OPTIONS]
    if unknown:
        known = ", ".join(sorted(OPTIONS))
        return Refused(f"Slurm has no request {unknown[0]!r}; nothing was submitted: map it to one of {known}")
    key = key_of(mark)
    return (
        *("env", *(f"{name}={value}" for name, value in _known(spec) if not _PLAIN.fullmatch(value))),
        *("sbatch", "--parsable", "--hold", "--ignore-pbs", f"--comment={mark}", f"--job-name={spec.name or 'job'}"),
        "--requeue" if spec.may_rerun else "--no-requeue",
        *_places(spec),
        *_needs(spec),
        *((f"--array={key.task}",) if key is not None and key.task else ()),
        f"--export={','.join(_exported(spec))}",
        *(("/dev/stdin", *spec.arguments) if spec.arguments else ()),
    )


def tried(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same, so that nothing is submitted: sbatch says when the job would start, or that it never would. Without
    the hold, for which it would not start either."""
    return tuple("--test-only" if each == "--hold" else each for each in words)


def script_of(spec: Spec) -> str:
    """sbatch wants to be told what runs it."""
    text = _DIRECTIVE.sub("# SBATCH", spec.script)
    if spec.shell:
        return f"#!{spec.shell}\n{text}"
    return text if text.startswith("#!") else f"#!{_SHELL}\n{text}"


def _places(spec: Spec) -> Iterator[str]:
    if spec.directory:
        yield f"--chdir={spec.directory}"
    if spec.output:
        yield f"--output={_plain(spec.output)}"
    if spec.errors and not spec.is_merged:
        yield f"--error={_plain(spec.errors)}"


def _plain(path: str) -> str:
    return path.replace("%", "%%")


def _needs(spec: Spec) -> Iterator[str]:
    if spec.project:
        yield f"--account={spec.project}"
    if spec.queue:
        yield f"--partition={spec.queue}"
    if spec.parallel:
        yield f"--ntasks={spec.slots}"
        if spec.parallel == ONE_NODE:
            yield "--nodes=1"
    for name, value in spec.requests:
        yield f"--{name}={value}"


def _known(spec: Spec) -> Iterator[tuple[str, str]]:
    """Variables of Slurm are those of the cell where the job runs."""
    return (
        each for each in spec.environment if VARIABLE.fullmatch(each[0]) and each[0][:6] not in ("SLURM_", "SBATCH")
    )


def _exported(spec: Spec) -> Iterator[str]:
    """sbatch splits values at commas, so it has such values from its own environment."""
    known = dict(_known(spec))
    yield from (name for name in OWN if name not in known)
    yield from (f"{name}={value}" if _PLAIN.fullmatch(value) else name for name, value in known.items())
