"""A cluster that grows and shrinks with the queue of a real Grid Engine: real daemons, agents and execds on hosts of
their own (netns-lab/netlab/elastic)."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from netlab.elastic import files, gridengine, growing
from netlab.elastic.cluster import PREFIX, ElasticLab
from netlab.elastic.growing import Run, sleeper
from netlab.elastic.hosted import HEAD, NAMES, ROOT, USER
from netlab.errors import LabError

from subord.services.batch.records import Done, Host, NewHost
from subord.services.elastic import PLOTS
from subord.services.elastic.statistics import read

from .lab_helpers import REPOSITORY, need_gridengine

pytestmark = [pytest.mark.lab(few=True), pytest.mark.slow]

NODES = 8
WAIT_S_MAX = 60.0


# -- the lab itself: nothing manages the cluster ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare() -> Iterator[ElasticLab]:
    need_gridengine()
    with ElasticLab(NODES) as cluster:
        yield cluster
    assert not cluster.path.exists()


def hosts(cluster: ElasticLab) -> dict[str, Host]:
    found = trio.run(cluster.adapter().hosts)
    assert isinstance(found, tuple)
    return {each.name: each for each in found}


def supply(cluster: ElasticLab, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the configuration."""
    call = [str(cluster.path / files.COMMAND), str(cluster.path / files.SOCKET), *words]
    return subprocess.run(call, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)


def stop(cluster: ElasticLab, name: str) -> None:
    assert supply(cluster, "stop", name).returncode == 0


def is_placed(cluster: ElasticLab, position: int) -> bool:
    return cluster.lab.places().get(position, (None, None))[0] is not None


def test_a_node_of_the_supplier_has_a_daemon_an_agent_and_a_host_of_its_own(bare: ElasticLab) -> None:
    said = supply(bare, "start", "node001", "small")
    assert (said.returncode, said.stdout) == (0, f"{bare.lab.address(3)}\n")
    assert bare.run("node001", "hostname") == "node001\n"
    bare.await_that(lambda: is_placed(bare, 3), "the daemon has a place", WAIT_S_MAX)
    assert bare.run("node001", "cat", "/etc/hosts") == "127.0.0.1 localhost\n"
    with pytest.raises(LabError, match="no such user"):
        bare.run("node001", "id", USER)
    names = (*NAMES.values(), "node001")

    def all_run_it() -> bool:
        done = bare.subord("exec", "--all", "--", "hostname")
        return done.returncode == 0 and all(name in done.stdout for name in names)

    bare.await_that(all_run_it, "the root knows all nodes, and all run a command", WAIT_S_MAX)
    stop(bare, "node001")


def test_a_name_has_one_node_however_often_it_is_started_and_the_bill_shows_it(bare: ElasticLab) -> None:
    first = supply(bare, "start", "node002", "small").stdout
    assert supply(bare, "start", "node002", "small").stdout == first
    assert supply(bare, "list").stdout == f"node002 {first}"
    stop(bare, "node002")
    stop(bare, "node002")
    assert supply(bare, "list").stdout == ""
    (bought,) = [each for each in bare.bill() if each.name == "node002"]
    assert bought.ended_at is not None
    assert bought.ended_at > bought.began_at


def test_a_node_that_is_stopped_leaves_no_process(bare: ElasticLab) -> None:
    supply(bare, "start", "node003", "small")
    bare.run("node003", "sh", "-c", "setsid sleep 1234567 >/dev/null 2>&1 &")
    stop(bare, "node003")
    assert "1234567" not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


def test_a_node_that_fails_is_paid_for_until_it_is_stopped(bare: ElasticLab) -> None:
    address = supply(bare, "start", "node004", "small").stdout.strip()
    bare.ask("fail", name="node004")
    assert bare.supplied() == {"node004": address}
    assert supply(bare, "start", "node004", "small").stdout.strip() == address
    bare.ask("revive", name="node004")
    assert bare.run("node004", "hostname") == "node004\n"
    stop(bare, "node004")


