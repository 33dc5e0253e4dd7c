"""A cluster that grows and shrinks with the queue of a real Grid Engine: a short queue gets its node, and what dies
meanwhile leaves nothing half done."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from netlab.elastic import growing
from netlab.elastic.cluster import PREFIX, ElasticLab
from netlab.elastic.growing import sleeper
from netlab.elastic.hosted import HEAD, NAMES, ROOT

from subord.services.elastic.stages import ADDING, REMOVING, Stage

from .lab_helpers import need_gridengine

pytestmark = [pytest.mark.lab(few=True), pytest.mark.slow]

RATE = 120.0
"""An hour in half a minute."""
QUICK = ("-i", "60", "-w", "0", "--idle", "1", "-a", "4")
SLOTS = 4
GIVEN_UP_S = 40.0
NODES_OF_A_TEST = 4
"""That can be had: each has an address that none had before, as its key would be refused otherwise."""
SETTLE_S = 240.0
LONG_S = 600.0
"""Of jobs that are there until they are deleted. After some nodes in a row that could not be added, the next one is
begun half a minute later; jobs that end meanwhile would need none."""


@pytest.fixture(scope="module")
def quick_lab(request: pytest.FixtureRequest) -> Iterator[ElasticLab]:
    """Nodes of SLOTS, which are added at once, and removed when they are idle; as many as the tests of a run need."""
    need_gridengine()
    tests = sum("quick_lab" in getattr(each, "fixturenames", ()) for each in request.session.items)
    fresh = NODES_OF_A_TEST * tests
    with ElasticLab(2 + fresh, rate=RATE, slots=SLOTS, elastic={"wait_s": GIVEN_UP_S * RATE}) as cluster:
        cluster.publish("-m", "6", *QUICK)
        yield cluster


def settle(cluster: ElasticLab) -> None:
    """Until no job and no added node is left."""

    def is_settled() -> bool:
        return not cluster.engine.lines() and growing.is_at_rest(cluster)

    cluster.await_that(is_settled, "the cluster settles", SETTLE_S, lambda: growing.facts(cluster))
    assert growing.faults(cluster) == []


def test_a_short_queue_gets_its_node(quick_lab: ElasticLab) -> None:
    """One slot is less than one of SLOTS that a node has."""
    before = len(quick_lab.bill())
    jobs = [quick_lab.submit(sleeper(LONG_S)) for _ in range(SLOTS)]
    last = quick_lab.submit(sleeper(1.0))
    quick_lab.await_that(lambda: quick_lab.ended_of(last), "the last job ends", 120.0)
    (told,) = quick_lab.ended_of(last)
    assert told["hostname"].startswith(PREFIX)
    assert len(quick_lab.bill()) - before == 1
    assert not any(map(quick_lab.ended_of, jobs))
    quick_lab.engine.delete(*jobs)
    settle(quick_lab)


def kill_newcomer(cluster: ElasticLab, name: str) -> None:
    if name in cluster.supplied():
        cluster.ask("fail", name=name)


def kill_agent(cluster: ElasticLab, _name: str) -> None:
    cluster.kill_agent(HEAD)


def kill_daemon(cluster: ElasticLab, _name: str) -> None:
    cluster.lab.kill(HEAD)
    cluster.lab.start_and_wait(HEAD)


def kill_root(cluster: ElasticLab, _name: str) -> None:
    cluster.ask("fail", name=NAMES[ROOT])
    cluster.ask("revive", name=NAMES[ROOT])


def kill_qmaster(cluster: ElasticLab, _name: str) -> None:
    cluster.engine.kill_master()
    cluster.engine.start_master()


def kill_head(cluster: ElasticLab, _name: str) -> None:
    """Its daemon, agent, qmaster and execd."""
    cluster.ask("fail", name=NAMES[HEAD])
    cluster.ask("revive", name=NAMES[HEAD])
    cluster.engine.start_master()
    cluster.engine.start_execd()


STAGES = [*ADDING, *REMOVING]
KILLS = [kill_newcomer, kill_agent, kill_daemon, kill_root, kill_qmaster, kill_head]
SAMPLE = [
    (kill_newcomer, Stage.REGISTERING),
    (kill_newcomer, Stage.DRAINING),
    (kill_agent, Stage.STARTING),
    (kill_root, Stage.NAMING),
    (kill_head, Stage.STOPPING),
]
"""The others only with --all."""


@pytest.mark.parametrize(
    ("kill", "stage"),
    [
        pytest.param(
            kill, stage, marks=[] if (kill, stage) in SAMPLE else pytest.mark.long, id=f"{kill.__name__}-{stage}"
        )
        for kill in KILLS
        for stage in STAGES
    ],
)
def test_a_death_leaves_no_node_half_added_or_half_removed_and_none_is_paid_for_twice(
    quick_lab: ElasticLab, kill: Callable[[ElasticLab, str], None], stage: Stage
) -> None:
    cluster, began = quick_lab, len(quick_lab.bill())
    jobs = [cluster.submit(sleeper(LONG_S)) for _ in range(SLOTS)]
    last = cluster.submit(sleeper(LONG_S if stage in REMOVING else 1.0))

    def end_jobs() -> None:
        cluster.engine.delete(*jobs, *([last] if stage in REMOVING else []))

    def all_run() -> bool:
        return len(cluster.engine.lines("-s", "r")) == len(jobs) + 1

    if stage in REMOVING:  # the node of the last job is idle only when it may not pass the stage any more
        cluster.await_that(all_run, "the last job runs", 120.0, lambda: growing.facts(cluster))
        with cluster.held_at(stage, 120.0, end_jobs) as name:
            kill(cluster, name)
    else:
        with cluster.held_at(stage, 120.0) as name:
            kill(cluster, name)
        end_jobs()
    settle(cluster)
    cluster.await_that(lambda: cluster.ended_of(last), "the last job is accounted", 30.0)
    assert len(cluster.bill()) - began <= 2
