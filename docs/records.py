"""Records of the lab: read from docs/figures/, grouped, and put into words. A run that failed is a record, too.

A missing value is written as missing.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

FIGURES = Path(__file__).parent / "figures"
NOTHING = "Not measured yet.\n"
Run = dict[str, Any]
P = ParamSpec("P")


def read(name: str) -> Any:
    """docs/figures/NAME.json. Raises SystemExit with a sentence when it is missing."""
    path = FIGURES / f"{name}.json"
    if not path.exists():
        raise SystemExit(
            f"docs/figures/{path.name} is missing: the page with its tables names the command that writes it."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def is_measured(name: str) -> bool:
    """Whether docs/figures/NAME.json is there."""
    return (FIGURES / f"{name}.json").exists()


def measured(name: str) -> list[Run]:
    """The runs that did not fail. Raises SystemExit when there is none."""
    found = [run for run in read(name) if run["fault"] is None]
    if not found:
        raise SystemExit(f"docs/figures/{name}.json has no run that was measured: measure one")
    return found


def if_measured(name: str) -> Callable[[Callable[P, str]], Callable[P, str]]:
    """A part of a page that says so while there are no such figures."""

    def of_part(part: Callable[P, str]) -> Callable[P, str]:
        @wraps(part)
        def either(*words: P.args, **options: P.kwargs) -> str:
            return part(*words, **options) if is_measured(name) else NOTHING

        return either

    return of_part


def in_order(runs: Iterable[Run], *keys: str) -> dict[tuple[Any, ...], list[Run]]:
    """By the values of these keys, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(tuple(run[key] for key in keys), []).append(run)
    return found


def groups(runs: Iterable[Run], *keys: str) -> dict[tuple[Any, ...], list[Run]]:
    """By the values of these keys, ascending."""
    return dict(sorted(in_order(runs, *keys).items()))


def one(runs: Iterable[Run], **wanted: Any) -> list[Run]:
    """Those with these values. Raises SystemExit when there is none: what a table speaks of was not measured."""
    found = [run for run in runs if all(run[key] == value for key, value in wanted.items())]
    if not found:
        raise SystemExit(f"no run has {wanted}: measure it, or correct the table that speaks of it")
    return found


def values(runs: Iterable[Run], key: str) -> list[float]:
    """What was measured; a failed run has nothing."""
    return [run[key] for run in runs if run.get(key) is not None]


def spread(found: Iterable[float | None], digits: int) -> str:
    """Median, and lowest and highest in brackets when they differ; `-`: there is none. None does not count."""
    known = [value for value in found if value is not None]
    if not known:
        return "-"
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(known), statistics.median(known), max(known)))
    return middle if low == high else f"{middle} ({low}..{high})"


def ratios(above: list[Run], below: list[Run], key: str) -> list[float]:
    """Of the runs of each repeat: those took turns, so that what happened meanwhile happened to both."""
    return [one / other for one, other in _paired(above, below, key) if other]


def differences(above: list[Run], below: list[Run], key: str) -> list[float]:
    """As `ratios`."""
    return [one - other for one, other in _paired(above, below, key)]


def _paired(above: list[Run], below: list[Run], key: str) -> Iterator[tuple[float, float]]:
    others = {run["repeat"]: run[key] for run in below if run.get(key) is not None}
    for run in above:
        if run.get(key) is not None and run["repeat"] in others:
            yield run[key], others[run["repeat"]]


def kept(runs: list[Run], holds: Callable[[Run], bool]) -> tuple[list[Run], str]:
    """(those that are sound, "k of n")."""
    sound = [run for run in runs if holds(run)]
    return sound, f"{len(sound)} of {len(runs)}"


def missed(runs: list[Run], title: Callable[[Run], str], absent: Iterable[str] = ()) -> str:
    """A list of what runs did not hold, and of what is `absent`."""
    found = [
        f"{title(run)}: {words.removesuffix('.')}"
        for run in runs
        for words in (run["faults"] if run["fault"] is None else [run["fault"]])
    ]
    return "".join(f"- {line}.\n" for line in (*found, *absent)) or "All runs held.\n"


def unmeasured(runs: list[Run]) -> list[str]:
    """Peers that were not installed."""
    absent = {system: why for run in runs for system, why in run["absent"].items()}
    return [f"{system} was not measured: {why}" for system, why in absent.items()]


def settings(runs: list[Run], order: Iterable[str]) -> str:
    """The program and the options of each system."""
    found = {run["system"]: run["settings"] for run in runs if "settings" in run}
    return "".join(f"- *{system}*: {found[system]}.\n" for system in order if system in found)


def about(runs: list[Run], *keys: str) -> str:
    """The machine, the program, and how many runs there are of each combination of `keys`."""
    boxes = sorted({box(run["machine"]) for run in runs})
    programs = sorted({f"{run['version']} at {run.get('commit') or 'an unknown commit'}" for run in runs})
    counts = [len(some) for some in in_order(runs, *keys).values()]
    load = max(run["machine"]["load"] for run in runs)
    often = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    dates = sorted({run["date"] for run in runs if "date" in run})
    return (
        f"Machine: {'; '.join(boxes)}; load of the minute before at most {load:.1f}.\n"
        f"subord {', '.join(programs + dates)}; {often} runs of each, median (lowest..highest).\n"
    )


def box(machine: dict[str, Any]) -> str:
    """A machine in words."""
    return (
        f"{machine['cores']} cores, {machine['memory_gib']:.0f} GiB, Linux {machine['kernel']},"
        f" Python {machine['python']}"
    )
