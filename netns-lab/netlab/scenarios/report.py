"""What was seen in the scenarios: a line an expectation, a line a scenario, and a JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from netlab.common import results
from netlab.common.measure import machine
from netlab.common.tables import aligned, cell
from subord.sim.checkers.metrics import percentile
from subord.sim.scenario.definition import Cluster, Step, folded, positions_of


class Seen(msgspec.Struct, kw_only=True):
    """Between two expectations. Times in seconds, nodes as positions; restarted nodes are not among the moved."""

    whole_s: float | None  # until all was whole, from the step; None: it was not
    moves: int  # changes of leader
    moved: list[int]
    outside: list[int]  # those of the moved that were not allowed to
    attached_s: list[float]  # of those whose leader was struck, ascending
    never: list[int]  # those of them that had no leader again
    faults: list[str] = []  # what was expected and is not so; empty: it held

    def in_words(self) -> str:
        whole = "not whole" if self.whole_s is None else f"whole after {self.whole_s:.2f} s"
        moved = f" ({folded(self.moved)})" if self.moved else ""
        orphans = len(self.attached_s) + len(self.never)
        attached = ""
        if orphans:
            p50, p99 = (cell(percentile(self.attached_s, share)) for share in (0.5, 0.99))
            attached = f", {orphans} orphans, attached p50 {p50} s, p99 {p99} s"
        verdict = f"  FAILED: {'; '.join(self.faults)}" if self.faults else ""
        return f"{whole}, {self.moves} moves{moved}{attached}{verdict}"


class Answers(msgspec.Struct, kw_only=True):
    """Of all orders of one step `answered`."""

    orders: int
    took_s_max: float
    void: int  # their nodes have ended
    missing: dict[str, int]  # cause -> nodes, of all orders together
    faults: list[str] = []  # as of Seen; what is wrong with an answer ends the scenario at once

    def in_words(self) -> str:
        missing = ", ".join(f"{number} {cause}" for cause, number in sorted(self.missing.items()))
        return (
            f"{self.orders} orders answered within {self.took_s_max:.2f} s"
            f"{f', {self.void} void' if self.void else ''}; missing in all of them together: {missing or 'none'}"
        )


class PlayedStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    number: int
    at_s: float  # since the beginning
    step: Step
    seen: Seen | Answers | None = None  # of `expect` and `answered`


class Result(msgspec.Struct, kw_only=True):
    file: str
    title: str
    cluster: Cluster
    seed: int
    sites: str | None = None  # name of their file
    steps: list[PlayedStep] = []
    failure: str | None = None  # None: everything held
    lasted_s: float = 0.0
    babbled: int = 0  # datagrams of bad input

    def row(self) -> dict[str, Any]:
        seen = [each.seen for each in self.steps if isinstance(each.seen, Seen)]
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


TITLES = {
    "scenario": "scenario",
    "nodes": "nodes",
    "result": "result",
    "whole_s_max": "whole, longest s",
    "moves": "moves",
    "outside": "not allowed",
    "orphans": "orphans",
    "attached_p50_s": "attached p50 s",
    "attached_p99_s": "p99 s",
    "lasted_s": "lasted s",
}


def table(played: Iterable[Result]) -> str:
    known = list(played)
    rows = [list(TITLES.values()), *([cell(each.row()[key]) for key in TITLES] for each in known)]
    failures = [f"{each.file}: {each.failure}" for each in known if each.failure is not None]
    return "\n".join([aligned(rows, left=1), *failures])


def write(path: Path, played: Iterable[Result]) -> None:
    scenarios = [{**msgspec.to_builtins(each), **each.row()} for each in played]
    results.write_json(path, {"machine": machine(), "scenarios": scenarios})
