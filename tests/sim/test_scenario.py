"""Scenario files: what may stand in them, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from subord.cli import main
from subord.sim.play import Play
from subord.sim.safety import Violation
from subord.sim.scenario import Cluster, ScenarioError, folded, read, select, write

SHIPPED = sorted((Path(__file__).parents[2] / "netns-lab" / "scenarios").glob("*.toml"))
assert SHIPPED, "the scenarios of the lab are gone"
DYING = """
title = "The root dies"
cluster = { nodes = 15, timing = "lab" }
steps = [
  { do = "start" },
  { do = "expect", within_s = 10 },
  { do = "pass", s = 5 },
  { do = "kill", nodes = "root" },
  { do = "expect", within_s = 5, moved = "2-3", moves_max = 2, attached_p99_s = 1.5 },
]
"""


def test_what_is_seen() -> None:
    played = Play(read(DYING)).run()
    first, second = played.seen
    assert (first.moves, first.moved) == (0, ())
    assert (second.moves, second.moved, len(second.attached_s)) == (2, (2, 3), 2)
    assert 0.4 < second.attached_s[-1] < 0.7


@pytest.mark.parametrize(
    ("there", "instead", "complaint"),
    [
        ('moved = "2-3"', 'moved = "7"', "2-3 changed the leader, only 7 may"),
        ("moves_max = 2", "moves_max = 1", "2 changes of leader, at most 1"),
        ("attached_p99_s = 1.5", "attached_p99_s = 0.1", "at most 0.1 s are allowed"),
        ("within_s = 5", "within_s = 0.2", "expect within 0.2 s (L1)"),
    ],
)
def test_an_expectation_can_fail(there: str, instead: str, complaint: str) -> None:
    assert there in DYING
    with pytest.raises(Violation, match="expect") as caught:
        Play(read(DYING.replace(there, instead))).run()
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("title = ", "no TOML"),
        ("x = 1\n" + DYING, "`x`"),
        (DYING.replace("kill", "kil"), "'kil'"),
        (DYING.replace('nodes = "root"', 'nodes = "16"'), "step 4: `16` names 16, which is no node"),
        (DYING.replace('nodes = "root"', 'nodes = "4-2"'), "lower end first"),
        (DYING.replace('nodes = "root"', 'nodes = "two"'), "no list of positions"),
        (DYING.replace("nodes = 15", "nodes = 0"), "nodes"),
        (DYING.replace("nodes = 15, ", ""), "either `nodes` or `positions`"),
        (DYING.replace("nodes = 15", 'nodes = 15, network = "10.0.0.0/30"'), "2 positions, 15"),
        ("#" * (1 << 21), "another file"),
    ],
)
def test_mistakes_are_named(text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    assert main(["simulate", str(file)]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert "wrong.toml" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("selector", "named"),
    [("2", "2"), ("2-4,9", "2-4,9"), ("all", "1-10"), ("root", "3"), ("level 2", "4-7"), ("root, 9-10", "3,9-10")],
)
def test_selectors(selector: str, named: str) -> None:
    cluster = Cluster(nodes=10)
    assert folded(select(selector, cluster, among=range(1, 11), root=3)) == named
    assert select(selector, cluster, among=(), root=3) == ()


def test_a_node_that_is_not_there_is_no_mistake_and_one_that_never_was_is() -> None:
    with pytest.raises(ScenarioError):
        select("11", Cluster(nodes=10), among=range(1, 11))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_shipped_scenarios_hold_in_the_simulator(file: Path) -> None:
    script = read(file.read_text())
    assert read(write(script)) == script
    Play(script).run()
