"""`evaluate accounting`: what is drawn, what writers do with lost answers, what is counted, and a small run of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from netlab.accounting import experiment, postgresql, samples
from netlab.accounting.counts import rows_of
from netlab.accounting.deaths import Deaths
from netlab.accounting.schedule import Death, counted, drawn, victim
from netlab.errors import LabError
from netlab.processes.options import Options, config_text
from netlab.processes.rundir import RunDirectory

from subord.runtime.ledger import sinks

from .lab_helpers import refused

Record = dict[str, Any]
WAIT_S = 20.0


# -- which daemons die, and when -------------------------------------------------------------------------------------


def schedule(**other: Any) -> list[Death]:
    about = {"writes_s": 1000.0, "nodes": 100, "percent_per_min": 10.0, "root_kills": 10, "sinks": 2}
    return drawn(random.Random(1), **{**about, "has_server": True, **other})


def test_a_tenth_of_the_nodes_dies_each_minute_and_the_root_ten_times() -> None:
    found = schedule()
    assert counted(found) == {"node": 167, "root": 10, "sink": 4, "sinks": 1, "server": 1}
    assert found == sorted(found)
    assert found[0].at_s >= 0.0
    assert found[-1].at_s < 1000.0
    minutes = Counter(each.at_s // 60 for each in found if each.what == "node")
    assert all(8 <= minutes[number] <= 12 for number in range(16))
    assert [each.sink for each in found if each.what == "sink"] == [0, 1, 0, 1]


def test_all_sinks_are_dead_together_for_a_share_of_the_time() -> None:
    (outage,) = (each for each in schedule(has_server=False) if each.what == "sinks")
    assert (outage.at_s, outage.down_s) == (500.0, 60.0)
    assert counted(schedule(has_server=False))["server"] == 0


def test_churn_takes_neither_the_root_nor_a_sink() -> None:
    chance = random.Random(1)
    assert {victim(chance, range(1, 7), {1, 3}) for _ in range(200)} == {2, 4, 5, 6}
    assert victim(chance, {1, 3}, {1, 3}) is None


class FakeLab:
    """Nodes 1 to 5; `cluster` has the root."""

    positions = (1, 2, 3, 4, 5)

    def __init__(self) -> None:
        self.root: int | None = 1
        self.dead: set[int] = set()
        self.exited: dict[int, float] = {}  # when the last life of a node that is over began
        self.calls: list[tuple[str, int]] = []

    @property
    def cluster(self) -> Any:
        roots = [] if self.root is None else [SimpleNamespace(address=f"10.0.0.{self.root}")]
        nodes = {
            each: SimpleNamespace(address=self.address(each), exited=True, forked_at=at)
            for each, at in self.exited.items()
        }
        return SimpleNamespace(roots=lambda: roots, nodes=nodes)

    def look(self) -> None: ...

    def address(self, position: int) -> str:
        return f"10.0.0.{position}"

    def position(self, address: str) -> int:
        return int(address.rpartition(".")[2])

    def kill(self, position: int) -> None:
        if position in self.dead:
            raise LabError("it is not running")
        self.dead.add(position)
        self.exited[position] = 0.5
        self.calls.append(("kill", position))

    def start(self, position: int) -> None:
        assert position in self.dead
        self.dead.remove(position)
        self.calls.append(("start", position))


def dying(lab: FakeLab, *some: Death, server: Any = None) -> Deaths:
    return Deaths(lab, some, random.Random(1), (3, 5), server)  # type: ignore[arg-type]


def test_what_is_killed_is_started_again() -> None:
    lab = FakeLab()
    found = dying(lab, Death(1.0, "root", 4.0), Death(2.0, "sink", 9.0, 1))
    found.act(0.5)
    assert (lab.calls, found.is_over) == ([], False)
    found.act(1.0)
    found.act(2.1)
    assert (lab.calls, found.down) == ([("kill", 1), ("kill", 5)], {1, 5})
    found.act(5.0)
    found.act(11.1)
    assert (lab.calls[2:], found.down, found.is_over) == ([("start", 1), ("start", 5)], set(), True)
    assert [(each["what"], each["nodes"]) for each in found.done] == [("root", ["10.0.0.1"]), ("sink", ["10.0.0.5"])]
    assert found.kills == {"root": 1, "sink": 1}


def test_a_death_waits_for_its_victim() -> None:
    """The root dies again when there is a root again."""
    lab = FakeLab()
    found = dying(lab, Death(1.0, "root", 9.0), Death(1.2, "root", 9.0))
    found.act(1.0)
    found.act(1.2)
    lab.root = None
    found.act(2.0)
    assert lab.calls == [("kill", 1)]
    lab.root = 2
    found.act(3.0)
    assert lab.calls == [("kill", 1), ("kill", 2)]


def test_an_outage_takes_the_sinks_that_live() -> None:
    lab = FakeLab()
    found = dying(lab, Death(1.0, "sink", 9.0, 0), Death(2.0, "sinks", 9.0))
    found.act(1.0)
    found.act(2.0)
    assert (lab.calls, lab.dead) == ([("kill", 3), ("kill", 5)], {3, 5})
    assert found.done[1]["nodes"] == ["10.0.0.5"]


def test_a_daemon_that_had_ended_by_itself_is_named_and_started() -> None:
    lab = FakeLab()
    lab.dead = {1}
    found = dying(lab, Death(1.0, "root", 1.0))
    found.act(1.0)
    found.act(2.0)
    assert (found.ended, lab.calls) == (["10.0.0.1"], [("start", 1)])


def test_a_daemon_that_ends_by_itself_is_seen_in_the_event_log() -> None:
    """The end of a life before the last start, which the log may still show last, is none."""
    lab = FakeLab()
    found = dying(lab, Death(1.0, "root", 1.0))
    for at_s in (1.0, 2.0, 3.0):
        found.act(at_s)
    assert (found.ended, lab.calls) == ([], [("kill", 1), ("start", 1)])
    lab.dead.add(4)
    lab.exited[4] = 0.5
    found.act(4.0)
    assert (found.ended, found.down, found.is_over) == (["10.0.0.4"], {4}, False)
    found.act(5.0)
    found.act(6.0)
    assert (found.ended, lab.calls[2:]) == (["10.0.0.4"], [("start", 4)])


def test_the_server_stops_and_is_started_again() -> None:
    calls: list[str] = []
    server = SimpleNamespace(stop=lambda: calls.append("stop"), start=lambda: calls.append("start"))
    found = dying(FakeLab(), Death(1.0, "server", 10.0), server=server)
    found.act(1.0)
    assert (calls, found.is_over) == (["stop"], False)
    found.act(11.0)
    assert (calls, found.is_over, found.kills["server"]) == (["stop", "start"], True, 1)


# -- what must not be ------------------------------------------------------------------------------------------------

SAMPLE = {
    "at_s": 1.0,
    "waiting": 5,
    "oldest_s": 1,
    "oldest_live_s": 0,
    "spool_bytes": 9,
    "spool_bytes_most": 6,
    "cpu_percent": 10.0,
}
COUNTED = {"stored": 9, "lost": 0, "double": 0, "given_again": 0, "in_several": 2, "strangers": 0}
DATABASES = {name: {"rows": 5, "records": 5, "twice": 0} for name in ("10.0.0.3", "10.0.0.9")}
KILLS = {"node": 2, "root": 1, "sink": 1, "sinks": 1, "server": 1}
RECORD: Record = {
    "fault": None,
    "nodes": 9,
    "fanout": 2,
    "repeat": 0,
    "records": 9,
    "per_s": 3.0,
    "sinks": [
        {"address": name, "database": "SQLite 3", "place": "home", "subordinates": 2}
        for name in ("10.0.0.3", "10.0.0.9")
    ],
    "files": "tmpfs",
    "wanted": KILLS,
    "kills": KILLS,
    "killed_percent_per_min": 10.0,
    "accepted": 9,
    "writes_s": 3.0,
    "emptied_s": 0.5,
    "requests_again": {},
    "unsure": 0,
    "gave_up": [],
    "ended": [],
    **samples.most([SAMPLE]),
    "counted": {**COUNTED, "databases": DATABASES, "delay_s": {"p50": 0, "p99": 1, "p100": 7}},
    "status": {"asked": 9, "told": 9, "waits_on": 0, "sinks": 2},
    "report": {"records": 9, "unreadable": 0, "missing": 0, "jobs": 9, "took_s": 0.1},
    "dropped": {"ledger_no_way_home": 4},
    "deaths": [],
    "samples": [SAMPLE],
}


@pytest.mark.parametrize(
    ("part", "worse", "words"),
    [
        (None, {"fault": "the lab fell over"}, "the lab fell over"),
        ("counted", {"lost": 2}, "2 records are in no sink"),
        ("counted", {"double": 3}, "3 records are in the sinks more than once"),
        ("counted", {"strangers": 1}, "1 rows are of no record that was given"),
        (None, {"accepted": 8}, "8 of 9 records were accepted"),
        ("report", {"jobs": 8}, "the report counts 8 jobs"),
        ("report", {"unreadable": 1}, "1 records are unreadable"),
        ("report", {"missing": 5}, "the report says that 5 records are missing"),
        ("status", {"waits_on": 2}, "records wait on 2 nodes"),
        ("status", {"told": 8}, "8 of 9 nodes told what waits"),
        ("status", {"sinks": 1}, "1 of 2 sinks store"),
        (None, {"ended": ["10.0.0.4"]}, "ended without being killed: 10.0.0.4"),
        (None, {"gave_up": ["only root"]}, "a writer gave up: only root"),
        ("kills", {"root": 0}, "0 of 1 deaths of `root`"),
        ("kills", {"node": 1}, "1 of 2 deaths of `node`"),
    ],
)
def test_what_must_not_be(part: str | None, worse: Record, words: str) -> None:
    record = {**RECORD, **(worse if part is None else {part: {**RECORD[part], **worse}})}
    assert experiment.faults_of(record) == [words]
    assert not experiment.is_whole(record)
    assert experiment.table([record]).endswith(f"did not hold: {words}")


def test_records_that_were_given_again_are_told_and_no_fault() -> None:
    record = {**RECORD, "unsure": 50, "counted": {**RECORD["counted"], "given_again": 3}}
    assert experiment.is_whole(record)
    shown = experiment.table([record])
    assert shown.endswith("held")
    assert "given again after a lost answer; stored twice  50; 3" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", 5), "An evaluation of accounting takes 6 nodes or more"),
        (("--records", 9000), "The records are written within 9 s, too short to kill the root 10 times"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[Any, ...], said: str) -> None:
    result = refused("evaluate", "accounting", *words)
    assert result.returncode == 1
    assert said in result.stderr


def test_a_sink_has_the_database_that_it_is_given() -> None:
    url = "postgresql://subord@/postgres?host=/nowhere"
    addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    options = Options(name="x", addresses=addresses, sinks=addresses[1:], sink_urls={"10.0.0.3": url})
    texts = [config_text(options, each, Path("/files"), RunDirectory(Path("/lab"))) for each in addresses]
    assert ["[ledger]" in each for each in texts] == [False, True, True]
    assert 'sink = "/files/records.sqlite"' in texts[1]
    assert f'sink = "{url}"' in texts[2]


# -- real ones -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_of_postgresql_recovers_what_it_has_stored() -> None:
    if absent := postgresql.missing():
        pytest.skip(absent)
    with postgresql.Server() as server:
        assert server.version.startswith("PostgreSQL ")
        assert samples.held_by(server.url) is None, "there is no table yet"
        sink = sinks.open_sink(server.url)
        sink.store([sinks.Row("a", 1, 1, "job", b"?")])
        sink.close()
        server.stop()
        assert samples.held_by(server.url) is None
        server.start()
        found = samples.held_by(server.url)
        assert found is not None
        assert found.rows == 1
        assert found.octets > 0
        assert [(each.name, each.number) for each in rows_of(server.url, 5)] == [(("a", 1, 1), None)]


@pytest.mark.lab(few=True)
def test_a_small_run_holds(tmp_path: Path) -> None:
    plan = experiment.Plan(nodes=(9,), fanout=2, records=3000, per_s=100.0, root_kills=2, percent_per_min=40.0)
    (run,) = plan.runs()
    found = json.loads(json.dumps({"fault": None, **run.about, **run.measure()}))
    assert experiment.faults_of(found) == found["faults"] == []
    assert found["kills"]["root"] == 2
    assert found["sinks"][0]["subordinates"] > 0, "an interior node"
    assert found["counted"]["stored"] == found["samples"][-1]["accepted"] == 3000
    assert found["samples"][-1]["waiting"] == 0
    assert found["spool_bytes_most"] > 0
    assert experiment.table([found]).endswith("held")
