"""What was seen in the scenarios: a line an expectation, a line a scenario, and a document.

Intuition: the reviews of the next morning, short ones in the paper and the whole file in the archive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from netlab.common.measure import machine
from subord.sim.scenario import Cluster, Step, folded, positions_of
from subord.sim.seen import percentile


@dataclass(kw_only=True)
class Seen:
    """Between two expectations. Times in seconds, nodes as positions; restarted nodes are not among the moved."""

    whole_s: float | None  # until all was whole, from the step; None: it was not
    moves: int  # changes of leader
    moved: list[int]
    outside: list[int]  # those of the moved that were not allowed to
    attached_s: list[float]  # of those whose leader was struck, ascending
    never: list[int]  # those of them that had no leader again
    faults: list[str] = field(default_factory=list)  # what was expected and is not so; empty: it held

    def in_words(self) -> str:
        """One line for people."""
        whole = "not whole" if self.whole_s is None else f"whole after {self.whole_s:.2f} s"
        moved = f" ({folded(self.moved)})" if self.moved else ""
        orphans = len(self.attached_s) + len(self.never)
        attached = ""
        if orphans:
            p50, p99 = (_cell(percentile(self.attached_s, share)) for share in (0.5, 0.99))
            attached = f", {orphans} orphans, attached p50 {p50} s, p99 {p99} s"
        verdict = f"  FAILED: {'; '.join(self.faults)}" if self.faults else ""
        return f"{whole}, {self.moves} moves{moved}{attached}{verdict}"


@dataclass(kw_only=True)
class Act:
    """One step as it was played."""

    number: int
    at_s: float  # since the beginning
    step: Step
    seen: Seen | None  # of an expectation


@dataclass(kw_only=True)
class Performance:
    """One scenario as it went."""

    file: str
    title: str
    cluster: Cluster
    seed: int
    sites: str | None = None  # name of their file
    acts: list[Act] = field(default_factory=list)
    failure: str | None = None  # None: everything held
    lasted_s: float = 0.0
    babbled: int = 0  # datagrams that strangers sent

    @property
    def seen(self) -> list[Seen]:
        return [act.seen for act in self.acts if act.seen is not None]

    def row(self) -> dict[str, Any]:
        """The figures of the table."""
        seen = self.seen
        attached_s = sorted(time for each in seen for time in each.attached_s)
        wholes = [each.whole_s for each in seen if each.whole_s is not None]
        return {
            "scenario": Path(self.file).stem,
            "nodes": len(positions_of(self.cluster)),
            "result": "ok" if self.failure is None else "FAILED",
            "whole_s_max": max(wholes, default=None),
            "moves": sum(each.moves for each in seen),
            "outside": len({position for each in seen for position in each.outside}),
            "orphans": len(attached_s) + sum(len(each.never) for each in seen),
            "attached_p50_s": percentile(attached_s, 0.5),
            "attached_p99_s": percentile(attached_s, 0.99),
            "lasted_s": self.lasted_s,
        }


COLUMNS = (
    ("scenario", "scenario"),
    ("nodes", "nodes"),
    ("result", "result"),
    ("whole, longest s", "whole_s_max"),
    ("moves", "moves"),
    ("not allowed", "outside"),
    ("orphans", "orphans"),
    ("attached p50 s", "attached_p50_s"),
    ("p99 s", "attached_p99_s"),
    ("lasted s", "lasted_s"),
)


def table(performances: Iterable[Performance]) -> str:
    """For people: one line a scenario."""
    known = list(performances)
    cells = [[title for title, _ in COLUMNS]]
    cells += [[_cell(row[key]) for _, key in COLUMNS] for row in (each.row() for each in known)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = [
        "  ".join([line[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(line[1:], widths[1:], strict=True))])
        for line in cells
    ]
    lines += [f"{each.file}: {each.failure}" for each in known if each.failure is not None]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def write(path: Path, performances: Iterable[Performance]) -> None:
    """Everything that was seen, with the machine, as JSON."""
    document = {"machine": machine(), "scenarios": [_document(each) for each in performances]}
    path.write_text(json.dumps(document, indent=1) + "\n")


def _document(performance: Performance) -> dict[str, Any]:
    return {
        "file": performance.file,
        "title": performance.title,
        "cluster": msgspec.to_builtins(performance.cluster),
        "seed": performance.seed,
        "sites": performance.sites,
        "failure": performance.failure,
        "babbled": performance.babbled,
        **performance.row(),
        "steps": [
            {
                "number": act.number,
                "at_s": act.at_s,
                "step": msgspec.to_builtins(act.step),
                **({} if act.seen is None else {"seen": asdict(act.seen)}),
            }
            for act in performance.acts
        ],
    }
