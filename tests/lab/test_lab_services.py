"""`evaluate exec` and `evaluate files`: each part on few nodes, what its judge calls a fault, and peers over ssh."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms
from netlab.services import exec_experiment, exec_parts, files_experiment, plans, pushes, ready, ssh
from netlab.services.console import Console
from netlab.services.exec_systems import OverSsh, SerfQuery, Subord

from .lab_helpers import refused

pytestmark = pytest.mark.lab(few=True)

NODES = 7
CLIENT = 6
STREAM_BYTES = 700_000  # of all nodes; more than an answer shows of each

Record = dict[str, Any]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        ready.raise_tree(lab)
        yield lab


@pytest.fixture
def console(lab: Lab) -> Console:
    return Console(lab, CLIENT)


def record(part: str, found: Record, **about: Any) -> Record:
    """As it is in a file of figures."""
    whole = {"nodes": NODES, "fanout": 2, "repeat": 0, "fault": None, "system": "subord", "absent": {}}
    text: Record = json.loads(json.dumps({**whole, **about, "part": part, **found}))
    return text


def held(experiment: Any, part: str, found: Record) -> list[str]:
    """The row of the table, of a record that must hold."""
    whole = record(part, found)
    assert experiment.faults_of(whole) == []
    title, _, row = experiment.table([whole]).splitlines()
    assert title == part
    cells: list[str] = row.split()
    assert cells[:6] == [str(NODES), "2", "subord", "1", "of", "1"]
    return cells[6:]


def test_rest_is_measured_before_the_agents_run_and_after_commands(lab: Lab, console: Console) -> None:
    """The first test: no command has run yet."""
    found = exec_parts.rest(lab, console, 1, 3.0)  # several periods of renewal
    cells = exec_experiment.table([record("rest", found)]).splitlines()[2].split()
    assert len(cells) == 12
    assert found["before_packets_per_s"] > 0
    assert found["after_s"] >= 3
    silent = record("rest", {**found, "before_packets_per_s": 0.0})
    assert exec_experiment.faults_of(silent) == ["no packets before the first command: measured for too short a time"]


def test_commands_are_timed_and_counted(lab: Lab) -> None:
    system = Subord(lab)
    system.first_s = ready.start_agents(lab, Console(lab, CLIENT))
    taken = [system.run(), system.run()]
    assert [each.ended for each in taken] == [NODES, NODES]
    found = {"took_s": [each.took_s for each in taken], "first_s": system.first_s, "ended_least": NODES}
    assert held(exec_experiment, "speed", found)[-1] == str(NODES)


def test_each_node_runs_it_once_while_an_interior_node_is_killed(lab: Lab, console: Console) -> None:
    found = exec_parts.killed(lab, console, 1)
    whole, killed = found["turns"]
    assert whole["victim"] is None
    assert killed["victim"] == lab.address(2)
    assert killed["subordinates"] == 2
    assert killed["begun_before"] >= NODES / 2
    assert min(whole["took_s"], killed["took_s"]) > 1.0
    assert len(held(exec_experiment, "killed", found)) == 3


def test_ctrl_c_leaves_no_process(lab: Lab, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_parts, "LEFT_AFTER_S", 20.0)  # a busy machine needs more than 3 s
    found = exec_parts.interrupted(lab, console, lambda words: (*exec_parts.EXEC, "--", *words))
    assert held(exec_experiment, "interrupted", found)[:2] == [str(NODES), "0"]


def test_processes_stay_small_and_say_what_they_cut(lab: Lab, console: Console) -> None:
    found = exec_parts.output(lab, console, STREAM_BYTES)
    assert held(exec_experiment, "output", found)[3] == str(NODES)
    assert found["client_mib"] < exec_parts.GROWTH_MIB_MAX


def test_a_push_reaches_all_and_its_bytes_are_counted(lab: Lab, console: Console, tmp_path: Path) -> None:
    way = pushes.Way("", console, pushes.push, lambda position: lab.directory.node(position) / "srv")
    found = pushes.speed(lab, way, tmp_path, 2, 100_000)
    assert held(files_experiment, "speed", {**found, "sent_most_times": [1.0, 2.0]})[-2:] == ["1.50", "(1.00..2.00)"]
    assert min(found["sent_most_times"]) > 1.0
    found = pushes.killed(lab, way, tmp_path, 1, 4_000_000)
    assert found["turns"][1]["brought_before"] >= 2_000_000
    assert len(held(files_experiment, "killed", found)) == 3


# -- what the judges call a fault ------------------------------------------------------------------------------------


TURN = {"victim": "10.0.0.2", "subordinates": 2, "took_s": 1.5, "code": 1, "missing": {"silent": ["10.0.0.2"]}}
WHOLE = {**TURN, "victim": None, "code": 0, "missing": {}}
KILLED = {"turns": [{**each, "wrong_times": {}, "lacking": []} for each in (WHOLE, TURN)]}
OUTPUT = {"daemon_mib": 1.0, "agent_mib": 2.0, "client_mib": 3.0, "agents": NODES, "ended": {"daemon": 0, "agent": 0}}
RIGHT = {
    "speed": {"ended_least": NODES, "whole_least": NODES, "sent_most_times": [3.0, 3.1]},
    "killed": KILLED,
    "interrupted": {"ran": NODES, "left": 0, "code": 130},
    "output": {**OUTPUT, "told": NODES, "missing": {}},
    "rest": {"before_packets_per_s": 1.0, "after_packets_per_s": 1.1},
}


def turned(number: int, **worse: Any) -> Record:
    turns = [dict(each) for each in KILLED["turns"]]
    turns[number].update(worse)
    return {"turns": turns}


@pytest.mark.parametrize(
    ("part", "worse", "words"),
    [
        ("speed", {"ended_least": 6}, "ended on 6 of 7 nodes"),
        ("killed", turned(1, wrong_times={"5": 2}), "10.0.0.2 killed: node 5 ran it 2 times"),
        ("killed", turned(0, wrong_times={"4": 0}), "none killed: node 4 ran it 0 times"),
        ("killed", turned(1, missing={"silent": ["10.0.0.2", "10.0.0.5"]}), "missing as silent: 10.0.0.5"),
        ("killed", turned(0, missing={"silent": ["10.0.0.2"]}, code=1), "none killed: missing as silent: 10.0.0.2"),
        ("killed", turned(1, code=0), "exit code 0 with 1 causes"),
        ("interrupted", {"ran": 6}, "6 of 7 nodes ran it"),
        ("interrupted", {"left": 2}, "2 processes were left after 3 s"),
        ("interrupted", {"code": 1}, "exit code 1"),
        ("output", {"daemon_mib": 65.0}, "a daemon grew by 65 MiB"),
        ("output", {"agent_mib": 65.0}, "an agent grew by 65 MiB"),
        ("output", {"client_mib": 65.0}, "the client grew by 65 MiB"),
        ("output", {"told": 6}, "6 of 7 nodes said what was cut"),
        ("output", {"agents": 6}, "6 agents of 7 ran"),
        ("output", {"ended": {"daemon": 0, "agent": 1}}, "agents that ended: 1"),
        ("output", {"missing": {"silent": ["10.0.0.5"]}}, "missing: silent"),
        ("rest", {"after_packets_per_s": 1.2}, "1.20 times as many packets after commands"),
    ],
)
def test_an_exec_that_did_not_hold_says_why(part: str, worse: Record, words: str) -> None:
    assert exec_experiment.faults_of(record(part, RIGHT[part])) == []
    bad = record(part, {**RIGHT[part], **worse})
    assert not exec_experiment.is_whole(bad)
    (found,) = exec_experiment.faults_of(bad)
    assert words in found
    assert f"7 nodes, subord, run 1: {found}" in exec_experiment.table([bad]).splitlines()


@pytest.mark.parametrize(
    ("part", "worse", "words"),
    [
        ("speed", {"whole_least": 6}, "6 of 7 nodes had the file"),
        ("speed", {"sent_most_times": [3.0, 3.3]}, "a node sent 3.3 times the file"),
        ("killed", turned(1, lacking=["10.0.0.5"]), "10.0.0.2 killed: 10.0.0.5 lacks the file"),
        ("killed", turned(1, missing={"no content": ["10.0.0.5"]}), "missing as no content: 10.0.0.5"),
    ],
)
def test_a_push_that_did_not_hold_says_why(part: str, worse: Record, words: str) -> None:
    assert files_experiment.faults_of(record(part, RIGHT[part])) == []
    (found,) = files_experiment.faults_of(record(part, {**RIGHT[part], **worse}))
    assert words in found


def test_a_node_that_hides_what_it_cuts_is_not_counted() -> None:
    assert exec_parts.is_told({"output": "ab", "cut_bytes": 8}, 10)
    assert not exec_parts.is_told({"output": "ab", "cut_bytes": 7}, 10)
    assert not exec_parts.is_told({"output": "a" * 10, "cut_bytes": 0}, 10)


def test_peers_are_told_of_and_not_judged() -> None:
    left = record("interrupted", {"ran": NODES, "left": NODES, "ended_s": None, "code": 130}, system="clush")
    assert exec_experiment.is_whole(left)
    assert exec_experiment.table([left]).splitlines()[-1].split()[-3:] == ["7", "7", "-"]
    assert exec_experiment.faults_of({**left, "fault": "no sshd"}) == ["no sshd"]


# -- peers -----------------------------------------------------------------------------------------------------------


def test_a_peer_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_words, **_options: None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    plan = exec_experiment.Plan(nodes=(NODES,), repeat=1, only=("speed",))
    absent = {
        "clush": "apt-get install clustershell openssh-server",
        "pdsh": "apt-get install pdsh openssh-server",
        "serf": "apt-get install serf",
    }
    assert plan.missing() == [f"{name} is left out: {why}." for name, why in absent.items()]
    (only,) = plan.runs()
    assert (only.about["system"], only.about["absent"]) == ("subord", absent)
    shown = exec_experiment.table([record("speed", {**RIGHT["speed"], "took_s": [0.5]}, absent=absent)])
    assert shown.splitlines()[-1] == "serf: missing (apt-get install serf)"
    assert exec_experiment.Plan(nodes=(NODES,), peers=False).missing() == []


def test_too_few_nodes_of_a_later_part_are_refused_before_the_first_run() -> None:
    plan = files_experiment.Plan(nodes=(5,), fault_nodes=(3,), repeat=1, peers=False)
    with pytest.raises(LabError, match="takes 4 nodes or more: correct --fault-nodes"):
        next(plan.runs())


def test_parts_but_speed_have_their_own_number_of_nodes() -> None:
    plan = files_experiment.Plan(nodes=(5, 6), fault_nodes=(9,), repeat=1, peers=False)
    assert [(run.about["part"], run.about["nodes"]) for run in plan.runs()] == [
        ("speed", 5),
        ("speed", 6),
        ("killed", 9),
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("exec", "--only", "speed,flight"), 2, "`flight`: choose from speed, killed, interrupted, output, rest"),
        (("files", "--nodes", 3, "--no-peers"), 1, "An evaluation of services takes 4 nodes or more"),
        (("exec", "--only", "rest", "--fault-nodes", 2, "--no-peers"), 1, "takes 4 nodes or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[Any, ...], code: int, said: str) -> None:
    result = refused("evaluate", *words)
    assert result.returncode == code
    assert said in result.stderr


def test_commands_and_files_of_peers(tmp_path: Path) -> None:
    if absent := plans.ssh.missing_packages({"all": ("clush", "pdsh", "rsync", "sshd", "serf")}):
        pytest.skip(f"no peers: {absent['all']}")
    with Lab(nodes=3) as lab, NodePrograms(lab, tmp_path) as programs:
        assert lab.positions[-2] == 2, "the node of the commands"
        systems = [OverSsh(lab, name, programs) for name in ("clush", "pdsh")]
        servers = systems[0].ssh
        servers.start()
        assert [system.run().ended for system in systems] == [3, 3]
        for name, size in (("clush", 100_000), ("rsync", 200_000)):
            way = pushes.Way("", servers.console, lambda file, name=name: servers.copy(name, file), servers.srv)
            found = pushes.speed(lab, way, tmp_path, 1, size)
            assert found["whole_least"] == 3
            assert found["sent_most_times"][0] > 2
        gossip = SerfQuery(lab, programs)
        gossip.start()
        assert gossip.run().ended == 3
        programs.end(3)
        assert [system.run().ended for system in systems] == [2, 2]
    assert ssh.version("rsync").startswith("rsync")
