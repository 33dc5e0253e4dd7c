"""Virtual machines for a batch queue at the size of the text, and with 2,000 of them: the parts of `evaluate
machines`, each once (docs/evaluation/machines.md)."""

from __future__ import annotations

import pytest
from loops import over
from netlab.machines import experiment

from .lab_helpers import need_machines

pytestmark = [pytest.mark.lab, pytest.mark.long]

ROUNDS = 8
"""So many periods a job is overtaken at most: others stop, and machines boot, meanwhile."""


@over("part", list(experiment.MEASURE))
def test_the_evaluation(part: str) -> None:
    need_machines()
    plan = experiment.Plan(repeat=1, times=2, nodes=(100,), only=(part,))
    for run in plan.runs():
        record = {**run.about, "fault": None, **run.measure()}
        assert experiment.faults_of(record) == [], record
        if part == "order":
            assert record["on_most"] == 2 * experiment.SERVERS
            assert record["overtaken_s_max"] <= ROUNDS * experiment.PERIOD_S
        if part == "window" and not record["window_s"]:
            assert record["waited_s"] is None