def test_a_supplier_may_have_no_node(bare: ElasticLab) -> None:
    bare.ask("refuse", times=1)
    said = supply(bare, "start", "node005", "small")
    assert (said.returncode, said.stderr) == (1, "no node can be had just now\n")
    assert bare.supplied() == {}


def test_jobs_run_on_an_added_host_until_it_is_removed(bare: ElasticLab) -> None:
    address = supply(bare, "start", "node006", "small").stdout.strip()
    table = f"{address} node006\n{bare.lab.address(HEAD)} {NAMES[HEAD]}\n"
    for name in (NAMES[HEAD], "node006"):
        bare.run(name, "sh", "-c", "cat >>/etc/hosts", given=table)
    bare.run("node006", "sh", "-c", f"groupadd -g 6100 chemists && useradd -u 6001 -g 6100 -M -d / {USER}")
    added = trio.run(bare.adapter().add, NewHost("node006", 1))
    assert added == Done(is_changed=True)
    bare.run("node006", gridengine.EXECD)
    bare.run("node006", gridengine.EXECD)
    bare.engine.await_that(lambda: hosts(bare)["node006"].is_usable, "the queue uses the host", WAIT_S_MAX)
    jobs = {bare.submit(sleeper(1.0)) for _ in range(2)}
    bare.engine.await_that(lambda: len(bare.engine.ended()) == 2, "the jobs end", WAIT_S_MAX)
    told = [(each["hostname"], each["exit_status"], each["failed"]) for each in bare.engine.ended()]
    assert sorted(told) == [(NAMES[HEAD], "0", "0"), ("node006", "0", "0")]
    assert {each["jobnumber"] for each in bare.engine.ended()} == jobs
    assert trio.run(bare.adapter().remove, "node006") == Done(is_changed=True)
    stop(bare, "node006")
    assert bare.engine.hosts() == [NAMES[HEAD]]


def test_the_qmaster_and_its_node_come_back(bare: ElasticLab) -> None:
    bare.engine.kill_master()
    assert not bare.engine.answers()
    bare.ask("fail", name=NAMES[HEAD])
    bare.ask("revive", name=NAMES[HEAD])
    bare.engine.start_master()
    assert bare.engine.hosts() == [NAMES[HEAD]]
    bare.engine.start_execd()
    bare.await_that(lambda: is_placed(bare, HEAD), "the daemon has a place", WAIT_S_MAX)
    assert bare.lab.places()[HEAD] == ("home", ROOT)


# -- the run of the text ---------------------------------------------------------------------------------------------

RATE = 120.0
"""An hour in half a minute."""
WAIT_TO_ADD_S = 60.0
"""Until a node that does not come is given up, by the clock of the machine."""
LARGEST, AT_ONCE, TAKES_S = 20, 2, 12.0


