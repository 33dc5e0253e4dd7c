"""`evaluate metrics`: what it makes of figures, of looks after a death, and of Ganglia's answers; and a small lab."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from netlab.errors import LabError
from netlab.experiments.figures import Reading
from netlab.peers import ganglia
from netlab.processes.options import Options, config_text
from netlab.processes.rundir import RunDirectory
from netlab.services import metrics_experiment, metrics_parts, plans
from netlab.services.metrics_values import (
    EVEN,
    UNEVEN,
    Seen,
    differences,
    expected,
    of_death,
    of_machine,
    read_machine,
    text_of,
    uneven,
    whole_since,
)

from subord.core.carriage.reports.records import fold
from subord.services.metrics.record import figures, record_of
from subord.services.metrics.texts import samples_of
from subord.services.metrics.wanted import USUAL, chosen

from .lab_helpers import refused

pytestmark = pytest.mark.lab(few=True)

NODES = 40
MACHINE = {"node_cpus": 2.0}
Record = dict[str, Any]


def folded(positions: Sequence[int], turn: int = 0) -> Record:
    """The document of nodes that have read their text files, as the daemons make it."""
    records = []
    for each in positions:
        told, left_out = chosen({**samples_of(text_of(each, turn), lambda _: True), **MACHINE}, USUAL)
        assert left_out == 0
        records.append(record_of(told, each))
    metrics = figures(fold(records), lambda position: f"10.0.0.{position}")
    missing: list[Record] = []
    found = {"told": len(positions), "asked": NODES, "missing": missing, "oldest_ms": 9000.0}
    text: Record = json.loads(json.dumps({**found, "metrics": [plain(each) for each in metrics]}))
    return text


def plain(metric: Any) -> Record:
    return {each: getattr(metric, each) for each in ("name", "count", "sum", "min", "max", "quantiles")}


# -- known values ----------------------------------------------------------------------------------------------------


def test_the_text_of_a_node_is_carried_without_a_plan_and_folded_exactly() -> None:
    positions = range(1, NODES + 1)
    assert differences(folded(positions, 3), expected(positions, 3, MACHINE)) == []
    assert len({uneven(each, 3) for each in range(1, 5001)}) == 5000


def test_what_a_fold_says_otherwise_is_named() -> None:
    positions = range(1, NODES + 1)
    wanted = expected(positions, 0, MACHINE)
    twice = differences(folded([*positions, 7]), wanted)
    assert f"{EVEN}: count is 41, not 40" in twice
    assert any(each.startswith(f"{UNEVEN}: sum is ") for each in twice)
    assert f"{EVEN}: count is 39, not 40" in differences(folded(positions[1:]), wanted)
    assert any(each.startswith(f"{UNEVEN}: sum is ") for each in differences(folded(positions, 1), wanted))
    document = folded(positions)
    document["metrics"] = [each for each in document["metrics"] if each["name"] != EVEN]
    assert differences(document, wanted) == [f"{EVEN} is missing"]
    (uneven_one,) = [each for each in document["metrics"] if each["name"] == UNEVEN]
    uneven_one["quantiles"]["0.5"] *= 1.03
    (said,) = differences(document, {UNEVEN: wanted[UNEVEN]})
    assert "a quantile is wrong by" in said


def test_the_machine_is_read_directly() -> None:
    found = of_machine("MemTotal:  1024 kB\nMemFree: 5 kB\n", "cpu  1 2\ncpu0 1 2\ncpu1 1 2\nintr 5\n")
    assert found == {"node_memory_MemTotal_bytes": 1024.0 * 1024, "node_cpus": 2.0}


def test_a_lab_without_metrics_and_one_with_text_files(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    about: Record = {"name": "x", "addresses": ("10.0.0.1",)}

    def text(**more: bool) -> str:
        return config_text(Options(**about, **more), "10.0.0.1", directory.node(1), directory)

    assert "[metrics]" not in text()
    assert text(publish=False).endswith("[metrics]\npublish = false\n")
    assert text(texts=True).endswith(f'[metrics]\ntext_directory = "{directory.node(1) / "metrics"}"\n')


# -- deaths ----------------------------------------------------------------------------------------------------------

GONE = "10.0.0.2"


def seen(at_s: float, told: int, counted: int | None = None, asked: int = 10, missing: tuple[str, ...] = ()) -> Seen:
    return Seen(at_s, told, asked, told if counted is None else counted, missing)


def test_figures_are_whole_when_all_that_live_are_in_them_and_stay() -> None:
    looks = [
        seen(0.1, 10),  # the death is not known yet
        seen(0.6, 7, missing=(GONE, "10.0.0.5")),
        seen(1.0, 9, missing=(GONE, "10.0.0.5")),  # a node counts at its former leader
        seen(1.5, 9, counted=10, missing=(GONE,)),
        seen(2.0, 9, missing=(GONE,)),
        seen(2.5, 9, asked=9),
    ]
    assert whole_since(looks, 9, (GONE,)) == 2.0
    assert whole_since([*looks, seen(3.0, 8)], 9, (GONE,)) is None
    assert whole_since([*looks, seen(3.0, 8), seen(3.5, 9)], 9, (GONE,)) == 3.5
    assert of_death(looks, 10, GONE) == {
        "whole_s": 2.0,
        "over_s": 0.1,
        "counted_over_s": 1.5,
        "double": 0,
        "told_least": 7,
        "looks": 6,
    }


def test_a_node_that_counts_twice_is_found() -> None:
    assert of_death([seen(1.0, 10, counted=11)], 10, GONE)["double"] == 1
    assert of_death([seen(1.0, 9, asked=8)], 10, GONE)["double"] == 1
    assert of_death([], 10, GONE)["whole_s"] is None


def test_a_look_is_taken_from_the_document() -> None:
    document = {**folded([1, 3]), "missing": [{"addresses": [GONE]}]}
    assert Seen.of(1.5, document) == Seen(1.5, 2, NODES, 2, (GONE,))
    assert Seen.of(1.5, {**document, "metrics": []}).counted == 0


class FakeLab:
    """Nodes whose text files are folded at once. A dead node is known to be dead after the next two looks."""

    def __init__(self, directory: Path, nodes: int = 7) -> None:
        self.positions = list(range(1, nodes + 1))
        self.directory = RunDirectory(directory)
        self.gone: set[int] = set()
        self.counted = set(self.positions)
        self.late = 0
        self.stable = 0
        for each in self.positions:
            self.directory.node(each).mkdir(parents=True)

    def progress(self, _what: str) -> None:
        """There is no terminal."""

    def address(self, position: int) -> str:
        return f"10.0.0.{position}"

    def position(self, address: str) -> int:
        return int(address.rpartition(".")[2])

    def look(self) -> Any:
        below = {"10.0.0.1": ["10.0.0.2", "10.0.0.3"], "10.0.0.2": ["10.0.0.4", "10.0.0.5"]}
        root = SimpleNamespace(address="10.0.0.1")
        return SimpleNamespace(roots=lambda: [root], subordinates=lambda: below)

    def kill(self, position: int) -> None:
        self.gone.add(position)
        self.late = 2

    def start_and_wait(self, position: int) -> None:
        self.gone.discard(position)

    def wait_stable(self, *_: float) -> None:
        self.stable += 1

    def document(self, _position: int, path: str) -> Record:
        assert path == "/v1/metrics?budget=2.000"
        self.late -= 1
        if self.late == 0:
            raise LabError("no root")
        if self.late < 0:
            self.counted = set(self.positions) - self.gone
        texts = [(self.directory.node(each) / "metrics" / "known.prom").read_text() for each in sorted(self.counted)]
        records = [
            record_of({**samples_of(text, lambda _: True), **read_machine()}, each)
            for each, text in zip(sorted(self.counted), texts, strict=True)
        ]
        found = {"told": len(records), "asked": len(self.positions), "oldest_ms": 9000.0, "missing": []}
        return {**found, "metrics": [plain(each) for each in figures(fold(records), lambda _: "10.0.0.1")]}


def test_values_changes_and_deaths_of_figures_that_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LOOK_S", 0.001), ("HELD_S", 0.01), ("AGE_LOOK_S", 0.001)):
        monkeypatch.setattr(metrics_parts, name, seconds)
    lab = FakeLab(tmp_path)
    shown = metrics_parts.Figures(lab)  # type: ignore[arg-type]
    shown.write(0)
    assert shown.is_right()
    found = {**metrics_parts.ages(shown, 0.01), **metrics_parts.values(shown)}
    assert (found["told_least"], found["wrong"], found["quantile_error_percent"]) == (7, [], 0)
    found |= metrics_parts.changes(lab, shown, 2) | metrics_parts.deaths(lab, shown, 1)  # type: ignore[arg-type]
    (turn,) = found["turns"]
    assert (turn["victim"], turn["subordinates"], turn["wrong"], turn["unanswered"]) == ("10.0.0.2", 2, [], 1)
    assert (turn["told_least"], turn["double"]) == (6, 0)
    assert 0 < turn["over_s"] < turn["whole_s"]
    assert metrics_experiment.faults_of({**RIGHT, **found, "nodes": 7}) == []
    assert lab.stable == 1


def test_values_that_are_wrong_are_told(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    shown = metrics_parts.Figures(lab)  # type: ignore[arg-type]
    shown.write(1)
    (tmp_path / "nodes" / "3" / "metrics" / "known.prom").write_text(text_of(3, 0))
    (wrong,) = {each.split(" is ")[0] for each in metrics_parts.values(shown)["wrong"] if ": sum" in each}
    assert wrong == f"{UNEVEN}: sum"
    assert not shown.is_right()


# -- judging ---------------------------------------------------------------------------------------------------------

TURN = {"victim": GONE, "whole_s": 1.5, "over_s": 0.5, "counted_over_s": 0.5, "double": 0, "wrong": []}
ABOUT: Record = {"nodes": 10, "fanout": 8, "system": "subord", "repeat": 0, "fault": None, "absent": {}}
RIGHT = ABOUT | {"told_least": 10, "age_s": [9.0, 11.0], "changed_s": [12.0], "wrong": [], "turns": [TURN]}


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ({"told_least": 9}, "9 of 10 nodes were in the figures at rest"),
        ({"age_s": [9.0, 20.5]}, "a figure was 20.5 s old"),
        ({"changed_s": [12.0, None]}, "a change was not seen within 60 s"),
        ({"wrong": ["node_cpus is missing"]}, "node_cpus is missing"),
        ({"turns": [{**TURN, "whole_s": None}]}, f"{GONE} killed: the figures were not whole within 90 s"),
        ({"turns": [{**TURN, "double": 1}]}, f"{GONE} killed: 1 nodes were counted twice"),
        ({"turns": [{**TURN, "over_s": 36.0}]}, f"{GONE} killed: more nodes than live had told for 36.0 s"),
        ({"turns": [{**TURN, "counted_over_s": 36.0}]}, "more nodes than live were in the sum for 36.0 s"),
        ({"turns": [{**TURN, "wrong": ["x: sum is 1, not 2"]}]}, f"{GONE} killed: x: sum is 1, not 2"),
        ({"fault": "no tree"}, "no tree"),
    ],
)
def test_figures_that_did_not_hold_say_why(worse: Record, words: str) -> None:
    assert metrics_experiment.is_whole(RIGHT)
    (found,) = metrics_experiment.faults_of({**RIGHT, **worse})
    assert words in found
    assert f"10 nodes, subord, run 1: {found}" in metrics_experiment.table([{**RIGHT, **worse}]).splitlines()


def test_peers_are_told_of_and_not_judged() -> None:
    peer = {**RIGHT, "system": ganglia.MULTICAST, "told_least": 0, "age_s": [88.0], "death_whole_s": [None]}
    assert metrics_experiment.is_whole(peer)
    assert "88.0" in metrics_experiment.table([peer])


def test_costs_are_of_all_nodes_and_of_the_one_where_all_comes_together() -> None:
    before = Reading(
        mono=0.0,
        sent={"a": (0, 0), "b": (100, 1)},
        brought={"a": (0, 0), "b": (0, 0)},
        cpu_s={"a": 1.0, "b": 1.0},
        datagrams_sent={},
    )
    after = Reading(
        mono=10.0,
        sent={"a": (1000, 10), "b": (3100, 31)},
        brought={"a": (3000, 30), "b": (1000, 10)},
        cpu_s={"a": 1.2, "b": 1.1},
        datagrams_sent={},
    )
    found = metrics_parts.costs(before, after, "a")
    assert (found["node_bytes_per_s"], found["node_packets_per_s"]) == (200.0, 2.0)
    assert (found["brought_bytes_per_s"], found["brought_packets_per_s"]) == (200.0, 2.0)
    assert (found["heart_bytes_per_s"], found["heart_packets_per_s"]) == (400.0, 4.0)
    assert found["all_cpu_percent"] == pytest.approx(3.0)
    assert found["heart_cpu_percent"] == pytest.approx(2.0)


# -- Ganglia ---------------------------------------------------------------------------------------------------------

SHIPPED = """\
globals {
  daemonize = yes
  setuid = yes
  deaf = no
  send_metadata_interval = 0
}
cluster {
  name = "unspecified"
  owner = "unspecified"
}
udp_send_channel {
  mcast_join = 239.2.11.71
  port = 8649
  ttl = 1
}
udp_recv_channel {
  mcast_join = 239.2.11.71
  port = 8649
  bind = 239.2.11.71
}
tcp_accept_channel {
  port = 8649
}
"""
SUMMARY = """\
<!ATTLIST HOSTS UP CDATA #REQUIRED>
<GRID NAME="unspecified" AUTHORITY="http://vm/ganglia/" LOCALTIME="1795665067">
<HOSTS UP="9" DOWN="1" SOURCE="gmetad"/>
<METRICS NAME="load_one" SUM="29.89" NUM="8" TYPE="double" UNITS=" " SLOPE="both" SOURCE="gmond">
<METRICS NAME="cpu_num" SUM="18" NUM="9" TYPE="double" UNITS="CPUs" SLOPE="zero" SOURCE="gmond">
"""
HOST = (
    '<HOST NAME="{0}" IP="{0}" REPORTED="1795665154" TN="{1}" TMAX="20" DMAX="0" LOCATION="" GMOND_STARTED="1">\n'
    '<METRIC NAME="cpu_num" VAL="2" TYPE="uint16" UNITS="CPUs" TN="500" TMAX="1200" DMAX="0" SLOPE="zero">\n'
    '<METRIC NAME="load_one" VAL="5.9" TYPE="float" UNITS=" " TN="{2}" TMAX="70" DMAX="0" SLOPE="both">\n</HOST>\n'
)


def test_every_gmond_tells_all_or_one() -> None:
    all_of_them = ganglia.gmond_config(SHIPPED, None)
    assert all_of_them.count("mcast_join = 239.2.11.71\n  mcast_if = eth0\n") == 2
    assert "daemonize = no" in all_of_them
    assert 'name = "lab"' in all_of_them
    one = ganglia.gmond_config(SHIPPED, "10.0.0.1")
    assert "mcast" not in one
    assert "udp_send_channel {\n  host = 10.0.0.1\n  port = 8649\n}" in one
    assert "udp_recv_channel {\n  port = 8649\n}" in one
    assert ("deaf = yes" in one, "send_metadata_interval = 60" in one) == (True, True)
    assert "deaf = no" in ganglia.gmond_config(SHIPPED, "10.0.0.1", collects=True)
    with pytest.raises(LabError, match="has no `setuid = yes`: use the file of Debian's package"):
        ganglia.gmond_config("daemonize = yes", None)


def test_the_file_that_debian_ships_is_the_one_that_is_known() -> None:
    if not ganglia.SHIPPED.exists():
        pytest.skip("no gmond: apt-get install ganglia-monitor")
    shipped = ganglia.SHIPPED.read_text()
    assert ganglia.gmond_config(shipped, None).count("mcast_if") == 2
    assert "mcast" not in ganglia.gmond_config(shipped, "10.0.0.1")


def test_what_gmetad_says() -> None:
    assert ganglia.summary_of(SUMMARY) == ganglia.Summary(9, 1, 8)
    assert ganglia.summary_of("<GRID>") is None
    page = HOST.format("10.0.0.1", 3, 60) + HOST.format("10.0.0.2", 81, 300) + HOST.format("10.0.0.3", 80, 70)
    assert ganglia.ages_of(page) == [60, 70], "a host that is down has no age"
    assert ganglia.gmetad_config(["10.0.0.9", "10.0.0.1"], Path("/x")).splitlines()[0] == (
        'data_source "lab" 15 10.0.0.9:8649 10.0.0.1:8649'
    )


def test_ganglia_is_measured_up_to_some_size_and_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans.ssh, "where", lambda program: f"/usr/sbin/{program}")
    plan = metrics_experiment.Plan(nodes=(100, 300), repeat=1)
    assert [(run.about["nodes"], run.about["system"]) for run in plan.runs()] == [
        *((100, system) for system in metrics_experiment.SYSTEMS),
        (300, "subord"),
        (300, "subord-without"),
    ]
    monkeypatch.setattr(plans.ssh, "where", lambda _: None)
    few = metrics_experiment.Plan(nodes=(5,), repeat=1, systems=("subord", "ganglia"))
    assert few.missing() == ["ganglia is left out: apt-get install ganglia-monitor gmetad."]
    assert [run.about["system"] for run in few.runs()] == ["subord"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--systems", "subord,ldms"), 2, "`ldms`: choose from subord, subord-without, ganglia, ganglia-unicast"),
        (("--nodes", 3), 1, "An evaluation of services takes 4 nodes or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[Any, ...], code: int, said: str) -> None:
    result = refused("evaluate", "metrics", *words)
    assert result.returncode == code
    assert said in result.stderr


# -- a small lab -----------------------------------------------------------------------------------------------------


def measured(system: str, nodes: int) -> Record:
    plan = metrics_experiment.Plan(
        nodes=(nodes,), fanout=2, repeat=1, times=1, systems=(system,), rest_s=2.0, ages_s=2.0, timing="lab"
    )
    (run,) = plan.runs()
    return {**run.about, "fault": None, **run.measure()}


def test_figures_are_right_and_whole_again_after_a_death() -> None:
    found = measured("subord", 7)
    assert metrics_experiment.is_whole(found), metrics_experiment.faults_of(found)
    (turn,) = found["turns"]
    assert turn["looks"] > 10
    assert turn["told_least"] <= 6
    assert 0 < found["changed_s"][0] < 30
    assert found["quantile_error_percent"] == 0, "up to 16 nodes are exact"
    assert found["heart_bytes_per_s"] > 0


def test_nodes_that_do_not_publish_are_measured_at_rest() -> None:
    found = measured("subord-without", 4)
    assert metrics_experiment.is_whole(found)
    assert "age_s" not in found
    assert found["node_packets_per_s"] > 0


@pytest.mark.parametrize("way", [pytest.param(ganglia.MULTICAST, marks=pytest.mark.long), ganglia.UNICAST])
def test_gmetad_sees_all_hosts(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if absent := plans.ssh.absent(ganglia.PROGRAMS):
        pytest.skip(f"no Ganglia: apt-get install {' '.join(absent)}")
    monkeypatch.setattr("netlab.services.metrics_peers.DEATH_S_MAX", 1.0)
    monkeypatch.setattr("netlab.services.metrics_peers.COLLECTOR_S", 1.0)
    found = measured(way, 4)
    assert found["death_whole_s"] == [None]
    assert max(found["age_s"]) < 100
    assert ("collector_up" in found) == (way == ganglia.UNICAST)
