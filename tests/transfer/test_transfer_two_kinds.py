"""A tree with a real Grid Engine and one with a real Slurm, which send jobs to each other by tables of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.elastic import gridengine
from netlab.elastic.hosted import USER
from netlab.transfer import pair as pairs
from netlab.transfer import slurm_trees
from netlab.transfer.pair import Pair
from netlab.transfer.site import obstacle
from netlab.transfer.slurm_trees import PARTITION, SlurmTreeLab
from netlab.transfer.trees import QUEUE, TreeLab

from tests.transfer.tagged import prepare, script, starts

pytestmark = [pytest.mark.lab(few=True), pytest.mark.slow]
WAIT_S_MAX = 180.0
QUEUED_AGAIN: Final = "25"
SECONDS_AND_MINUTES: Final = ("600", "10")
"""Of one limit of time, as each of the batch systems calls it."""
TO_SLURM: Final[list[dict[str, Any]]] = [
    {"name": "h_rt", "to": "time", "values": [SECONDS_AND_MINUTES], "is_closed": True},
    {"name": "mem_free", "to": "mem"},
    {"name": "arch", "to": ""},
]
TO_GRIDENGINE: Final[list[dict[str, Any]]] = [
    {"name": "time", "to": "h_rt", "values": [SECONDS_AND_MINUTES[::-1]], "is_closed": True},
    {"name": "mem", "to": "mem_free"},
]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if packages := (*gridengine.missing(), *slurm_trees.missing()):
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    if reason := obstacle():
        pytest.skip(reason)
    with pairs.running(slots=4, kinds=(TreeLab, SlurmTreeLab)) as both:
        for tree, requests in zip(both.trees, (TO_SLURM, TO_GRIDENGINE), strict=True):
            tree.publish(both.plan(tree, permit_s=600, idle_pending_max=100, requests=requests))
            prepare(tree)
        both.a.await_that(both.a.is_open, "the transfer queue is open", WAIT_S_MAX, both.a.facts)
        yield both


def slurm_of(pair: Pair) -> SlurmTreeLab:
    assert isinstance(pair.b, SlurmTreeLab)
    return pair.b


def ends(tree: TreeLab, jobs: list[str]) -> list[tuple[str, str]]:
    """Status and failure of each run in the accounting of Grid Engine, but of those that it has queued again."""
    found = (run for job in jobs for run in tree.ended_of(job))
    runs = [(run["exit_status"].split()[0], run["failed"].split()[0]) for run in found]
    return [each for each in runs if each[1] != QUEUED_AGAIN]


def test_jobs_of_grid_engine_run_in_slurm_and_their_ends_return(pair: Pair) -> None:
    a, b = pair.a, slurm_of(pair)
    options = ("-l", "h_rt=600,mem_free=16M,arch=lx-amd64")
    jobs = [a.submit(script(f"a{each}", f"sleep 1; exit {each}"), *options) for each in range(4)]
    jobs.append(a.submit(script("a4", "kill -USR1 $$"), *options))
    a.await_that(lambda: len(ends(a, jobs)) == len(jobs), "all have ended", WAIT_S_MAX, a.facts)
    assert ends(a, jobs) == [("0", "0"), ("1", "0"), ("2", "0"), ("3", "0"), ("138", "100")]
    assert [starts(pair, f"a{each}") for each in range(5)] == [["b"]] * 5
    assert {(each["time_limit"], each["memory_per_node"]) for each in b.jobs()} == {(10, 16)}


def test_jobs_of_slurm_run_in_grid_engine_and_their_ends_return(pair: Pair) -> None:
    a, b = pair.a, slurm_of(pair)
    before = {run["jobnumber"] for run in a.engine.ended()}
    wanted = {
        b.submit(script(f"b{each}", f"sleep 1; exit {each}"), "--time=10", "--mem=16"): each << 8 for each in range(4)
    }
    wanted[b.submit(script("b4", "kill -USR1 $$"), "--time=10", "--mem=16")] = 10

    def are_over() -> bool:
        states = b.states()
        return all(states[each] in ("COMPLETED", "FAILED") for each in wanted)

    b.await_that(are_over, "all have ended", WAIT_S_MAX, b.facts)
    assert {each: b.job(each)["exit_code"] for each in wanted} == wanted
    assert [starts(pair, f"b{each}") for each in range(5)] == [["a"]] * 5
    runs = [run for run in a.engine.ended() if run["jobnumber"] not in before]
    assert len(runs) == len(wanted)
    assert all("-l h_rt=600,mem_free=16M" in run["category"] for run in runs), runs


def test_what_is_done_at_home_reaches_the_other_kind(pair: Pair) -> None:
    a, b = pair.a, slurm_of(pair)
    job = a.submit(script("held", "exec sleep 1000"))

    def is_abroad(*states: str) -> None:
        over = ("COMPLETED", "FAILED", "CANCELLED")
        found = lambda: [state for state in b.states().values() if state not in over]  # noqa: E731
        b.await_that(lambda: found() == [*states], f"abroad it is {states}", WAIT_S_MAX, b.facts)

    is_abroad("RUNNING")
    a.run_on_head("qmod", "-sj", job)
    is_abroad("SUSPENDED")
    a.run_on_head("qmod", "-usj", job)
    is_abroad("RUNNING")
    a.run_on_head("qdel", job, user=USER)
    is_abroad()
    a.await_that(lambda: ends(a, [job]), "the accounting has the job", WAIT_S_MAX, a.facts)
    # Grid Engine kills the starter, or that ends first as the job did: scancel sends SIGTERM before SIGKILL.
    assert ends(a, [job]) in ([("137", "100")], [("143", "100")])


def test_what_is_done_in_slurm_reaches_grid_engine(pair: Pair) -> None:
    a, b = pair.a, slurm_of(pair)
    job = b.submit(script("held_b", "exec sleep 1000"))

    def is_abroad(*states: str) -> None:
        found = lambda: [state.removeprefix("h") for state in a.states().values()]  # noqa: E731
        a.await_that(lambda: found() == [*states], f"abroad it is {states}", WAIT_S_MAX, a.facts)

    is_abroad("r")
    b.on_head("scontrol", "suspend", job)
    is_abroad("s")
    b.on_head("scontrol", "resume", job)
    is_abroad("r")
    b.on_head("scancel", job, user=USER)
    is_abroad()
    b.await_that(lambda: b.states()[job] == "CANCELLED", "it has ended at home", WAIT_S_MAX, b.facts)


def test_what_has_no_words_there_stays(pair: Pair) -> None:
    """A request that Slurm does not know, and a limit of time without a line in the closed table."""
    a, b = pair.a, slurm_of(pair)
    a.run_on_head("qmod", "-d", "all.q")
    job = a.submit(script("home", "exit 5"), "-l", "s_rt=600", queue=f"{QUEUE},all.q")
    waits = b.submit(script("home_b", "exit 5"), "--time=7")
    is_kept = lambda: "remote=FALSE" in a.run_on_head("qstat", "-j", job)  # noqa: E731
    a.await_that(is_kept, "the job is marked", WAIT_S_MAX, a.facts)
    a.run_on_head("qmod", "-e", "all.q")
    a.await_that(lambda: ends(a, [job]) == [("5", "0")], "it has run at home", WAIT_S_MAX, a.facts)
    assert starts(pair, "home") == ["a"]
    assert "Slurm has no request 's_rt'" in a.agent_log()
    b.await_that(lambda: b.job(waits)["partition"] == PARTITION, "it waits for its own cluster", WAIT_S_MAX, b.facts)
    b.on_head("scancel", waits)
