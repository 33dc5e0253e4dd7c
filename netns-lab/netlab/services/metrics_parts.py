"""What `evaluate metrics` does to a lab of subord: figures at rest, known values, changes of all, and deaths.

The figures are read from the socket of one daemon, as `subord metrics` does, so a look costs a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netlab.common.results import Record, replace_file
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments import figures
from netlab.experiments.figures import Reading
from netlab.lab import Lab
from netlab.services import kills, ready
from netlab.services.metrics_values import (
    HELD_S,
    Document,
    Seen,
    differences,
    expected,
    metric,
    of_death,
    quantile_error,
    read_machine,
    text_of,
    whole_since,
)

BUDGET_S = 2.0
LOOK_S = 0.1
WHOLE_S_MAX = 120.0
DEATH_S_MAX = 90.0
CHANGED_S_MAX = 60.0
AGE_LOOK_S = 1.0
AGE_S_MAX = 20.0  # two intervals
OVER_S_MAX = 35.0  # a record counts for three intervals without a new one
DIFFERENCES_MAX = 5  # in a record


class Figures:
    """The figures as one node has them, beside the values that the caller has given to all."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._turn = 0
        self._machine = read_machine()
        self.position = lab.positions[-2]

        for each in lab.positions:
            self._directory(each).mkdir(exist_ok=True)

    def write(self, turn: int) -> None:
        """The text files of all nodes, each as a whole."""
        self._turn = turn
        for position in self._lab.positions:
            replace_file(self._directory(position) / "known.prom", text_of(position, turn))

    def _directory(self, position: int) -> Path:
        return self._lab.directory.node(position) / "metrics"

    def ask(self) -> Document | None:
        """None: no answer."""
        try:
            return self._lab.document(self.position, f"/v1/metrics?budget={BUDGET_S:.3f}")
        except LabError:
            return None

    def wanted(self, gone: int | None = None) -> dict[str, list[float]]:
        """The values of all nodes that live."""
        return expected((each for each in self._lab.positions if each != gone), self._turn, self._machine)

    def await_all(self) -> None:
        """All nodes have told. Raises LabError."""
        nodes, told = len(self._lab.positions), 0

        def have_told() -> bool:
            nonlocal told
            found = self.ask()
            told = told if found is None else found["told"]
            return told == nodes

        if not wait_until(have_told, WHOLE_S_MAX, LOOK_S):
            raise LabError(f"{told} of {nodes} nodes are in the figures after {WHOLE_S_MAX:g} s.")

    def is_right(self) -> bool:
        """All have told their present values, and nothing else is in the figures."""
        found = self.ask()
        return found is not None and not differences(found, self.wanted())


# -- at rest ---------------------------------------------------------------------------------------------------------


def costs(before: Reading, after: Reading, heart: str | None) -> Record:
    """What a node costs, and `heart`, where all comes together. `brought`: what comes to a node, multicasts too."""
    seconds = after.mono - before.mono
    rest = figures.of_rest(before, after, heart)
    brought = [
        [new - old for new, old in zip(after.brought[a], then, strict=True)] for a, then in before.brought.items()
    ]
    spent = sum(after.cpu_s[address] - cpu_s for address, cpu_s in before.cpu_s.items() if address in after.cpu_s)
    nodes = len(brought)
    return {
        "rest_s": seconds,
        "node_packets_per_s": rest["rest_packets_per_s"],
        "node_bytes_per_s": rest["rest_bytes_per_s"],
        "brought_packets_per_s": sum(packets for _, packets in brought) / nodes / seconds,
        "brought_bytes_per_s": sum(octets for octets, _ in brought) / nodes / seconds,
        "heart_packets_per_s": rest["rest_root_packets_per_s"],
        "heart_bytes_per_s": rest["rest_root_bytes_per_s"],
        "heart_cpu_percent": rest["rest_root_cpu_percent"],
        "all_cpu_percent": 100 * spent / seconds,
    }


def at_rest(lab: Lab, seconds: float) -> Record:
    """All daemons, while no figures are asked for."""
    lab.progress("measuring at rest")
    roots = [root.address for root in lab.look().roots()]
    before = figures.read(lab)
    time.sleep(seconds)
    return costs(before, figures.read(lab), roots[0] if len(roots) == 1 else None)


