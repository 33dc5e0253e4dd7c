"""Scenario files: which can be played, what a failed one tells, and all that ship with the lab, with real daemons."""

import json
import os
import re
import subprocess
import sys
from functools import partial

import pytest
from loops import over

from subord.sim.scenario import definition, validate, written

from .lab_helpers import REPOSITORY, SCRIPT, netlab, refused, run_lab

SHIPPED = sorted((REPOSITORY / "netns-lab" / "scenarios").glob("*.toml"))
SHORT = ("level_boundaries",)  # the others take longer than a test run should

GIVEN = {"nodes": "1", "source": "1", "target": "2", "groups": ("1",), "what": "terms"}
QUICK = """
title = "Everything that can happen, in a quarter of a minute"
cluster = { nodes = 15, fanout = 2, timing = "lab" }
steps = [
  { do = "start", order = "random" },
  { do = "expect", within_s = 10 },
  { do = "pass", s = 1.6 },
  { do = "order", nodes = "1,9", times = 2 },
  { do = "answered", within_s = 10 },
  { do = "kill", nodes = "2" },
  { do = "expect", within_s = 15, moved = "4,5", moves_max = 2, attached_p99_s = 15 },
  { do = "start" },
  { do = "expect", within_s = 15, moved = "4,5", moves_max = 2 },
  { do = "reuse", nodes = "3,9" },
  { do = "expect", within_s = 15, moves_max = 0 },
  { do = "leave", nodes = "root" },
  { do = "expect", within_s = 15, moved = "2,3", moves_max = 2 },
  { do = "restart", nodes = "4,7", down_s = 0.05 },
  { do = "pause", nodes = "6" },
  { do = "cut", nodes = "5" },
  { do = "expect", within_s = 15, moved = "10-13", moves_max = 4, attached_p99_s = 15 },
  { do = "resume" },
  { do = "mend" },
  { do = "start" },
  { do = "expect", within_s = 15 },
  { do = "partition", groups = ["2,4-5,8-11"] },
  { do = "weather", loss = 0.05 },
  { do = "expect", within_s = 20 },
  { do = "mend" },
  { do = "slow", nodes = "3", stopped_s = 0.2, running_s = 0.2, for_s = 2 },
  { do = "babble", source = "9", target = "1-4", what = "terms", for_s = 1 },
  { do = "churn", percent_per_min = 400, for_s = 2, down_s = 0.5, ways = ["kill", "leave", "vanish"] },
  { do = "expect", within_s = 15 },
]
"""
# (node, its leader): of a dead process its host tells, so silence need not be waited for; of the others no host does.
KILLED = {(4, 2), (5, 2)}
CUT_OR_PAUSED = {(10, 5), (11, 5), (12, 6), (13, 6)}


def played(tmp_path, text, *arguments, run=run_lab):
    """(exit code, standard error, scenarios in the JSON file)."""
    file, results = tmp_path / "scenario.toml", tmp_path / "results.json"
    file.write_text(text)
    done = run("run", file, *arguments, "--json", results)
    document = json.loads(results.read_text()) if results.exists() and results.stat().st_size else {"scenarios": []}
    return done, document["scenarios"]


def of(steps, cluster="nodes = 3"):
    return f'title = "t"\ncluster = {{ {cluster} }}\nsteps = [ {steps} ]\n'


# -- which can be played ------------------------------------------------------------------------------------


@over("file", SHIPPED)
def test_every_shipped_file_is_a_scenario_that_says_where_it_comes_from(file, monkeypatch):
    monkeypatch.setattr(netlab("topology.filters"), "obstacle", lambda **_: None)
    script = definition.read(file.read_text())
    netlab("scenarios.runner").check(script, rootless=False)
    assert script.about
    assert isinstance(script.steps[-1], definition.Expect | definition.Answered)
    assert definition.read(written.write(script)) == script


def test_the_list_of_shipped_files_is_whole():
    assert {file.stem for file in SHIPPED} == {
        "address_reuse",
        "churn",
        "half_open",
        "level_absent_at_boot",
        "level_boundaries",
        "malformed_and_oversized",
        "one_way_loss",
        "orders_around_faults",
        "orders_partition_and_load",
        "partition_and_merge",
        "partition_halves",
        "restart_fast",
        "root_and_successors_die",
        "root_dies",
        "slow_node",
        "stop_and_continue",
        "together_500",
        "wrong_version",
    }