@pytest.fixture(scope="module")
def growing_lab() -> Iterator[ElasticLab]:
    need_gridengine()
    with ElasticLab(2 + LARGEST + 4, rate=RATE, elastic={"wait_s": WAIT_TO_ADD_S * RATE}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def run(growing_lab: ElasticLab) -> Run:
    """The text's `-m 20 -a 2`, with its defaults."""
    growing_lab.publish("-m", f"{LARGEST}", "-a", f"{AT_ONCE}")
    feed = growing.until_largest(3 * LARGEST, LARGEST - 1, TAKES_S)
    return growing.run(growing_lab, feed, 600.0)


def test_the_cluster_grows_to_twenty_nodes_by_two_a_poll_and_shrinks_to_its_master(
    growing_lab: ElasticLab, run: Run
) -> None:
    assert run.most == LARGEST - 1
    assert growing.faults(growing_lab) == []
    assert growing_lab.supplied() == {}
    assert growing_lab.engine.hosts() == [NAMES[HEAD]]
    assert len(run.bill) == LARGEST - 1
    assert run.polled.keys() == {each.name for each in run.bill}
    assert run.most_at_once == AT_ONCE


def test_each_job_runs_once_and_to_its_end(run: Run) -> None:
    assert Counter(each["jobnumber"] for each in run.ended) == Counter(run.jobs)
    assert run.killed == []


def test_no_node_ends_before_minute_45_of_its_hour(run: Run) -> None:
    minutes = [(each.ended_at - each.began_at) * RATE / 60 for each in run.bill if each.ended_at is not None]
    assert len(minutes) == LARGEST - 1
    assert min(minutes) >= 45


def test_the_polls_are_a_csv_file_and_six_pictures(growing_lab: ElasticLab, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file, folder = tmp_path / "stats.csv", tmp_path / "pictures"
    growing_lab.await_that(lambda: growing_lab.polls()[-1].num_hosts == 1, "a poll has seen the end", WAIT_S_MAX)
    done = growing_lab.subord("elastic", "statistics", "-D", str(file), "-P", str(folder))
    assert done.returncode == 0, done.stderr
    rows = read(file.read_text())
    assert max(each.num_hosts for each in rows) == max(each.slots for each in rows) == LARGEST
    assert (rows[0].num_hosts, rows[-1].num_hosts, rows[-1].queued, rows[-1].running) == (1, 1, 0, 0)
    assert max(each.running for each in rows) == LARGEST
    assert rows[-1].avg_duration == pytest.approx(TAKES_S * RATE, rel=0.2)
    assert {each.name for each in folder.glob("*.png")} == {f"{name}.png" for name in PLOTS}


def test_the_names_of_removed_nodes_are_in_no_hosts_file(growing_lab: ElasticLab, run: Run) -> None:
    for name in NAMES.values():
        assert PREFIX not in growing_lab.run(name, "cat", "/etc/hosts")


# -- scale-ins under load --------------------------------------------------------------------------------------------

LOADED_RATE = 300.0
ENDS_S_MAX = 240.0


@pytest.mark.parametrize("times", [pytest.param(6), pytest.param(100, marks=pytest.mark.long)])
def test_no_job_is_killed_by_scale_ins_under_load(times: int) -> None:
    need_gridengine()
    chance = random.Random(times)
    with ElasticLab(20 + times, rate=LOADED_RATE, elastic={"wait_s": WAIT_TO_ADD_S * LOADED_RATE}) as cluster:
        cluster.publish("-m", "7", "-a", "3", "-w", "0", "--idle", "1", "-i", "150")
        jobs = []
        until = time.monotonic() + 60.0 + 30.0 * times
        while cluster.counters()["removed"] < times:
            assert time.monotonic() < until, growing.facts(cluster)
            jobs += [cluster.submit(sleeper(chance.uniform(0.1, 4.0))) for _ in range(chance.randrange(6))]
            time.sleep(chance.uniform(0.0, 6.0))
        cluster.await_that(lambda: not cluster.engine.lines(), "all jobs end", ENDS_S_MAX)
        cluster.await_that(lambda: all(map(cluster.ended_of, jobs)), "all jobs are accounted", ENDS_S_MAX)
        told = [each for job in jobs for each in cluster.ended_of(job)]
        assert growing.killed(told) == []
        assert len(told) == len(jobs)
        assert any(each["hostname"].startswith(PREFIX) for each in told)


# -- the play --------------------------------------------------------------------------------------------------------


def test_the_play_of_the_documents_ends_as_it_began() -> None:
    need_gridengine()
    words = [str(REPOSITORY / "netns-lab" / "lab"), "elastic", "--nodes", "2", "--jobs", "6", "--seconds", "10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"minute +\d+  1 node is added: the oldest job has waited \d+ s, and ", done.stdout)
    assert re.search(r"minute +\d+  node001 serving\n", done.stdout)
    assert re.search(r"minute +\d+  1 node is removed: no job waits, and node001 is idle\n", done.stdout)
    assert done.stdout.endswith("All jobs have ended; 1 node was added and removed. All of it is gone again.\n")
    assert "netns-lab/lab elastic\n" in (REPOSITORY / "docs" / "elastic.md").read_text(encoding="utf-8")