def ages(shown: Figures, seconds: float) -> Record:
    """How old the oldest figure is, looked at once a second."""
    found: list[Document] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (document := shown.ask()) is not None:
            found.append(document)
        time.sleep(AGE_LOOK_S)
    if not found:
        raise LabError("No figures were told at rest.")
    return {
        "age_s": [round(each["oldest_ms"] / 1000, 3) for each in found],
        "told_least": min(each["told"] for each in found),
    }


def values(shown: Figures) -> Record:
    """The figures against what each node has, read directly."""
    document, wanted = shown.ask(), shown.wanted()
    if document is None:
        raise LabError("No figures were told.")
    errors = [quantile_error(each, wanted[name]) for name in wanted if (each := metric(document, name)) is not None]
    wrong = differences(document, wanted)
    return {"quantile_error_percent": 100 * max(errors, default=1.0), "wrong": wrong[:DIFFERENCES_MAX]}


def changes(lab: Lab, shown: Figures, times: int) -> Record:
    """Seconds from new values at all nodes until they, and no others, are in the figures."""
    found: list[float | None] = []
    for turn in range(1, times + 1):
        lab.progress(f"changing values, {turn} of {times}")
        shown.write(turn)
        began = time.monotonic()
        found.append(_since(began, shown.is_right, CHANGED_S_MAX))
    return {"changed_s": found}


def _since(began: float, holds: Callable[[], bool], seconds: float) -> float | None:
    return time.monotonic() - began if wait_until(holds, seconds, LOOK_S) else None


# -- deaths ----------------------------------------------------------------------------------------------------------


def deaths(lab: Lab, shown: Figures, times: int) -> Record:
    """Daemons that lead others are killed and started again, one after the other."""
    turns = []
    nodes = len(lab.positions)
    for number, victim in enumerate(kills.victims(lab, times, shown.position)):
        lab.progress(f"death {number + 1} of {times}")
        address = lab.address(victim)
        below = len(lab.look().subordinates()[address])
        lab.kill(victim)
        found = _after(shown, nodes, address)
        document = shown.ask()
        wrong = ["no answer"] if document is None else differences(document, shown.wanted(victim))
        began = time.monotonic()
        lab.start_and_wait(victim)
        lab.wait_stable(ready.STABLE_S_MAX, ready.QUIET_S)
        shown.await_all()
        back = {"back_s": time.monotonic() - began, "wrong": wrong[:DIFFERENCES_MAX]}
        turns.append({"victim": address, "subordinates": below, **found, **back})
    keys = ("whole_s", "over_s", "counted_over_s", "back_s")
    return {"turns": turns, **{f"death_{key}": [turn[key] for turn in turns] for key in keys}}


def _after(shown: Figures, nodes: int, address: str) -> dict[str, Any]:
    """Looks at the figures until they have been whole for HELD_S."""
    began = time.monotonic()
    looks: list[Seen] = []
    unanswered = 0

    def holds() -> bool:
        nonlocal unanswered
        document = shown.ask()
        at_s = time.monotonic() - began
        if document is None:
            unanswered += 1
            return False
        looks.append(Seen.of(at_s, document))
        since = whole_since(looks, nodes - 1, (address,))
        return since is not None and at_s - since >= HELD_S

    wait_until(holds, DEATH_S_MAX, LOOK_S)
    return {**of_death(looks, nodes, address), "unanswered": unanswered}


# -- what must not be ------------------------------------------------------------------------------------------------


def faults_of(record: Record) -> list[str]:
    """Of a lab whose nodes publish, in words."""
    nodes, oldest = record["nodes"], max(record["age_s"])
    bad = {
        f"{record['told_least']} of {nodes} nodes were in the figures at rest": record["told_least"] != nodes,
        f"a figure was {oldest:.1f} s old": oldest > AGE_S_MAX,
        f"a change was not seen within {CHANGED_S_MAX:g} s": None in record["changed_s"],
    }
    found = [words for words, holds in bad.items() if holds] + list(record["wrong"])
    return found + [f"{turn['victim']} killed: {words}" for turn in record["turns"] for words in faults_of_turn(turn)]


def faults_of_turn(turn: Record) -> list[str]:
    bad = {
        f"the figures were not whole within {DEATH_S_MAX:g} s": turn["whole_s"] is None,
        f"more nodes than live had told for {turn['over_s']:.1f} s": turn["over_s"] > OVER_S_MAX,
        f"more nodes than live were in the sum for {turn['counted_over_s']:.1f} s": turn["counted_over_s"]
        > OVER_S_MAX,
        f"{turn['double']} nodes were counted twice": turn["double"] > 0,
    }
    return [words for words, holds in bad.items() if holds] + list(turn["wrong"])
