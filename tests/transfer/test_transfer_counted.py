"""How many foreign jobs a cell has had at once, by the report of its qmaster."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.transfer.counted import Most, most_of


def line(event: str, job: int, by: str = "master", account: str = "sb.a.2.0.1", message: str = "job: 1") -> str:
    rest = f"head:0:1024:1795746227:STDIN:ann:chemists::defaultdepartment:{account}:{message}"
    return f"1795746227:job_log:1795746227:{event}:{job}:0:NONE:t:{by}:{rest}"


def test_a_job_counts_until_the_scheduler_has_deleted_it() -> None:
    one = [line("pending", 1, "ann"), line("sent", 1), line("delivered", 1), line("finished", 1)]
    gone = line("deleted", 1, "scheduler")
    other = line("pending", 2, "ann")
    assert most_of([*one, other, gone]) == Most(present=2, waiting=1, all=2)
    assert most_of([*one, gone, other]) == Most(present=1, waiting=1, all=2)


def test_a_job_that_is_deleted_counts_while_it_still_runs() -> None:
    begin = [line("pending", 1, "ann"), line("sent", 1), line("deleted", 1, "root")]
    assert most_of([*begin, line("pending", 2, "ann")]).present == 2


def test_a_job_that_is_deleted_before_it_runs_is_gone() -> None:
    begin = [line("pending", 1, "ann"), line("deleted", 1, "root")]
    assert most_of([*begin, line("pending", 2, "ann")]) == Most(present=1, waiting=1, all=2)


def test_jobs_that_wait_are_those_that_no_host_has() -> None:
    jobs = [line("pending", number, "ann") for number in range(5)]
    assert most_of([*jobs, line("sent", 3), line("pending", 9, "ann")]) == Most(present=6, waiting=5, all=6)


def test_other_lines_and_other_jobs_do_not_count() -> None:
    own = line("pending", 1, "ann", account="sge")
    host = "1795746227:host:head:1795746227:X:np_load_avg=0.1"
    assert most_of([own, host, "", line("pending", 2).rpartition(":sb.")[0]]) == Most()
