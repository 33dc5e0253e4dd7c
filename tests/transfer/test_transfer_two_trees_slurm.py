"""Two trees with a real Slurm each, which send jobs to each other: real daemons, agents, starters and a link."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.elastic.hosted import HOME, USER
from netlab.transfer import pair as pairs
from netlab.transfer import slurm_trees
from netlab.transfer.loads import outside
from netlab.transfer.pair import Pair
from netlab.transfer.site import obstacle
from netlab.transfer.slurm_trees import PARTITION, SlurmTreeLab
from netlab.transfer.trees import QUEUE

from tests.transfer.tagged import prepare, script, starts

pytestmark = [pytest.mark.lab(few=True), pytest.mark.slow]
WAIT_S_MAX = 180.0
LIMIT = 3
"""Foreign jobs in each tree."""
SLOTS = 2
PERMIT_S = 600
POLLS_MAX = 2
"""Of the agent at home, between what is done with a job there and what happens to it abroad."""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if packages := slurm_trees.missing():
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    if reason := obstacle():
        pytest.skip(reason)
    with pairs.running(slots=SLOTS, kinds=(SlurmTreeLab, SlurmTreeLab)) as both:
        both.publish(slots_max=LIMIT, permit_s=PERMIT_S, idle_pending_max=100)
        for each in both.trees:
            prepare(each)
        yield both


def until(tree: SlurmTreeLab, condition: Callable[[], object], what: str) -> None:
    tree.await_that(condition, what, WAIT_S_MAX, tree.facts)


def trees(pair: Pair) -> tuple[SlurmTreeLab, SlurmTreeLab]:
    assert isinstance(pair.a, SlurmTreeLab)
    assert isinstance(pair.b, SlurmTreeLab)
    return pair.a, pair.b


def foreign(tree: SlurmTreeLab) -> list[str]:
    """The states of foreign jobs that have not ended."""
    over = ("COMPLETED", "FAILED", "CANCELLED")
    jobs = (each for each in tree.jobs() if str(each["comment"]).startswith("sb."))
    return [each["job_state"] for each in jobs if each["job_state"] not in over]


def test_statuses_and_signals_of_a_burst_above_the_permits_come_home(pair: Pair) -> None:
    a, b = trees(pair)
    wanted = {a.submit(script(f"s{each}", f"sleep 1; exit {each}")): each << 8 for each in range(8)}
    wanted[a.submit(script("s8", "exit 99"))] = 99 << 8
    wanted[a.submit(script("s9", "kill -USR1 $$"))] = 10
    most = 0

    def are_over() -> bool:
        nonlocal most
        most = max(most, len(foreign(b)))
        states = a.states()
        return all(states[each] in ("COMPLETED", "FAILED") for each in wanted)

    until(a, are_over, "all have ended")
    assert {each: a.job(each)["exit_code"] for each in wanted} == wanted
    assert [starts(pair, f"s{each}") for each in range(10)] == [["b"]] * 10
    assert 1 <= most <= LIMIT


def test_what_is_done_with_a_job_at_home_reaches_it_abroad(pair: Pair) -> None:
    """Within two polls of the agent at home, which slurmctld counts: nobody else asks it for jobs meanwhile."""
    a, b = trees(pair)
    job = a.submit(script("long", "sleep 1000"))
    until(a, lambda: foreign(b) == ["RUNNING"], "it runs abroad")
    suspend, resume = ("scontrol", "suspend", job), ("scontrol", "resume", job)
    steps = [(suspend, ["SUSPENDED"]), (resume, ["RUNNING"])] * 2 + [(("scancel", job), [])]
    for words, wanted in steps:
        a.on_head(*words, user=USER if words[0] == "scancel" else "root")
        before = a.lists()
        until(a, lambda wanted=wanted: foreign(b) == wanted, f"it is so abroad after {words}")  # type: ignore[misc]
        polls = a.lists() - before
        assert polls <= POLLS_MAX, f"{words} took {polls} polls"
    assert a.states()[job] == "CANCELLED"
    assert starts(pair, "long") == ["b"]


def test_a_job_has_its_words_environment_tasks_and_output(pair: Pair) -> None:
    a, b = trees(pair)
    text = "#!/bin/bash\n#SBATCH --array=3-4%2\n"
    text += f'echo "$SLURM_ARRAY_TASK_ID [$1] [$MINE] $PWD" >>{HOME}/runs/words\n'
    a.run_on_head("sh", "-c", f"cat >{HOME}/job.sh", user=USER, given=text)
    words = [f"--chdir={HOME}", f"--partition={QUEUE}", f"--output={HOME}/out-%a", "--ntasks=2", "--time=10"]
    words += [f"{HOME}/job.sh", "x y"]
    job = a.on_head("env", "MINE=a, b='c'", "sbatch", "--parsable", *words, user=USER).strip()
    until(a, lambda: set(_states(a, job)) == {"COMPLETED"}, "its tasks have ended")
    lines = outside(b, f"{HOME}/runs/words").read_text().splitlines()
    assert sorted(lines) == [f"{task} [x y] [a, b='c'] {HOME}" for task in (3, 4)]
    assert all(outside(b, f"{HOME}/out-{task}").exists() for task in (3, 4))


def _states(tree: SlurmTreeLab, job: str) -> list[str]:
    return [each["job_state"] for each in tree.jobs() if str(each["array_job_id"]) == job]


def test_a_job_that_cannot_run_there_stays_at_home(pair: Pair) -> None:
    """No other cluster can be told of task 0."""
    a, _ = trees(pair)
    job = a.submit(script("home", "exit 5"), "--array=0")
    until(a, lambda: _partitions(a, job) == [PARTITION], "it waits for its own cluster")
    assert starts(pair, "home") == []
    a.on_head("scancel", job)


def _partitions(tree: SlurmTreeLab, job: str) -> list[str]:
    return [each["partition"] for each in tree.jobs() if str(each["array_job_id"]) == job]


def test_a_job_abroad_whose_hold_is_lost_is_held_again(pair: Pair) -> None:
    """As when slurmctld dies before it has written the hold down."""
    a, b = trees(pair)
    job = a.submit(script("loose", "sleep 1000"))
    until(a, lambda: foreign(b) == ["RUNNING"], "it runs abroad")
    assert a.job(job)["priority"] == 0
    a.on_head("scontrol", "release", job)
    until(a, lambda: a.job(job)["priority"] == 0, "it is held again")
    a.on_head("scancel", job, user=USER)
    until(a, lambda: foreign(b) == [], "it is deleted abroad")


@pytest.mark.parametrize("side", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_transfer_host_that_dies_loses_no_job_and_runs_none_twice(pair: Pair, side: int) -> None:
    """With slurmctld, which takes the jobs for running when it is there again: their starters are gone."""
    a, b = trees(pair)
    dead = (a, b)[side]
    tags = [f"host{side}.{number}" for number in range(LIMIT)]
    a.open_partition(is_up=False)
    try:
        rest = "sleep 12; echo ends >>{}; exit {}"
        scripts = [script(tag, rest.format(f"{HOME}/runs/{tag}", number)) for number, tag in enumerate(tags)]
        jobs = [a.submit(each, queue=f"{PARTITION},{QUEUE}") for each in scripts]
        until(a, lambda: foreign(b).count("RUNNING") == SLOTS, "they run abroad")
    finally:
        a.open_partition(is_up=True)
    dead.await_written(WAIT_S_MAX)
    dead.kill_head()
    dead.revive_head()
    until(a, lambda: all(a.states()[each] in ("COMPLETED", "FAILED") for each in jobs), "all have ended")
    assert [a.job(each)["exit_code"] for each in jobs] == [number << 8 for number in range(LIMIT)]
    texts = [outside(each, f"{HOME}/runs/{tag}") for tag in tags for each in (a, b)]
    assert [each.read_text().split() if each.exists() else [] for each in texts] == [[], ["begins", "ends"]] * LIMIT


@pytest.mark.long
def test_an_agent_that_dies_while_jobs_are_abroad(pair: Pair) -> None:
    a, b = trees(pair)
    wanted = {a.submit(script(f"d{each}", f"sleep 15; exit {each}")): each << 8 for each in range(LIMIT)}
    until(a, lambda: foreign(b).count("RUNNING") == SLOTS, "they run abroad")
    for each in (a, b):
        each.kill_agent()
    until(a, lambda: all(a.states()[each] in ("COMPLETED", "FAILED") for each in wanted), "all have ended")
    assert {each: a.job(each)["exit_code"] for each in wanted} == wanted
    assert [starts(pair, f"d{each}") for each in range(LIMIT)] == [["b"]] * LIMIT