@over(
    ("steps", "cluster", "told"),
    [
        ('{ do = "jump", nodes = "1", seconds = 5 }', "nodes = 3", "step 1 (jump) asks for"),
        (
            '{ do = "weather", delay_s = 1, doubled = 0.1 }, { do = "jump", nodes = "1", seconds = 5 }',
            "nodes = 3",
            "steps 1 (weather: delay_s), 1 (weather: doubled), 2 (jump) ask for",
        ),
        ('{ do = "weather", jitter_s = 0.1 }', "nodes = 3", "1 (weather: jitter_s)"),
        ('{ do = "start" }', "nodes = 1024", "at most 1023"),
        ('{ do = "start" }', 'nodes = 3, network = "10.0.0.1-10.0.0.9"', "one IPv4 block"),
        ('{ do = "start" }', 'nodes = 3, network = "fd00::/64"', "one IPv4 block"),
    ],
)
def test_what_the_lab_cannot_do_is_refused_before_anything_is_started(tmp_path, steps, cluster, told):
    done, results = played(tmp_path, of(steps, cluster), run=refused)
    assert done.returncode == 4
    assert told in done.stderr
    assert (done.stderr.count("\n"), done.stdout, results) == (1, "", [])


@pytest.mark.parametrize(
    ("steps", "filtered"),
    [
        ('{ do = "weather", loss = 0.1 }', True),
        ('{ do = "block", source = "1", target = "2" }', True),
        ('{ do = "partition", groups = ["1"] }', True),
        ('{ do = "weather" }, { do = "mend" }, { do = "cut", nodes = "1" }', False),
    ],
)
def test_nft_is_missed_only_by_those_that_need_it(monkeypatch, steps, filtered):
    playable = netlab("scenarios.runner")
    monkeypatch.setattr(netlab("topology.filters"), "obstacle", lambda **_: "there is none.")
    script = definition.read(of(steps))
    if not filtered:
        playable.check(script, rootless=False)
        return
    with pytest.raises(playable.Unplayable, match=r"nftables, and there is none"):
        playable.check(script, rootless=False)


@over(
    ("text", "arguments", "code", "told"),
    [
        ("title = 1", (), 1, "scenario.toml"),
        (of('{ do = "kill", nodes = "4" }'), (), 1, "step 1 (kill): `4` names 4"),
        (of('{ do = "start" }', 'positions = "1,300", network = "10.0.0.0/24"'), (), 1, "cluster.network"),
        (of('{ do = "start" }', 'nodes = 3, network = "10.0.0.0/33"'), (), 1, "cluster.network"),
        (of('{ do = "churn", nodes = "level 9" }'), (), 1, "`level 9` names no node"),
        (of('{ do = "churn", ways = [] }'), (), 1, "`ways` must be"),
        (of('{ do = "pass", s = ' + "9" * 5000 + " }"), (), 1, "a number is too long"),
        ("title = " + "[" * 5000, (), 1, "nested too deep"),
        (of('{ do = "start" }', 'positions = "1-1000000,2000000-3000000"'), (), 1, "2000001 nodes"),
        (of('{ do = "start" }'), ("--events", "/dev/null"), 1, "--events /dev/null: this is no directory"),
        (of('{ do = "start" }'), ("--nodes", 70_000), 4, "not with --nodes 70000: cluster.network"),
        (of('{ do = "kill", nodes = "3" }'), ("--nodes", 2), 4, "not with --nodes 2: step 1"),
        (of('{ do = "kill", nodes = "3" }'), ("missing.toml",), 1, "missing.toml: No such file"),
    ],
)
def test_mistakes_are_told_in_one_sentence(tmp_path, text, arguments, code, told):
    done, results = played(tmp_path, text, *arguments, run=refused)
    assert (done.returncode, done.stdout, results) == (code, "", [])
    assert told in done.stderr
    assert (done.stderr.count("\n"), done.stderr.endswith("Nothing was started.\n")) == (1, True)


@pytest.mark.slow
def test_a_pipe_without_writer_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    done = run_lab("run", tmp_path / "pipe.toml", timeout=20)
    assert done.returncode == 1
    assert "no regular file" in done.stderr


