"""Two trees with a real cell each, which send jobs to each other: real daemons, agents, methods and a link."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.elastic import gridengine
from netlab.elastic.hosted import HEAD, HOME, UID, USER
from netlab.transfer import pair as pairs
from netlab.transfer.loads import RUNS, Load, outside
from netlab.transfer.pair import Pair
from netlab.transfer.site import obstacle
from netlab.transfer.trees import QUEUE, QUICK, TreeLab

pytestmark = [pytest.mark.lab(few=True), pytest.mark.slow]
WAIT_S_MAX = 180.0
LIMIT = 4
"""Foreign jobs in each tree."""
SLOTS = 2
"""Of each tree for jobs, so that foreign jobs wait."""
FILES = "/srv/files"
"""Below which jobs that come have their working directories."""
FOLLOWED = "this node is the host"
"""Of the log of an agent."""
SILENT = "the batch system does not answer"
"""Of the log of an agent."""
PERMIT_S = 600
"""A job that has no permit waits in the transfer queue, and does not go round."""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if packages := gridengine.missing():
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    if reason := obstacle():
        pytest.skip(reason)
    with pairs.running(slots=SLOTS, agent=QUICK) as both:
        both.publish(slots_max=LIMIT, permit_s=PERMIT_S, idle_pending_max=100)
        for each in both.trees:
            each.await_that(each.is_open, "the transfer queue is open", WAIT_S_MAX, each.facts)
        yield both


@contextmanager
def widened(pair: Pair, slots_max: int, idle_pending_max: int, slots: int) -> Iterator[None]:
    """`slots`: of the tree where the jobs run. What was before comes back."""
    pair.publish(slots_max=slots_max, permit_s=PERMIT_S, idle_pending_max=idle_pending_max)
    for each in pair.trees:
        each.widen(slots, 1000)
    try:
        yield
    finally:
        pair.publish(slots_max=LIMIT, permit_s=PERMIT_S, idle_pending_max=100)
        for each in pair.trees:
            each.widen(SLOTS, 40, pairs.THRESHOLD)


@contextmanager
def closed(tree: TreeLab, queue: str) -> Iterator[None]:
    """No job of the queue starts meanwhile."""
    tree.run_on_head("qmod", "-d", queue)
    try:
        yield
    finally:
        tree.run_on_head("qmod", "-e", queue)


def see(tree: TreeLab, job: str, *states: str) -> None:
    def is_so() -> bool:
        return tree.states().get(job, "gone") in states

    tree.await_that(is_so, f"{job} is {' or '.join(states)}", WAIT_S_MAX, lambda: f"{tree.states()} {tree.facts()}")


def foreign(tree: TreeLab, *own: str) -> str:
    """The number of the one job there that is of the other tree."""
    found: list[str] = []

    def is_there() -> bool:
        found[:] = [each for each in tree.states() if each not in own]
        return len(found) == 1

    tree.await_that(is_there, "the job is in the other tree", WAIT_S_MAX, lambda: f"{found} {tree.facts()}")
    return found[0]


# -- jobs ---------------------------------------------------------------------------------------------------------


def test_jobs_cross_both_ways_and_their_ends_return(pair: Pair) -> None:
    load = Load(pair, "statuses")
    for tree in pair.trees:
        for status in range(8):
            load.submit(tree, status)
    load.await_ended(WAIT_S_MAX)
    assert load.faults() == []
    assert load.abroad() == len(load.jobs)


def test_signals_return(pair: Pair) -> None:
    load = Load(pair, "signals")
    jobs = {pair.a.submit(f"kill -{number} $$"): number for number in (9, 11, 15)}

    def ends() -> dict[str, int]:
        return {run.job: run.status for run in load.runs(pair.a) if run.job in jobs and run.failed == 100}

    pair.a.await_that(lambda: len(ends()) == len(jobs), "the jobs end", WAIT_S_MAX, load.facts)
    assert ends() == {job: 128 + number for job, number in jobs.items()}


def test_tasks_of_an_array_cross_one_by_one(pair: Pair) -> None:
    load = Load(pair, "array")
    script = f"echo $SGE_TASK_ID >>{RUNS}/array; exit $SGE_TASK_ID"
    job = pair.a.submit(script, "-t", "2-6:2")

    def ends() -> dict[int, int]:
        return {run.task: run.status for run in load.runs(pair.a) if run.job == job}

    pair.a.await_that(lambda: len(ends()) == 3, "the tasks end", WAIT_S_MAX, load.facts)
    assert ends() == {2: 2, 4: 4, 6: 6}
    assert sorted(outside(pair.b, f"{RUNS}/array").read_text().split()) == ["2", "4", "6"]


def test_suspend_resume_and_delete_follow(pair: Pair) -> None:
    """The tree may have held the job meanwhile, which is nothing to a job that runs."""
    job = pair.a.submit("exec sleep 1000")
    there = foreign(pair.b)
    see(pair.b, there, "r")
    pair.a.run_on_head("qmod", "-sj", job)
    see(pair.b, there, "s", "hs")
    pair.a.run_on_head("qmod", "-usj", job)
    see(pair.b, there, "r", "hr")
    pair.a.run_on_head("qdel", job, user=USER)
    see(pair.b, there, "gone")
    see(pair.a, job, "gone")
    pair.a.await_that(lambda: pair.a.ended_of(job), "the accounting has the job", WAIT_S_MAX)
    (run,) = pair.a.ended_of(job)
    assert (run["exit_status"].split()[0], run["failed"].split()[0]) == ("137", "100")


def test_the_view_of_one_job_agrees_with_both_cells(pair: Pair) -> None:
    """While it waits, runs, and when it has ended. Its user may alter it where it waits."""
    load = Load(pair, "view")
    pair.b.run_on_head("qmod", "-d", "all.q")
    try:
        spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
        job = pair.a.submit(f"{spin}; while [ ! -e {RUNS}/go ]; do sleep 0.2; done; exit 5")
        there = foreign(pair.b)
        see(pair.b, there, "qw", "hqw")
        see_in_view(pair.a, job, id=there, state="abroad", being="queued", over=False)
        see_in_view(pair.b, there, way="comes", job=job, id=there, user=USER)
        pair.b.run_on_head("qalter", "-l", "h_rt=00:10:00", there, user=USER)
    finally:
        pair.b.run_on_head("qmod", "-e", "all.q")
    see(pair.a, job, "r", "hr")
    see(pair.b, there, "r", "hr")
    see_in_view(pair.a, job, id=there, being="running", over=False)
    outside(pair.b, f"{RUNS}/go").touch()
    see(pair.a, job, "gone")
    found = see_in_view(pair.a, job, id=there, end="status 5", user=USER, over=True)
    pair.a.await_that(lambda: pair.a.ended_of(job), "the accounting has the job", WAIT_S_MAX, load.facts)
    (home,), (away,) = pair.a.ended_of(job), pair.b.ended_of(there)
    assert (home["exit_status"].split()[0], away["exit_status"].split()[0]) == ("5", "5")
    assert found["host"] == away["hostname"]
    assert found["cpu_s"] == pytest.approx(float(away["cpu"].rstrip("s")), abs=0.01)
    assert found["wall_s"] == pytest.approx(float(away["ru_wallclock"].rstrip("s")), abs=1.0)
    assert found["cpu_s"] > 0
    assert found["memory_bytes"] is not None
    assert "of processor time" in pair.a.do("jobs", job)


def see_in_view(tree: TreeLab, number: str, /, **wanted: object) -> dict[str, Any]:
    """`subord transfer jobs JOB`: its one job, as soon as it is so."""
    seen: list[dict[str, Any]] = []

    def is_so() -> bool:
        said = tree.subord("transfer", "jobs", number, "--json").stdout
        seen[:] = json.loads(said)["jobs"] if said else []  # a busy daemon may be silent for once
        return len(seen) == 1 and wanted.items() <= seen[0].items()

    tree.await_that(is_so, f"the view has {number} as {wanted}", WAIT_S_MAX, lambda: f"{seen} {tree.facts()}")
    return seen[0]


def test_a_bad_request_goes_home_for_good(pair: Pair) -> None:
    """It asks for what only its own cell has."""
    tree, load = pair.b, Load(pair, "bad")
    complexes = tree.run_on_head("qconf", "-sc")
    file = f"{gridengine.TOP}/complexes"
    given = f"{complexes}local_licence loclic INT <= YES NO 0 0\n"
    tree.run_on_head("sh", "-c", f"cat >{file}; qconf -Mc {file}", given=given)
    for queue in ("all.q", QUEUE):
        tree.run_on_head("qconf", "-aattr", "queue", "complex_values", "local_licence=9", queue)
    tree.run_on_head("qmod", "-d", "all.q")
    job = load.submit(tree, 3, 0.1, "-l", "local_licence=1", "-q", f"{QUEUE},all.q")

    def is_kept() -> bool:
        return "remote=FALSE" in tree.run_on_head("qstat", "-j", job.id)

    tree.await_that(is_kept, "the job is marked", WAIT_S_MAX, load.facts)
    tree.run_on_head("qmod", "-e", "all.q")
    load.await_ended(WAIT_S_MAX)
    assert load.faults() == []
    assert load.starts(job) == [tree.name]


# -- files --------------------------------------------------------------------------------------------------------


@contextmanager
def bringing(pair: Pair, **changed: Any) -> Iterator[None]:
    """Jobs bring their files. The trees have no file system in common. What was before comes back."""
    own = {"slots_max": LIMIT, "permit_s": PERMIT_S, "idle_pending_max": 100}
    for each in pair.trees:
        each.run_on_head("mkdir", "-p", "-m", "1777", FILES)
    queues = [{"name": QUEUE, "brings_files": True}]
    before = {each.name: each.agent_log().count(FOLLOWED) for each in pair.trees}
    pair.publish(queues=queues, files_directory=FILES, **own, **changed)
    for each in pair.trees:
        follows = lambda each=each: each.agent_log().count(FOLLOWED) > before[each.name]  # noqa: E731
        each.await_that(follows, "the plan is followed", WAIT_S_MAX, each.facts)
    try:
        yield
    finally:
        pair.publish(**own)


def worked(pair: Pair, name: str, script: str, given: str = "seven") -> tuple[str, Path]:
    """A job of the first tree in a working directory with a file `input`: its number, and the directory."""
    work = f"{HOME}/{name}"
    pair.a.run_on_head("sh", "-c", f"mkdir {work} && cat >{work}/input", user=USER, given=given)
    job = pair.a.submit(script, "-wd", work, "-o", f"{work}/output")
    return job, outside(pair.a, work)


def test_a_job_brings_its_files_and_its_results_come_back(pair: Pair) -> None:
    """With its output. An agent that is killed meanwhile goes on."""
    with bringing(pair):
        script = "echo there: $(cat input); sleep 10; hostname >where; mkdir deep; cp input deep/copy; exit 7"
        job, work = worked(pair, "files", script)
        foreign(pair.b)
        for tree in pair.trees:
            tree.kill_agent()
        see(pair.a, job, "gone")
        pair.a.await_that(lambda: pair.a.ended_of(job), "the accounting has the job", WAIT_S_MAX)
    assert [each["exit_status"].split()[0] for each in pair.a.ended_of(job)] == ["7"]
    assert (work / "output").read_text() == "there: seven\n"
    assert (work / "where").read_text().strip() in pair.b.runs
    assert (work / "deep" / "copy").read_text() == "seven"
    assert (work / "where").stat().st_uid == UID
    assert not outside(pair.b, f"{HOME}/files").exists(), "the trees have no file system in common"


def test_a_job_with_too_many_bytes_stays(pair: Pair) -> None:
    with bringing(pair, files_bytes_max=1000):
        job, _ = worked(pair, "large", "exit 0", given="x" * 2000)

        def is_kept() -> bool:
            return "remote=FALSE" in pair.a.run_on_head("qstat", "-j", job)

        pair.a.await_that(is_kept, "the job is marked", WAIT_S_MAX, pair.a.facts)
        pair.a.run_on_head("qdel", job, user=USER)
        see(pair.a, job, "gone")
    assert "at most 1000 may cross" in pair.a.agent_log()


# -- many jobs ----------------------------------------------------------------------------------------------------


def test_foreign_jobs_stay_within_the_limit_while_both_trees_submit(pair: Pair) -> None:
    load = Load(pair, "limit")
    with load.watched():
        for tree in pair.trees:
            load.burst(tree, 12)
        load.await_ended(WAIT_S_MAX)
    assert load.faults() == []
    assert load.abroad() == len(load.jobs)
    assert all(0 < load.most[tree.name] <= LIMIT for tree in pair.trees), load.most


class Bounds(NamedTuple):
    """`slots_max`, `idle`: of the plan. `slots`: of the tree where the jobs run."""

    slots_max: int
    idle: int
    slots: int


def burst(pair: Pair, count: int, bounds: Bounds, seconds: float) -> None:
    """One that uses all permits. At no moment are more foreign jobs there than `slots_max`, and not more of them wait
    than come while at most `idle` wait."""
    with widened(pair, *bounds):
        load = Load(pair, f"burst{count}")
        with closed(pair.b, "all.q"):
            with closed(pair.a, QUEUE):
                load.burst(pair.a, count, 0.2)  # all of them start there at once
            there: Callable[[], bool] = lambda: load.foreign(pair.b) > bounds.idle  # noqa: E731
            pair.b.await_that(there, "as many wait as may", WAIT_S_MAX, load.facts)
        load.await_ended(seconds)
        load.await_forgotten(WAIT_S_MAX)
        assert load.faults() == []
        most = load.most_foreign(pair.b)
    assert most.all == load.abroad() == count
    assert bounds.idle < most.present <= bounds.slots_max, most
    assert most.waiting <= bounds.idle + 1, most


def test_a_burst_of_a_hundred_jobs_never_exceeds_the_permits(pair: Pair) -> None:
    burst(pair, 100, Bounds(slots_max=50, idle=39, slots=40), WAIT_S_MAX)


@pytest.mark.long
def test_a_burst_of_a_thousand_jobs_never_exceeds_the_permits(pair: Pair) -> None:
    burst(pair, 1000, Bounds(slots_max=20, idle=14, slots=15), 900.0)


# -- faults -------------------------------------------------------------------------------------------------------


def test_agents_that_are_killed_lose_no_job_and_run_none_twice(pair: Pair) -> None:
    load, chance = Load(pair, "agents"), random.Random(31)
    with load.watched():
        for tree in pair.trees:
            load.burst(tree, 12, 2.0)
        for _ in range(6):
            tree = chance.choice(pair.trees)
            tree.await_that(tree.has_agent, "the agent runs", WAIT_S_MAX)
            time.sleep(chance.uniform(0.0, 3.0))  # at any step of a job
            tree.kill_agent()
        load.await_ended(WAIT_S_MAX)
    assert load.faults() == []
    assert all(load.most[tree.name] <= LIMIT for tree in pair.trees), load.most


def test_a_link_that_is_cut_delays_the_ends_alone(pair: Pair) -> None:
    load = Load(pair, "cut")
    for tree in pair.trees:
        load.burst(tree, 8, 3.0)
    pair.a.await_that(lambda: load.abroad() > LIMIT, "jobs are abroad", WAIT_S_MAX, load.facts)
    pair.cut()
    time.sleep(10.0)
    pair.mend()
    load.await_ended(WAIT_S_MAX)
    assert load.faults() == []


@pytest.mark.parametrize("side", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_transfer_host_that_dies_loses_no_job_and_runs_none_twice(pair: Pair, side: int) -> None:
    """With its qmaster. Its starters are gone, and the next ones of its jobs go on with those that are abroad; so do
    those of the tasks of an array."""
    dead, load = pair.trees[side], Load(pair, f"host{side}")
    begun = f"{RUNS}/hosts{side}"
    array = dead.submit(f"echo $SGE_TASK_ID >>{begun}; sleep 10; exit $SGE_TASK_ID", "-t", "2-6:2")
    for tree in pair.trees:
        load.burst(tree, 6, 6.0)
    there = outside(pair.other(dead), begun)
    pair.a.await_that(there.exists, "a task is abroad", WAIT_S_MAX, load.facts)
    are_abroad = lambda: load.abroad() + len(there.read_text().split()) >= LIMIT  # noqa: E731
    pair.a.await_that(are_abroad, "jobs are abroad", WAIT_S_MAX, load.facts)
    dead.kill_head()
    dead.revive_head()

    def ends() -> list[tuple[int, int]]:
        return sorted((run.task, run.status) for run in load.runs(dead) if run.job == array and run.is_end)

    pair.a.await_that(lambda: len(ends()) >= 3, "the tasks end", 2 * WAIT_S_MAX, load.facts)
    load.await_ended(2 * WAIT_S_MAX)
    assert load.faults() == []
    assert ends() == [(2, 2), (4, 4), (6, 6)]
    assert sorted(there.read_text().split()) == ["2", "4", "6"]
    assert not outside(dead, begun).exists(), "no task has run at home"


@pytest.mark.parametrize("side", [0, 1])
def test_a_root_that_dies_loses_no_job_and_runs_none_twice(pair: Pair, side: int) -> None:
    """Another node becomes the root, and the transfer host goes on."""
    tree, load = pair.trees[side], Load(pair, f"root{side}")
    for each in pair.trees:
        load.burst(each, 6, 4.0)
    pair.a.await_that(lambda: load.abroad() >= LIMIT, "jobs are abroad", WAIT_S_MAX, load.facts)
    tree.kill_root()
    try:
        load.await_ended(WAIT_S_MAX)
    finally:
        tree.revive_root()
    assert load.faults() == []
    assert load.abroad() == len(load.jobs)


@pytest.mark.long
@pytest.mark.parametrize("side", [0, 1])
def test_a_qmaster_that_dies_loses_no_job_and_runs_none_twice(pair: Pair, side: int) -> None:
    tree, load = pair.trees[side], Load(pair, f"qmaster{side}")
    for each in pair.trees:
        load.burst(each, 6, 4.0)
    pair.a.await_that(lambda: load.abroad() >= LIMIT, "jobs are abroad", WAIT_S_MAX, load.facts)
    told = tree.agent_log().count(SILENT)
    tree.kill_master()
    tree.await_that(lambda: tree.agent_log().count(SILENT) > told, "the agent sees it", WAIT_S_MAX, load.facts)
    tree.start_master()
    load.await_ended(WAIT_S_MAX)
    assert load.faults() == []
    assert load.abroad() == len(load.jobs)


@pytest.mark.long
def test_a_link_that_is_cut_for_ten_minutes_in_a_burst_of_two_hundred_jobs(pair: Pair) -> None:
    """All of them are abroad then, and end while it is cut."""
    with widened(pair, 200, 1000, 20):
        load = Load(pair, "long")
        with closed(pair.b, "all.q"):
            load.burst(pair.a, 200, 40.0)
            pair.b.await_that(lambda: load.foreign(pair.b) == 200, "all jobs are abroad", WAIT_S_MAX, load.facts)
            pair.cut()
        time.sleep(600.0)
        assert len(load.left()) == 200, "no end has come home"
        pair.mend()
        load.await_ended(900.0)
        assert load.faults() == []
    assert load.abroad() == 200


def test_the_agent_of_another_node_has_no_part(pair: Pair) -> None:
    assert not any((pair.a.lab.directory.node(each) / "agent" / "transfer" / "jobs.db").exists() for each in (1, 3))
    assert (pair.a.lab.directory.node(HEAD) / "agent" / "transfer" / "jobs.db").exists()
