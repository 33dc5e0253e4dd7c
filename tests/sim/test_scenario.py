"""Scenario files: their contents, and the messages about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from loops import over

from subord.cli import main, simulate
from subord.sim.player import Play
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, ScenarioError, folded, read, select
from subord.sim.scenario.written import write
from subord.sim.services.scripted import attach
from subord.sim.violation import Violation

SHIPPED = sorted((Path(__file__).parents[2] / "netns-lab" / "scenarios").glob("*.toml"))
assert SHIPPED, "no scenarios of the lab"
MANY_ORDERS = "orders_partition_and_load"
DYING = """
title = "The root dies"
cluster = { nodes = 15, timing = "lab" }
steps = [
  { do = "start" },
  { do = "expect", within_s = 10 },
  { do = "pass", s = 12 },
  { do = "kill", nodes = "root" },
  { do = "expect", within_s = 5, moved = "2-3", moves_max = 2, attached_p99_s = 1.5 },
]
"""


def of(*steps: str, cluster: str = "nodes = 15") -> str:
    """The text of a scenario with a start and these steps."""
    more = "".join(f", {{ {step} }}" for step in steps)
    return f'title = "t"\ncluster = {{ {cluster} }}\nsteps = [ {{ do = "start" }}{more} ]\n'


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


ORDERS = of(
    'do = "expect", within_s = 10',
    'do = "pass", s = 12',
    'do = "pause", nodes = "3"',
    'do = "order", nodes = "1,15"',
    'do = "answered", within_s = 3, missing = "3"',
)


@pytest.mark.slow
@over(
    ("there", "instead", "complaint"),
    [
        ("3, missing", "3, missing", None),
        ('missing = "3"', 'causes = ["silent"]', None),
        ('nodes = "1,15"', 'nodes = "1", times = 30', None),
        (', missing = "3"', "", "3 is missing in the answer to 1: silent"),
        ("within_s = 3", "within_s = 0.3", "1 was answered after 0.60 s, at most 0.3 s are allowed"),
        ('missing = "3"', 'missing = "4", causes = ["busy"]', "3 is missing in the answer to 1: silent"),
    ],
)
def test_answers_are_judged(there: str, instead: str, complaint: str | None) -> None:
    assert there in ORDERS
    play = attach(Play(read(ORDERS.replace(there, instead))))
    if complaint is None:
        play.run()
        return
    with pytest.raises(Violation, match="answered") as caught:
        play.run()
    assert complaint in str(caught.value)


@over(
    ("text", "complaint"),
    [
        ("title = ", "no TOML"),
        ("x = 1\n" + DYING, "`x`"),
        (DYING.replace("kill", "kil"), 'step 4: no step "kil"; steps: start, kill, restart'),
        (DYING.replace('do = "kill", ', ""), "step 4: no key `do`; steps: start, kill"),
        (DYING.replace('do = "kill"', "do = [1]"), "step 4: no step a list; steps: start"),
        (DYING.replace('nodes = "root"', 'node = "1"'), "step 4 (kill): no key `node`; keys: nodes."),
        (DYING.replace(', nodes = "root"', ""), "step 4 (kill): `nodes` is missing: a selector"),
        (DYING.replace('nodes = "root"', "nodes = 1"), "step 4 (kill): `nodes` must be a selector"),
        (DYING.replace("s = 12 }", "s = -5 }"), "step 3 (pass): `s` must be a number from 0 to 86400, not -5"),
        (DYING.replace("s = 12 }", "s = nan }"), "step 3 (pass): `s` must be a number from 0 to 86400, not nan"),
        (DYING.replace("s = 12 }", "s = " + "9" * 5000 + " }"), "a number is too long"),
        (DYING.replace('{ do = "pass", s = 12 }', "5"), "step 3 must be a table"),
        (
            DYING.replace("moves_max = 2", "moves_max = -1"),
            "`moves_max` must be a whole number from 0 upwards, not -1",
        ),
        (DYING.replace('nodes = "root"', 'nodes = "16"'), "step 4 (kill): `16` names 16, which is no node"),
        (DYING.replace('nodes = "root"', 'nodes = "1-16"'), "`1-16` names 16, which is no node"),
        (DYING.replace('nodes = "root"', 'nodes = "level 4"'), "`level 4` names no node: the deepest level of this"),
        (DYING.replace('nodes = "root"', 'nodes = "level ' + "9" * 5000 + '"'), "is no list of positions"),
        (DYING.replace('nodes = "root"', 'nodes = "level \u0663"'), "is no list of positions"),
        (of('do = "churn", nodes = "level 9"'), "step 2 (churn): `level 9` names no node"),
        (of('do = "churn", ways = []'), "step 2 (churn): `ways` must be a list of at least 1"),
        (of('do = "partition", groups = []'), "step 2 (partition): `groups` must be a list of at least 1"),
        (of('do = "partition", groups = ["1", "16"]'), "step 2 (partition): group 2: `16` names 16"),
        (of('do = "slow", nodes = "1", stopped_s = 0, running_s = 0, for_s = 1'), "from 0.01 to 86400, not 0"),
        (
            of('do = "babble", source = "1-5", target = "all", what = "terms", per_s = 1000, for_s = 2'),
            "step 2 (babble): 5 sources times 15 targets times 1000/s times 2 s: at most 100000 datagrams",
        ),
        ('title = "t"\ncluster = { nodes = 3 }\nsteps = []', "no steps: no node is started"),
        ('title = "t"\ncluster = { nodes = 3 }\nsteps = 5', "`steps` must be a list of 1 to 10000 tables"),
        ('title = "t"\nsteps = [{ do = "start" }]', "`cluster` is missing"),
        (DYING.replace('{ do = "start" },', ""), "step 1 (expect): no node is started yet; `start` comes first"),
        (DYING.replace("The root", "The \\u001b[31m root"), "`title` has control characters"),
        ('about = "\\u007f"' + DYING, "`about` has control characters"),
        ("title = " + "[" * 5000, "nested too deep"),
        ('"x" . ' * 20_000 + "x = 1", "more than 8 parts"),
        (
            DYING.replace("nodes = 15", 'positions = "1-1000000,2000000"'),
            "1000001 nodes, a scenario has at most 1000000",
        ),
        (DYING.replace("nodes = 15", 'positions = "1-999999999999999999"'), "a scenario has at most 1000000"),
        (of(*['do = "start"'] * 100, cluster='nodes = 100000, network = "10.0.0.0/8"'), "at most 10000000 together"),
        (DYING.replace("nodes = 15", 'nodes = 3, network = "10.0.0.0/33"'), "cluster.network: "),
        (DYING.replace('nodes = "root"', 'nodes = "4-2"'), "lower end first"),
        (DYING.replace('nodes = "root"', 'nodes = "two"'), "no list of positions"),
        (DYING.replace("nodes = 15", "nodes = 0"), "nodes"),
        (DYING.replace("nodes = 15, ", ""), "either `nodes` or `positions`"),
        (
            DYING.replace("nodes = 15", 'nodes = 15, network = "10.0.0.0/30"'),
            "cluster.network: 10.0.0.0/30 has 2 pos",
        ),
        ("#" * (1 << 21), "another file"),
    ],
)
def test_mistakes_are_named(text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    assert main(["simulate", str(file)]) == 2
    output = capsys.readouterr().err
    assert complaint in output
    assert "wrong.toml: " in output
    assert output.endswith(". Nothing was started.\n")
    assert output.count("\n") == 1
    assert main(["simulate", "--write", str(file)]) == 2
    assert capsys.readouterr() == ("", output)


def test_large_clusters_cost_little() -> None:
    """Each of these would take minutes if positions were enumerated, or the selection rebuilt, for each step."""
    kill = 'do = "kill", nodes = "' + ",".join(["1-999999", "level 3", "2-1000000"] * 500) + '"'
    script = read(of(*[kill] * 9, cluster='nodes = 1000000, network = "10.0.0.0/8"'))
    assert len(script.steps) == 10


def test_a_dotted_text_is_no_dotted_key() -> None:
    addresses = ",".join(f"10.0.0.{each}" for each in range(1, 10))
    about = "# a.b.c.d.e.f.g.h.i.j = 1\n" + 'about = "a.b.c.d.e.f.g.h.i.j \\" a.b.c.d.e.f.g.h.i.j"'
    script = read(about + DYING.replace("nodes = 15", f"nodes = 9, network = '{addresses}'").replace("2-3", "9"))
    assert script.cluster.network == addresses


@over(
    ("selector", "named"),
    [
        ("2", "2"),
        ("2-4,9", "2-4,9"),
        ("all", "1-10"),
        ("root", "3"),
        ("level 2", "4-7"),
        ("level 3", "8-10"),
        ("root, 9-10", "3,9-10"),
        ("9,2-5,4,1-3", "1-5,9"),
    ],
)
def test_selectors(selector: str, named: str) -> None:
    cluster = Cluster(nodes=10)
    assert folded(select(selector, cluster, among=range(1, 11), root=3)) == named
    assert select(selector, cluster, among=(), root=3) == ()


def test_a_position_outside_the_cluster_is_an_error() -> None:
    with pytest.raises(ScenarioError):
        select("11", Cluster(nodes=10), among=range(1, 11))


def test_selectors_of_a_sparse_cluster() -> None:
    cluster = Cluster(positions="3,5-7,12")
    assert folded(select("all", cluster, among=range(1, 20))) == "3,5-7,12"
    assert folded(select("level 2, 3", cluster, among=range(1, 20))) == "3,5-7"
    with pytest.raises(ScenarioError, match="`3-5` names 4, which"):
        select("3-5", cluster, among=())


def test_every_seed_is_allowed_in_a_file() -> None:
    assert simulate.NUMBER_MAX == definition.SEED_MAX


@pytest.mark.slow
@pytest.mark.apart
@over("file", [file for file in SHIPPED if file.stem != MANY_ORDERS])
def test_the_shipped_scenarios_hold_in_the_simulator(file: Path) -> None:
    script = read(file.read_text())
    assert read(write(script)) == script
    attach(Play(script)).run()


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("issuers", ["1-12", pytest.param("1-84", marks=pytest.mark.long)])
def test_the_shipped_scenario_of_many_orders_holds_in_the_simulator(issuers: str) -> None:
    """As it is shipped, its 1,008 orders at once take the simulator two minutes."""
    (file,) = (file for file in SHIPPED if file.stem == MANY_ORDERS)
    text = file.read_text()
    assert text.count('"1-84"') == 1
    attach(Play(read(text.replace('"1-84"', f'"{issuers}"')))).run()