def test_what_is_marked_for_the_simulator_is_what_the_lab_refuses():
    marked = {name for name, kind in definition.STEPS.items() if "Simulator only." in kind.__doc__}
    refused = set()
    for name, kind in definition.STEPS.items():
        given = {key: GIVEN.get(key, 1.0) for key, field in validate.fields_of(kind).items() if field.required}
        if netlab("scenarios.runner")._beyond(kind(**given)):
            refused.add(name)
    lasting = {"link", "flap", "settle", "replay", "flip", "set_back", "image", "restore"}
    lasting |= {"lie", "pose", "seize", "refit", "release", "twin", "rotate", "forget"}
    assert refused == marked == {"jump", "hangup", "perform", "dwell"} | lasting
    told = "Simulator only: all but `loss`."
    assert told in definition.Weather.__doc__
    weather = definition.Weather(loss=0.1, delay_s=1, jitter_s=1, doubled=0.1)
    assert len(netlab("scenarios.runner")._beyond(weather)) == 3


@pytest.mark.lab
def test_a_closed_pipe_ends_the_lab(tmp_path):
    file = tmp_path / "scenario.toml"
    file.write_text(of('{ do = "start" }, { do = "expect", within_s = 10 }'))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, SCRIPT, "run", file],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr


# -- with daemons -------------------------------------------------------------------------------------------


@pytest.mark.lab
def test_everything_that_can_happen(tmp_path, nft):
    done, (result,) = played(tmp_path, QUICK, "--events", tmp_path / "events")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (result["failure"], result["result"], result["nodes"]) == (None, "ok", 15)
    assert result["babbled"] > 100
    assert result["orphans"] >= 8
    assert len(result["steps"]) == QUICK.count("{ do =")
    (answers,) = (each["seen"] for each in result["steps"] if each["step"]["do"] == "answered")
    assert (answers["orders"], answers["void"], answers["missing"]) == (4, 0, {})
    assert "4 orders answered within" in done.stdout
    causes = first_causes(tmp_path / "events" / "scenario.events")
    assert {causes[pair] for pair in KILLED} <= {"refused", "closed"}
    assert {causes[pair] for pair in CUT_OR_PAUSED} == {"silence"}


def first_causes(log):
    """(node, its leader) -> why the node gave it up the first time."""
    found = {}
    for event in map(json.loads, log.read_text().splitlines()):
        if event["event"] == "lost":
            pair = tuple(int(address.rsplit(".", 1)[1]) for address in (event["node"], event["leader"]))
            found.setdefault(pair, event["cause"])
    return found


@pytest.mark.lab
def test_a_failed_expectation_ends_the_scenario_with_the_facts_and_the_next_one_is_played(tmp_path):
    text = of(
        '{ do = "start" }, { do = "expect", within_s = 10 }, { do = "cut", nodes = "2" },'
        ' { do = "expect", within_s = 0.2, moved = "3" }, { do = "pass", s = 60 }',
        'nodes = 7, timing = "lab"',
    )
    good = tmp_path / "good.toml"
    good.write_text(of('{ do = "start" }, { do = "expect", within_s = 10 }', "nodes = 9"))
    done, (failed, well) = played(tmp_path, text, good, "--nodes", 5)
    assert done.returncode == 3
    # The cut may end after some nodes have noticed it; then the part of 2, or that of the others, is whole already.
    assert failed["failure"].startswith("step 4 (expect): not whole within 0.2 s: of ")
    assert re.search(r"of (1,3-5|2) .*the roster of \d has \d nodes instead of [14]", failed["failure"])
    assert failed["failure"] in done.stdout
    assert (len(failed["steps"]), failed["steps"][3]["seen"]["whole_s"]) == (4, None)
    assert (well["failure"], well["nodes"]) == (None, 5)


@pytest.mark.lab
@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=() if f.stem in SHORT else pytest.mark.long, id=f.stem) for f in SHIPPED],
)
def test_shipped(tmp_path, nft, file):
    done, (result,) = played(tmp_path, file.read_text(), run=partial(run_lab, timeout=900))
    assert done.returncode == 0, done.stdout + done.stderr
    assert result["failure"] is None
