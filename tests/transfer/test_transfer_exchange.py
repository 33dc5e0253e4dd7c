"""What `netns-lab/lab evaluate transfer` gives to two clusters, and what it tells of their jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.transfer import exchange, experiment
from netlab.transfer.exchange import BUSY, QUIET, Lived

SLOTS, JOB_S, PHASE_S, SECONDS = 40, 60.0, 240.0, 2400.0


@pytest.mark.parametrize("side", [0, 1])
def test_one_cluster_is_busy_in_a_phase_and_the_other_one_in_the_next(side: int) -> None:
    arrivals = exchange.schedule(SLOTS, JOB_S, PHASE_S, SECONDS, seed=1)
    counts = [0, 0]
    for each in arrivals:
        counts[int(each.at_s / PHASE_S) % 2 == side] += each.side == side
    work = [count * JOB_S / (SLOTS * SECONDS / 2) for count in counts]
    assert work == pytest.approx([QUIET, BUSY], rel=0.15)


def test_the_same_seed_gives_the_same_jobs_in_order() -> None:
    arrivals = exchange.schedule(SLOTS, JOB_S, PHASE_S, SECONDS, seed=1)
    assert arrivals == sorted(exchange.schedule(SLOTS, JOB_S, PHASE_S, SECONDS, seed=1))
    assert arrivals != exchange.schedule(SLOTS, JOB_S, PHASE_S, SECONDS, seed=2)
    assert {each.status for each in arrivals} == set(range(8))
    assert all(0 <= each.at_s < SECONDS for each in arrivals)


def test_what_jobs_took_beyond_their_own_time() -> None:
    lived = [Lived(100, 111), Lived(100, 112), Lived(130, 190)]
    assert exchange.of_jobs(lived, 10.0, began_at=100.0) == {
        "ended": 3,
        "per_min": 2.0,
        "extra_s": 2.0,
        "extra_s_high": 50.0,
        "last_s": 90.0,
        "ends": [2, 0, 0, 1],
    }


def test_no_job() -> None:
    assert exchange.of_jobs([], 10.0, began_at=100.0)["extra_s"] is None


def test_the_table_says_what_a_job_did_wrong_and_which_run_failed() -> None:
    run = {"case": "joined", "nodes": 50, "repeat": 0}
    found = {**run, "fault": None, "jobs": 9, "abroad": 2, "per_min": 1.5, "extra_s": 3.0, "extra_s_high": 4.0}
    records = [{**found, "last_s": 60.0, "faults": ["x has begun 2 times"]}, {**run, "fault": "no qmaster"}]
    assert not experiment.is_whole(records[0])
    shown = experiment.table(records).splitlines()
    assert shown[1].split() == ["joined", "50", "1", "9", "2", "1.5", "3.0", "4.0", "60.0"]
    assert shown[2:] == ["joined: x has begun 2 times", "joined: no qmaster"]
