"""What the figures of a lab must be: known values at each node, and what a fold of them says.

Inputs are positions, and documents of `subord metrics`; outputs are texts for the nodes, differences in words, and
figures of what was seen after a death. No file is read or written here but those of the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Document = Mapping[str, Any]

UNEVEN = 'node_filesystem_size_bytes{mountpoint="/uneven"}'
EVEN = 'node_filesystem_size_bytes{mountpoint="/even"}'
"""Names that are carried without a plan, of file systems that no machine has."""
EVEN_VALUE = 4096.0
QUANTILE_ERROR_MAX = 0.01
SPREAD_OVER = 999_983  # a prime, so that the values of all nodes differ
HELD_S = 12.0  # more than an interval: whatever counts wrongly for one round is seen


# -- known values ----------------------------------------------------------------------------------------------------


def uneven(position: int, turn: int) -> float:
    """A whole number, another one at each node and in each turn: sums of them are exact."""
    return float(1 + (position * 7919 + turn * 104_729) % SPREAD_OVER)


def text_of(position: int, turn: int) -> str:
    """The text file of a node."""
    return f"{UNEVEN} {uneven(position, turn):.0f}\n{EVEN} {EVEN_VALUE:.0f}\n"


def of_machine(meminfo: str, stat: str) -> dict[str, float]:
    """What each node must tell of the machine that they all share, read directly: /proc/meminfo and /proc/stat."""
    (memory,) = [line.split()[1] for line in meminfo.splitlines() if line.startswith("MemTotal:")]
    cpus = sum(line.startswith("cpu") and not line.startswith("cpu ") for line in stat.splitlines())
    return {"node_memory_MemTotal_bytes": float(memory) * 1024, "node_cpus": float(cpus)}


def read_machine() -> dict[str, float]:
    return of_machine(Path("/proc/meminfo").read_text(), Path("/proc/stat").read_text())


def expected(positions: Iterable[int], turn: int, machine: Mapping[str, float]) -> dict[str, list[float]]:
    """The value of each of these nodes, by metric."""
    nodes = list(positions)
    same = {EVEN: EVEN_VALUE, **machine}
    return {
        UNEVEN: [uneven(each, turn) for each in nodes],
        **{name: [each] * len(nodes) for name, each in same.items()},
    }


# -- a fold of them --------------------------------------------------------------------------------------------------


def metric(document: Document, name: str) -> Document | None:
    return next((each for each in document["metrics"] if each["name"] == name), None)


def differences(document: Document, wanted: Mapping[str, Sequence[float]]) -> list[str]:
    """What the document says otherwise than the values of the nodes do, in words."""
    found = []
    for name, values in wanted.items():
        said = metric(document, name)
        if said is None:
            found.append(f"{name} is missing")
            continue
        exact = {"count": len(values), "sum": sum(values), "min": min(values), "max": max(values)}
        found += [
            f"{name}: {what} is {said[what]:.15g}, not {value:.15g}"
            for what, value in exact.items()
            if said[what] != value
        ]
        error = quantile_error(said, values)
        if error > QUANTILE_ERROR_MAX:
            found.append(f"{name}: a quantile is wrong by {100 * error:.2f} %")
    return found


def quantile_error(said: Document, values: Sequence[float]) -> float:
    """The largest of all quantiles, as a share of the true value, which is that of a node."""
    ordered = sorted(values)
    true = {share: ordered[int(float(share) * (len(ordered) - 1))] for share in said["quantiles"]}
    return max((abs(value / true[share] - 1) for share, value in said["quantiles"].items()), default=0.0)


# -- after a death ---------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """One look at the figures, `at_s` after a death. `counted`: nodes in the sum of UNEVEN; `missing`: addresses."""

    at_s: float
    told: int
    asked: int
    counted: int
    missing: tuple[str, ...] = ()

    @staticmethod
    def of(at_s: float, document: Document) -> Seen:
        counted = metric(document, UNEVEN)
        missing = tuple(address for each in document["missing"] for address in each["addresses"])
        count = counted["count"] if counted else 0
        return Seen(at_s, document["told"], document["asked"], count, missing)

    def is_whole(self, living: int, gone: Collection[str]) -> bool:
        """All that live have told and are counted, and no other one is missing than those that are gone."""
        return self.told == self.counted == living and set(self.missing) <= set(gone)


def whole_since(looks: Sequence[Seen], living: int, gone: Collection[str]) -> float | None:
    """When the figures became whole, and stayed so until the last look; None: they are not."""
    since = None
    for look in looks:
        whole = look.is_whole(living, gone)
        since = (look.at_s if since is None else since) if whole else None
    return since


def of_death(looks: Sequence[Seen], before: int, gone: str) -> dict[str, Any]:
    """Figures of the death of one of `before` nodes.

    `over_s`, `counted_over_s`: for how long more nodes have told, or are in the sum, than live, which lasts until the
    death is known; `double`: the most nodes beyond those that were there before, or told beyond those asked.
    """
    living = before - 1
    beyond = [max(look.told - min(before, look.asked), look.counted - before) for look in looks]
    return {
        "whole_s": whole_since(looks, living, (gone,)),
        "over_s": max((look.at_s for look in looks if look.told > living), default=0.0),
        "counted_over_s": max((look.at_s for look in looks if look.counted > living), default=0.0),
        "double": max([0, *beyond]),
        "told_least": min((look.told for look in looks), default=0),
        "looks": len(looks),
    }
