"""A real Slurm whose jobs have records, by the line of docs/accounting.md."""

from __future__ import annotations

import time

import pytest
import slurm_room
from batch_room import GROUP, GROUPS, USERS, until

from tests.cli.test_accounting_page import blocks

pytestmark = pytest.mark.slow
LATE_S = 20.0
"""The most that a busy machine takes from the end of a job to its epilog."""
NAME = "Ähre: a name with spaces"


def test_its_jobs_have_records() -> None:
    (lines,) = blocks("conf")
    begin = time.time()
    with slurm_room.running(lines.strip()) as slurm:
        good = slurm.submit("exit 0", f"--job-name={NAME}", "--account=physics")
        bad = slurm.submit("exit 3")
        array = slurm.submit("exit $SLURM_ARRAY_TASK_ID", "--array=1-2")
        wide = slurm.submit("exit 0", "--nodes=2", "--ntasks=4")  # three CPUs here, one there
        killed = slurm.submit("kill -KILL $$")
        cancelled = slurm.submit("exec sleep 1000")
        until(lambda: slurm.state(cancelled) == "RUNNING", lambda: "the job runs")
        slurm.room.run("scancel", cancelled, user="ann")
        found = slurm.room.records(8)
        jobs = {job.id: job for job in found}
        told = {job: slurm.told(job) for job in jobs}
        assert (slurm.room.logged(), "drain" in slurm.states(), len(found)) == ([], False, 8)
    tasks = {job: int(each["ArrayTaskId"]) for job, each in told.items() if each.get("ArrayJobId") == array}
    assert {job.id: (job.status, job.signal) for job in found} == {
        good: (0, 0),
        bad: (3, 0),
        wide: (0, 0),
        killed: (0, 9),
        cancelled: (0, 0),
        **{job: (number, 0) for job, number in tasks.items()},
    }
    assert sorted(tasks.values()) == [1, 2]
    for job in found:
        says = told[job.id]
        assert (job.user, job.group, job.queue, job.cluster) == ("ann", GROUP, says["Partition"], "one")
        assert (f"ann({USERS['ann'][0]})", f"{GROUP}({GROUPS[GROUP]})") == (says["UserId"], says["GroupId"])
        assert job.account == ("physics" if job.id == good else "")
        assert job.started == int(says["StartTime"])
        assert abs(job.ended - int(says["EndTime"])) < LATE_S
        assert begin - 1 <= job.started <= job.ended <= time.time()
        assert (job.cpu_s, job.rss_bytes, job.labels) == (None, None, {})
    assert told[good]["JobName"] == NAME.partition(" ")[0]
    assert [job.slots for job in found if job.id != wide] == [1] * 6
    assert {job.host: job.slots for job in found if job.id == wide} == {"n1": 3, "n2": 1}
    assert {job.host for job in found} == {"n1", "n2"}
    assert len({job.key for job in found}) == 7, "the job on two nodes counts once"
