"""A real Grid Engine whose jobs have records, by the command of docs/accounting.md."""

from __future__ import annotations

import calendar
import re
import time

import gridengine_room
import pytest
from batch_room import GROUP, until
from gridengine_room import PARALLEL, QUEUE

from tests.cli.test_accounting_page import blocks

pytestmark = pytest.mark.slow
WORK = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3"


def test_its_jobs_have_records() -> None:
    (command,) = blocks("bash")
    begin = int(time.time())
    with gridengine_room.running(command) as engine:
        good = engine.submit("exit 0", "-A", "physics")  # it refuses names with spaces, or beyond ASCII
        bad = engine.submit(WORK)
        array = engine.submit("exit $SGE_TASK_ID", "-t", "1-2")
        wide = engine.submit("exit 0", "-pe", PARALLEL, "3")
        killed = engine.submit("kill -SEGV $$")
        cancelled = engine.submit("exec sleep 1000")
        until(lambda: engine.is_running(cancelled), lambda: f"the job runs: {engine.states()}")
        engine.room.run("qdel", cancelled, user="ann")
        found = {job.id: job for job in engine.room.records(7)}
        says = engine.told(7)
        assert engine.room.logged() == []
        assert not re.search(r"lx-\w+ +E", engine.states())
    assert {job.id: (job.status, job.signal) for job in found.values()} == {
        good: (0, 0),
        bad: (3, 0),
        wide: (0, 0),
        killed: (139, 11),
        cancelled: (137, 9),
        f"{array}.1": (1, 0),
        f"{array}.2": (2, 0),
    }
    for each in says:
        task = each["taskid"]
        job = found[each["jobnumber"] + ("" if task == "undefined" else f".{task}")]
        assert (job.user, job.group, job.queue, job.host) == ("ann", GROUP, QUEUE, "head")
        assert (each["owner"], each["group"], each["qname"], each["hostname"]) == ("ann", GROUP, QUEUE, "head")
        assert job.account == each["account"] == ("physics" if job.id == good else "sge")
        assert job.slots == int(each["slots"]) == (3 if job.id == wide else 1)
        assert job.started is not None
        assert begin <= job.started <= job.ended <= time.time()
        assert (job.started, job.ended) == (seconds(each["start_time"]), seconds(each["end_time"]))
        assert job.status == int(each["exit_status"].split()[0])
        assert job.cpu_user_s == pytest.approx(seconds_of(each["ru_utime"]), abs=0.01)
        assert job.cpu_system_s == pytest.approx(seconds_of(each["ru_stime"]), abs=0.01)
        assert job.rss_bytes is not None
        assert job.rss_bytes > 1 << 20
    assert (found[bad].cpu_s or 0) > 0.01


def seconds(text: str) -> int:
    return calendar.timegm(time.strptime(text))


def seconds_of(text: str) -> float:
    return float(text.rstrip("s"))
