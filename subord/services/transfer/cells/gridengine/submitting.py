"""The qsub of a foreign job.

Inputs are its mark and what it needs; outputs are words. Nothing but these words decides what the job asks for:
neither options in its script, nor the user's own defaults. Invariants: the job is held, and asks for nothing that
would have it leave again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from subord.services.transfer.cells.users import VARIABLE
from subord.services.transfer.jobs import Spec, key_of
from subord.services.transfer.plan import REMOTE

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.+-]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+ -]*", re.ASCII)
"""Values that qsub takes as they are."""
NAME_MAX: Final = 128
_MEASURED: Final = re.compile(r"\bhl:([^\s=]+)=")
_STATIC: Final = frozenset({"arch", "num_proc", "mem_total", "swap_total", "virtual_total"})
"""What a host reports once: Grid Engine knows these values while it verifies."""


def words_for(
    mark: str,
    spec: Spec,
    transfer: Sequence[str] = (),
    *,
    is_verified: bool,
    remote: str = REMOTE,
    stays: bool = False,
) -> tuple[str, ...]:
    """`transfer`: queues where a job that has come must not start, or it would leave again. `is_verified`: refused,
    if no host that there is could ever run it. `remote`: the complex of jobs that may leave this cell. `stays`: it is
    asked for as FALSE."""
    key = key_of(mark)
    return (
        *("env", *_environment(spec), "qsub", "-terse", "-clear", "-C", "", "-h"),
        *(
            "-w",
            "e" if is_verified else "n",
            "-A",
            mark,
            "-N",
            name_of(spec.name),
            "-r",
            "y" if spec.may_rerun else "n",
        ),
        *_places(spec),
        *_needs(spec, transfer, remote, stays=stays),
        *(("-t", f"{key.task}-{key.task}:1") if key is not None and key.task else ()),
        *_variables(spec),
        *(("--", *spec.arguments) if spec.arguments else ()),
    )


def tried(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same, so that nothing is submitted: qsub says whether a host that there is could ever run it."""
    level = words.index("-w") + 1
    return (*words[:level], "v", *words[level + 1 :])


def measured_in(said: str) -> frozenset[str]:
    """Of `qhost -F`: resources whose values a host measures anew, such as `mem_free`."""
    return frozenset(_MEASURED.findall(said)) - _STATIC


def name_of(name: str) -> str:
    """One that Grid Engine takes: no sign that means something else, and no digit at its begin."""
    fit = _FOREIGN.sub("_", name)[:NAME_MAX] or "job"
    return fit if fit[0].isalpha() or fit[0] == "_" else f"j{fit}"


def _places(spec: Spec) -> Iterator[str]:
    for option, path in (("-wd", spec.directory), ("-S", spec.shell), ("-o", spec.output), ("-e", spec.errors)):
        if path:
            yield from (option, path)
    yield from ("-j", "y" if spec.is_merged else "n")


def _needs(spec: Spec, transfer: Sequence[str], remote: str, *, stays: bool) -> Iterator[str]:
    if spec.project:
        yield from ("-P", spec.project)
    if spec.wishes:
        yield "-soft"
        for name, value in spec.wishes:
            if name != remote:
                yield from ("-l", f"{name}={value}")
        yield "-hard"
    for name, value in spec.requests:
        if name != remote:
            yield from ("-l", f"{name}={value}")
    if stays:
        yield from ("-l", f"{remote}=FALSE")
    if queue := spec.queue or "&".join(f"!{each}" for each in transfer):
        yield from ("-q", queue)
    if spec.parallel:
        yield from ("-pe", spec.parallel, str(spec.slots))


def _known(spec: Spec) -> Iterator[tuple[str, str]]:
    """Variables of Grid Engine are those of the cell where the job runs."""
    return ((name, value) for name, value in spec.environment if VARIABLE.fullmatch(name) and name[:4] != "SGE_")


def _environment(spec: Spec) -> Iterator[str]:
    """qsub splits values at commas, so it has such values from its own environment."""
    return (f"{name}={value}" for name, value in _known(spec) if not _PLAIN.fullmatch(value))


def _variables(spec: Spec) -> Iterator[str]:
    for name, value in _known(spec):
        yield from ("-v", f"{name}={value}" if _PLAIN.fullmatch(value) else name)
