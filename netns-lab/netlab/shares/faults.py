"""What faults do to the shares of a large cluster: a leader or the root that is killed, a leader that is cut off, and
a network in two halves, with agents that are played.

Of each fault the record has the moment of the last new place in the tree, and how long after it the root has all
nodes in its decisions, and the nodes have the wanted shares, for good. A daemon opens the stream to a new leader some
time after it has taken its place (docs/evaluation/accounting.md), and its reports go over that. Each half of a cut
network is to have the wanted shares, too. Agents of dead daemons go on with the last row, and do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.errors import LabError
from netlab.experiments.verdicts import faults_of_turns
from netlab.lab import Lab
from netlab.services import kills
from netlab.shares import cluster, figures, operating
from netlab.shares.figures import Sample
from netlab.shares.operating import WANTED
from netlab.shares.stand_ins import StandIns
from netlab.topology.filters import Faults, rules

WAIT_S_MAX: Final = 120.0
AFTER_ROUNDS: Final = 10
"""For so long all has to hold before a fault is over."""
STEADY_ROUNDS: Final = 20
AIM: Final = 3
"""Rounds after the last stream to a new leader was opened."""
STREAM_S, STARTED_STREAM_S = 1.5, 9.0
"""At the latest so long after a change of leader, or after a start of the daemon."""
Part = Collection[int]


class Watch:
    """Samples and looks from the moment of a fault on. `parts`: nodes that are to be one tree each."""

    def __init__(self, lab: Lab, stand_ins: StandIns, round_s: float, parts: Sequence[Part]) -> None:
        self._lab = lab
        self._stand_ins = stand_ins
        self._round_s = round_s
        self._parts = [tuple(part) for part in parts]
        self._samples: list[Sample] = []
        self._whole_since: list[float | None] = [None] * len(parts)

    def run(self, name: str, act: Callable[[], None], stream_s: float) -> Record:
        """The record of a fault, once its parts are whole. Raises LabError: they are not."""
        self._lab.progress(name)
        self._sample()
        act()
        began = time.monotonic()
        edges = self._await_whole(began)
        parts = [self._of_part(*each) for each in zip(self._parts, edges, self._whole_since, strict=True)]
        about = {"fault": name, "stream_s": stream_s, "edge_s": round(max(max(edges) - began, 0.0), 2)}
        return {**about, "parts": parts, **_worst(parts)}

    def _await_whole(self, began: float) -> list[float]:
        """The last new edge of each part."""
        number = 0
        while time.monotonic() < began + WAIT_S_MAX:
            number += 1
            time.sleep(max(0.0, began + number * self._round_s - time.monotonic()))
            self._sample()
            edges = [self._look(place, part) for place, part in enumerate(self._parts)]
            settled = [each for each in edges if each is not None]
            since = [each for each in self._whole_since if each is not None]
            if len(settled) == len(since) == len(self._parts):
                held_s = time.monotonic() - max(*settled, *since, began)
                if held_s >= AFTER_ROUNDS * self._round_s:
                    return settled
        told = [operating.told_of(self._lab, min(part)) for part in self._parts]
        raise LabError(f"A tree of shares is not whole after {WAIT_S_MAX:g} s: told and asked are {told}.")

    def _look(self, place: int, part: Part) -> float | None:
        """Since when the tree of a part stands; None: it does not."""
        lab, now = self._lab, time.monotonic()
        settled = lab.look().settled_at({lab.address(each) for each in part})
        is_whole = False
        if settled is not None:
            roots = [root.address for root in lab.cluster.roots()]
            (root,) = (each for each in part if lab.address(each) in roots)
            is_whole = operating.told_of(lab, root) == (len(part), len(part))
        if not is_whole:
            self._whole_since[place] = None
        elif self._whole_since[place] is None:
            self._whole_since[place] = now
        return settled

    def _sample(self) -> None:
        self._samples.append(cluster.sample(self._stand_ins))

    def _of_part(self, part: Part, edge: float, whole: float | None) -> Record:
        """`shares`: of the time since the last new edge."""
        found = figures.course(self._samples, WANTED, part)
        since = next((each for each in self._samples if each.at >= edge), self._samples[-1])
        mean = figures.shares(since, self._samples[-1], part) if since is not self._samples[-1] else []
        return {
            "nodes": len(part),
            "whole_s": figures.seconds_after(whole, edge),
            "back_s": None if found.ends_away else figures.seconds_after(found.last_away, edge),
            "worst_points": found.worst,
            "shares": [round(each, 1) for each in mean],
        }


def _worst(parts: Sequence[Record]) -> Record:
    back = [part["back_s"] for part in parts]
    return {
        "whole_s": max(part["whole_s"] for part in parts),
        "back_s": None if None in back else max(back),
        "worst_points": max(part["worst_points"] for part in parts),
    }


def measure(lab: Lab, stand_ins: StandIns, round_s: float, times: int) -> Record:
    """Raises LabError."""
    stand_ins.load(cluster.uneven(lab.positions))
    operating.publish(lab, round_s)
    time.sleep(STEADY_ROUNDS * round_s)
    everyone = lab.positions
    root = operating.root_of(lab)
    turns: list[Record] = []

    def watch(name: str, act: Callable[[], None], *parts: Part, stream_s: float = STREAM_S) -> None:
        turns.append(Watch(lab, stand_ins, round_s, parts).run(name, act, stream_s))

    def lose(name: str, victim: int, act: Callable[[], None], end: Callable[[], None]) -> None:
        """A node is gone for the others, and comes back."""
        watch(name, act, [each for each in everyone if each != victim])
        watch(f"{name}: back", end, everyone, stream_s=STARTED_STREAM_S if "killed" in name else STREAM_S)

    for victim in kills.victims(lab, times, root):
        lose(f"leader {victim} killed", victim, partial(lab.kill, victim), partial(lab.start_and_wait, victim))
    for victim in kills.victims(lab, times, root)[::-1]:
        lose(f"leader {victim} cut off", victim, partial(lab.cut, victim), partial(lab.cut, victim, connected=True))
    lose("root killed", root, partial(lab.kill, root), partial(lab.start_and_wait, root))
    half = len(everyone) // 2
    halves = everyone[:half], everyone[half:]
    sides = tuple(tuple(map(lab.port, each)) for each in halves)
    watch("halves", lambda: lab.filter(rules(Faults(sides=sides))), *halves)
    watch("merged", lambda: lab.filter(rules(Faults())), everyone)
    return {"turns": turns, **_all(turns)}


def _all(turns: Sequence[Record]) -> dict[str, Any]:
    keys = ("edge_s", "whole_s", "back_s", "worst_points")
    return {f"turn_{key}": [turn[key] for turn in turns] for key in keys}


def faults_of(record: Record) -> list[str]:
    def faults_of_turn(turn: Record) -> list[str]:
        late_s = turn["stream_s"] + AIM * record["round_s"]
        bad = {
            "the shares were not back": turn["back_s"] is None,
            f"the shares were back {turn['back_s']} s after the last new place": (turn["back_s"] or 0) > late_s,
        }
        return [words for words, holds in bad.items() if holds]

    return faults_of_turns(record, "fault", faults_of_turn)


COLUMNS: Final = (
    Column("turn_edge_s", "last new place, s", 1),
    Column("turn_whole_s", "told = asked, s later", 1),
    Column("turn_back_s", "shares back, s later", 1),
    Column("turn_worst_points", "worst, points", 1),
)
