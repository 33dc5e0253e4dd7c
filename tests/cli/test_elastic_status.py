"""`subord elastic status`, `why` and `nodes`: what is shown, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from loops import over

from subord.client import exit_codes
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.elastic.state import FAILED, NO_AGENT, NODES_MAX, OFF, OTHER_NODE, WHY_MAX, NodeState, Poll, State
from subord.services.elastic.plan import Plan
from subord.services.elastic.stages import Stage
from subord.services.elastic.telling.answering import answer, told
from tests.api.elastic_nodes import ElasticNodes
from tests.api.served_node import fake_daemon
from tests.cli.elastic_stage import ElasticStage, Said
from tests.cli.test_json import fitting

HEADING = "version 2 published by ann at 2026-11-26 08:33:20 UTC: 10.0.0.1 has the queue"
WHY = (
    "1 node is added: the oldest job has waited 960 s, and the jobs that wait need 24 slots, 0 are free, 4 come",
    "2 nodes are not added in this poll: at most 1 at once",
)
NO_ANSWER = "its daemon does not answer at 10.0.1.5:7700; look at the console of the node"


pytestmark = pytest.mark.usefixtures("still_clock")


@pytest.fixture
def stage() -> Iterator[ElasticStage]:
    stage = ElasticStage()
    with fake_daemon(stage.node) as stage.path:
        yield stage


def grow(stage: ElasticNodes) -> None:
    """A cluster that grows, with a node that does not come and one that is removed."""
    now = stage.now
    nodes = [
        NodeState(name="node1", address="10.0.0.1", slots=4, used=2, jobs=1, is_master=True),
        NodeState(
            name="node003",
            address="10.0.1.3",
            stage=Stage.SERVING,
            since=now - 1500,
            slots=4,
            paid_since=now - 4990,
            idle_since=now - 130,
        ),
        NodeState(
            name="node005",
            address="10.0.1.5",
            stage=Stage.JOINING,
            since=now - 125,
            tries=3,
            fault=NO_ANSWER,
            paid_since=now - 185,
        ),
        NodeState(name="node004", address="10.0.1.4", stage=Stage.DRAINING, since=now - 20.5, paid_since=now - 3000),
    ]
    figures = {"queued": 12, "running": 6, "slots": 24, "free": 2, "oldest_s": 960.0, "size": 7, "needed": 3}
    stage.manage(nodes=nodes, why=WHY, added=12, removed=5, undone=1, **figures)


# -- status ---------------------------------------------------------------------------------------------------------


def test_a_cluster_that_grows(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    code, lines, err = stage.type(capsys, "status")
    assert (code, err) == (exit_codes.OK, "")
    assert lines[:-1] == [
        HEADING,
        "queue all.q of gridengine: 12 jobs wait, the oldest for 960 s; 6 run; 24 slots, 2 free",
        "7 nodes, limits 1 to 20; 1 is being added, 1 is being removed; the queue needs 3 nodes more",
        "the queue was seen 12 s ago, and will be again in 48 s",
        "decided: 1 node is added: the oldest job has waited 960 s, and the jobs that wait need 24 slots, 0",
        "  are free, 4 come",
        "decided: 2 nodes are not added in this poll: at most 1 at once",
        "node     stage     since",
        "node005  joining   2 min",
        f"  failed 3 times: {NO_ANSWER}",
        "node004  draining  20 s",
        "nodes in all: 12 added, 5 removed, 1 undone",
        "state       nodes",
        "manages         1  10.0.0.1",
        "other node     10  10.0.0.[2-11]",
    ]
    assert lines[-1].startswith("11 of 11 answered in ")


def test_the_json_fits(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    for word in ("status", "why", "nodes"):
        code, lines, _ = stage.type(capsys, word, "--json")
        found = fitting(f"elastic-{word}", lines[0])
        growth = found["growth"]
        assert (code, growth["size"], growth["poll"][-1], len(growth["nodes"])) == (exit_codes.OK, 7, "Z", 4)
        assert found["asked"] == (11 if word == "status" else 1)
    assert [each["minute"] for each in growth["nodes"]] == [None, 23, 3, 50]


def test_before_there_was_a_plan(stage: ElasticStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "status")
    never = "no cluster is elastic: no plan was published; `subord elastic set` publishes one"
    assert (code, lines[0]) == (exit_codes.OK, never)
    assert lines[1:-1] == [
        "elastic.batch is configured on 10.0.0.1: gridengine",
        "state  nodes",
        "none      11  10.0.0.[1-11]",
    ]
    for word in ("why", "nodes"):
        code, lines, _ = stage.type(capsys, word)
        assert (code, lines) == (exit_codes.OK, [never])
        code, lines, _ = stage.type(capsys, word, "--json")
        assert (code, fitting(f"elastic-{word}", lines[0])["growth"]) == (exit_codes.OK, None)


def test_a_plan_that_is_off(stage: ElasticStage, capsys: Said) -> None:
    stage.has_queue(1, "")
    stage.hold(3, Plan(manager=0))
    stage.say(State(word=OFF, version=3))
    off = "version 3 published by ann at 2026-11-26 08:33:20 UTC: elastic growth is off; nodes stay as they are"
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[:-1]) == (exit_codes.OK, [off, "state  nodes", "off       11  10.0.0.[1-11]"])
    assert stage.type(capsys, "why")[:2] == (exit_codes.OK, [off])


def test_a_plan_of_a_later_release(stage: ElasticStage, capsys: Said) -> None:
    stage.hold(3, b"{}")
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[0].endswith(": this release cannot read it")


def test_nodes_that_do_not_follow_are_named_first(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    stage.say(State(word=NO_AGENT, version=2), 7, 8)
    stage.say(State(word=OTHER_NODE, version=1), 4)
    stage.say(State(word=FAILED, version=2, detail="/etc/hosts cannot be written\x1b"), 9)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[lines.index("state       nodes") : -1] == [
        "state       nodes",
        "failed          1  10.0.0.9",
        "  the agent cannot manage the cluster; no node is added or removed: /etc/hosts cannot be written?",
        "no agent        2  10.0.0.[7-8]",
        "  there is no agent on the node, or it cannot be reached: start subord-agent.socket",
        "other node      1  10.0.0.4",
        "  another node has the queue",
        "  version 1 of the plan is there, not version 2",
        "manages         1  10.0.0.1",
        "other node      6  10.0.0.[2-3,5-6,10-11]",
        "4 nodes do not follow the plan: failed, no agent, other node",
    ]


def test_the_manager_is_down(stage: ElasticStage, capsys: Said) -> None:
    """The second root of the tree answers for the others."""
    grow(stage)
    stage.hold(3, Plan(manager=9, options=stage.plan.options if stage.plan else None))
    stage.world.gone = {9}
    silent = "what the queue's node sees is not known: 10.0.0.9 has told nothing"
    for word in ("status", "why", "nodes"):
        code, lines, _ = stage.type(capsys, word)
        assert (code, lines[1]) == (exit_codes.NOT_REACHED, silent)
        assert lines[-1].endswith("; missing: 10.0.0.9 down")
        code, lines, _ = stage.type(capsys, word, "--json")
        assert (code, fitting(f"elastic-{word}", lines[0])["growth"]) == (exit_codes.NOT_REACHED, None)


def test_a_manager_that_is_no_member(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    stage.hold(3, Plan(manager=99, options=stage.plan.options if stage.plan else None))
    stage.say(State(word=OTHER_NODE, version=3))
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[1]) == (
        exit_codes.NOT_REACHED,
        "what the queue's node sees is not known: 10.0.0.99 has told nothing",
    )
    assert lines[-1].startswith("11 of 11 answered in ")


def test_a_manager_that_says_as_the_others(stage: ElasticStage, capsys: Said) -> None:
    """The others follow the plan."""
    grow(stage)
    stage.say(State(word=OTHER_NODE, version=2), 1)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert [each for each in lines if each.startswith("other node")] == [
        "other node      1  10.0.0.1",
        "other node     10  10.0.0.[2-11]",
    ]
    assert "1 node does not follow the plan: other node" in lines


@over("word", ["status", "why", "nodes"])
def test_a_manager_that_fails(word: str, capsys: Said) -> None:
    stage = ElasticStage()
    grow(stage)
    detail = "elastic.batch is gridengine, and there is no qstat; nothing was changed: set SGE_ROOT"
    stage.say(State(word=FAILED, version=2, detail=detail), 1)
    with fake_daemon(stage.node) as stage.path:
        code, lines, _ = stage.type(capsys, word)
    assert (code, lines[1]) == (
        exit_codes.NOT_REACHED,
        "what the queue's node sees is not known: 10.0.0.1 has told nothing",
    )
    assert "there is no qstat" in " ".join(" ".join(lines).split())


@over("word", ["status", "why", "nodes"])
def test_a_manager_whose_agent_ended(word: str, capsys: Said) -> None:
    """The figures from before are shown with their age."""
    stage = ElasticStage()
    grow(stage)
    stage.say(msgspec.structs.replace(stage.world.known[1].elastic.state, word=NO_AGENT), 1)
    with fake_daemon(stage.node) as stage.path:
        code, lines, _ = stage.type(capsys, word)
    assert code == exit_codes.NOT_REACHED
    assert lines[1].startswith("no agent: there is no agent on the node, or it cannot be reached: start subord-agent")
    assert "what follows is from before" in f"{lines[1]} {lines[2].strip()}"


def test_nodes_of_an_older_release(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    stage.world.older = {8}
    stage.world.lying[9] = b"\xff"
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[-2] == "the answers of 1 node cannot be read: they are of another release"
    assert lines[-1].endswith("; missing: 10.0.0.8 older release")


def test_some_nodes_below_the_state_of_the_cluster(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    code, lines, _ = stage.type(capsys, "status", "10.0.0.[4-5]")
    assert code == exit_codes.OK
    assert lines[2].startswith("7 nodes, limits 1 to 20")
    assert lines[-2] == "other node      2  10.0.0.[4-5]"
    assert lines[-1].startswith("2 of 2 answered in ")


def test_a_poll_that_failed_and_nodes_that_cannot_be_added(stage: ElasticStage, capsys: Said) -> None:
    stage.manage(
        fault="qstat: cannot contact qmaster", at=stage.now - 400, next_at=0.0, blocked_since=stage.now - 3700
    )
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.OK
    assert lines[1:6] == [
        "queue all.q of gridengine: no job waits; 0 run; 0 slots, 0 free",
        "0 nodes, limits 1 to 20",
        "the queue was seen 6 min ago",
        "the last look at the queue failed: qstat: cannot contact qmaster",
        "nodes are wanted, and for 1 h none could be added",
    ]


def test_a_trial_before_its_first_poll(stage: ElasticStage, capsys: Said) -> None:
    stage.manage(at=0.0, next_at=0.0)
    assert stage.plan is not None
    stage.hold(3, Plan(manager=1, options=stage.plan.options, is_trial=True))
    code, lines, _ = stage.type(capsys, "status")
    assert lines[0].endswith(": 10.0.0.1 has the queue; it is a trial, and nothing is done")
    assert lines[1] == "the queue was not seen yet"
    assert code == exit_codes.NOT_REACHED, "all nodes have the version before"


def test_nodes_have_names(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    stage.world.names |= {"10.0.0.1": "head", "10.0.0.2": "w2"}
    stage.say(State(word=NO_AGENT, version=2), 2)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[0].endswith(": head (10.0.0.1) has the queue")
    assert "no agent        1  w2" in lines
    _, lines, _ = stage.type(capsys, "nodes", "--addresses")
    assert lines[0] == HEADING


# -- why and nodes --------------------------------------------------------------------------------------------------


def test_the_sentences_of_the_last_decision(stage: ElasticStage, capsys: Said) -> None:
    stays = "node003 stays: it is paid for, and in minute 23 of 45 of its hour"
    waits = "2 nodes are not added: the oldest job has waited 340 of 900 s"
    stage.manage(why=(waits, stays), queued=4, running=1, slots=8, oldest_s=340.2, size=2, needed=2)
    code, lines, _ = stage.type(capsys, "why")
    assert code == exit_codes.OK
    assert lines[:-1] == [
        HEADING,
        "queue all.q of gridengine: 4 jobs wait, the oldest for 340 s; 1 runs; 8 slots, 0 free",
        "2 nodes, limits 1 to 20; the queue needs 2 nodes more",
        "the queue was seen 12 s ago, and will be again in 48 s",
        "decided:",
        f"  {waits}",
        f"  {stays}",
    ]
    assert lines[-1].startswith("1 of 1 answered in ")
    assert [str(targets.pairs) for _, targets, _ in stage.node.orders.given if targets] == ["((1, 1),)"]


def test_the_table_of_nodes(stage: ElasticStage, capsys: Said) -> None:
    grow(stage)
    code, lines, _ = stage.type(capsys, "nodes")
    assert code == exit_codes.OK
    assert lines[1:-1] == [
        "name     address   stage     since   jobs  slots   idle  minute",
        "node1    10.0.0.1  master    -          1    2/4      -       -",
        "node003  10.0.1.3  serving   25 min     0    0/4  2 min      23",
        "node004  10.0.1.4  draining  20 s       0    0/0      -      50",
        "node005  10.0.1.5  joining   2 min      0    0/0      -       3",
        f"  failed 3 times: {NO_ANSWER}",
    ]
    stage.manage(nodes=[NodeState(name="node002", stage=Stage.STARTING, kind="large")], left_out=3)
    _, lines, _ = stage.type(capsys, "nodes")
    assert lines[1:-1] == [
        "name     address  kind   stage     since  jobs  slots  idle  minute",
        "node002  -        large  starting  -         0    0/0     -       -",
        "3 nodes more had no room in the answer",
    ]


# -- bounds ---------------------------------------------------------------------------------------------------------


async def test_an_answer_has_room_for_very_much() -> None:
    world = ElasticNodes()
    long = "\N{EURO SIGN}" * 400
    nodes = [NodeState(name=f"node{n:03}", address=f"10.0.1.{n}", fault=long) for n in range(NODES_MAX)]
    world.manage(nodes=nodes, why=(long,) * WHY_MAX, fault=long, batch=long, oldest_s=float("-inf"), left_out=1)
    node = world.world.known[1]
    assert len(await answer(node, b"")) <= RESULT_BYTES_MAX
    found = told(node).managing
    assert found is not None
    assert (len(found.nodes) + found.left_out, found.oldest_s) == (NODES_MAX + 1, 0.0)
    assert (len(found.why) + found.why_left_out, bool(found.why)) == (WHY_MAX, True)


async def test_usual_nodes_have_all_room() -> None:
    world = ElasticNodes()
    at = world.now
    nodes = [
        NodeState(
            name=f"node{n:03}",
            address=f"10.0.101.{n}",
            stage="serving",
            since=at,
            slots=16,
            used=16,
            jobs=4,
            paid_since=at,
        )
        for n in range(NODES_MAX)
    ]
    world.manage(nodes=nodes)
    found = told(world.world.known[1]).managing
    assert found is not None
    assert (len(found.nodes), found.left_out) == (NODES_MAX, 0)


async def test_the_polls_of_a_node(stage: ElasticStage) -> None:
    from subord.client.daemon import ask

    stage.node.elastic.polls = [Poll(1.6e9, 3, 2, 1, 12, 60.5, 12.25, 0.5)]
    found = ask(stage.path, "/v1/elastic/polls")
    assert found["polls"][0]["time"] == "2020-09-13T12:26:40.000Z"
    assert (found["polls"][0]["num_hosts"], found["polls"][0]["avg_load"]) == (3, 0.5)
