"""Orders with effects on real daemons and agents: once on each node, whatever is resent, altered, or dies."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import toy_services
from netlab.common.waiting import wait_until
from netlab.experiments import agent_faults
from netlab.experiments.signing import HOUR_MS, SERVICES, Operator, times
from netlab.lab import Lab
from netlab.processes.rundir import POLICY

from subord.client.errors import CommandError
from subord.core.carriage.engine.bounds import LEASE_S

from .lab_helpers import SUBORD, settled

pytestmark = pytest.mark.lab(few=True)

NODES = 7
WAIT_S_MAX = 60.0
LATE_S = 20.0  # on a busy machine
ENDED_S_MAX = 12.0
"""Less than LEASE_S. On a machine with nothing else to do it is less than 3 s."""


CODE = (
    f"import sys; sys.path.insert(0, {str(Path(toy_services.__file__).parent)!r}); import toy_services; "
    "toy_services.register(); from subord.cli import main; sys.exit(main())"
)
COMMAND = (str(Path(SUBORD).with_name("python")), "-c", CODE)
"""`subord` with the services of tests."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    options = {"agents": True, "services": str(SERVICES)}
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", **options) as lab:
        until(lambda: ping(lab)["told"] == NODES, "all nodes answer")
        yield lab


def until(condition: Any, what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.05), what


def ping(lab: Lab, *words: str) -> dict[str, Any]:
    done = lab.run(5, SUBORD, "ping", "--json", *words)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def operator(lab: Lab) -> Operator:
    return Operator(lab)


def acted(lab: Lab, name: str) -> list[int]:
    """How often each node acted."""
    return list(times(lab, name).values())


def causes(found: dict[str, Any]) -> dict[str, int]:
    return {each["cause"]: each["count"] for each in found["missing"]}


def test_a_signed_order_runs_once_everywhere_and_a_resent_one_not_again(lab: Lab, operator: Operator) -> None:
    body = operator.order("once")
    found = operator.give(body)
    assert (found["told"], found["results"], found["complete"]) == (NODES, {"touched": NODES}, True)
    assert acted(lab, "once") == [1] * NODES
    for at in (5, 1, 7):
        assert operator.give(body, at)["results"] == {"touched": NODES}
    assert acted(lab, "once") == [1] * NODES
    assert (lab.directory.node(3) / "once").read_text() == "operator as root\n"
    assert "order touch of operator as root accepted" in (lab.directory.node(3) / "agent.log").read_text()


def test_the_command_signs_the_order_itself(lab: Lab) -> None:
    """The command of a service that only tests have."""
    done = lab.run(6, *COMMAND, "touch", "typed", lab.address(2), lab.address(4))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("touched: 2\n2 of 2 answered in ")
    assert acted(lab, "typed") == [0, 1, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("given", "changes", "cause"),
    [
        ({}, {"authority": ""}, "unsigned"),
        ({}, {"payload": base64.b64encode(b'{"file": "refused", "waits": false}').decode()}, "altered"),
        ({}, {"tag": base64.b64encode(bytes(16)).decode()}, "altered"),
        ({"nodes": "2-3"}, {"nodes": None}, "altered"),
        ({"shift_ms": -HOUR_MS}, {}, "order expired"),
        ({"shift_ms": HOUR_MS}, {}, "not yet valid"),
        ({"namespace": "subord.members"}, {}, "wrong namespace"),
        ({"user": "nobody"}, {}, "denied"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_does_not_count_is_refused_by_every_agent(
    lab: Lab, operator: Operator, given: dict[str, Any], changes: dict[str, Any], cause: str
) -> None:
    body = {**operator.order("refused", **given), **changes}
    assert causes(operator.give(body)) == {cause: NODES}
    assert acted(lab, "refused") == [0] * NODES


def test_a_stranger_and_an_operator_without_the_power_are_refused(
    lab: Lab, tmp_path: Path, operator: Operator
) -> None:
    keys = {name: tmp_path / name for name in ("stranger", "mia")}
    for path in keys.values():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    before = lab.directory.operators.read_text()
    line = f'mia namespaces="subord.members" {keys["mia"].with_suffix(".pub").read_text()}'
    lab.directory.operators.write_text(before + line)
    try:
        for name, cause in (("stranger", "unknown principal"), ("mia", "not permitted")):
            other = Operator(lab, keys[name])
            assert causes(other.give(other.order("refused"))) == {cause: NODES}
    finally:
        lab.directory.operators.write_text(before)
    assert acted(lab, "refused") == [0] * NODES
    until(
        lambda: "is refused by the agent" in json.dumps(lab.document(3, "/v1/errors")["problems"]), "it is a problem"
    )


@pytest.mark.parametrize(
    ("policy", "mode", "cause"),
    [(POLICY.replace("touch", "x").replace('"*"', '"x"'), 0o644, "denied"), (POLICY, 0o666, "bad mode")],
)
def test_the_policy_decides(lab: Lab, operator: Operator, policy: str, mode: int, cause: str) -> None:
    file = lab.directory.policy
    file.write_text(policy)
    file.chmod(mode)
    try:
        assert causes(operator.give(operator.order("refused"))) == {cause: NODES}
    finally:
        file.write_text(POLICY)
        file.chmod(0o644)
    assert acted(lab, "refused") == [0] * NODES


def test_an_agent_killed_in_the_middle_does_not_act_again(lab: Lab, operator: Operator) -> None:
    """Its outcome is unknown, also after a restart of the daemon, which had it from the agent."""
    go = [lab.directory.node(each) / "go" for each in (2, 3)]
    body = operator.order("middle", nodes="2-3", waits=True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(operator.give, body)
        until(lambda: acted(lab, "middle")[1:3] == [1, 1], "both act")
        assert lab.kill_agent(3)
        go[0].touch()
        found = asked.result()
    assert found["results"] == {"touched": 1}
    assert causes(found) == {"outcome unknown": 1}
    go[1].touch()
    restart(lab, 3)
    again = operator.give(body)
    assert (again["results"], causes(again)) == ({"touched": 1}, {"outcome unknown": 1})
    assert acted(lab, "middle")[1:3] == [1, 1]
    for each in go:
        each.unlink()


def restart(lab: Lab, position: int) -> None:
    """The daemon and the agent of a node."""
    lab.kill_agent(position)
    lab.kill(position)
    lab.start_and_wait(position)
    until(lambda: ping(lab)["told"] == len(lab.positions), "it is back")


def test_a_known_outcome_survives_agent_and_daemon(lab: Lab, operator: Operator) -> None:
    body = operator.order("survives", nodes="4,6")
    assert operator.give(body)["results"] == {"touched": 2}
    restart(lab, 4)
    lab.kill_agent(6)
    found = operator.give(body, 1)
    assert (found["results"], found["missing"]) == ({"touched": 2}, [])
    assert acted(lab, "survives") == [0, 0, 0, 1, 0, 1, 0]


def test_receipts_of_all_nodes(lab: Lab, operator: Operator) -> None:
    until(lambda: ping(lab, "--receipts")["told"] == NODES, "the keys of all nodes are known")
    found = operator.give({**operator.order("receipts"), "receipts": True}, 5)
    assert found["results"] == {"touched": NODES}


def test_a_revoked_operator_is_refused_by_every_agent(lab: Lab, tmp_path: Path) -> None:
    key = tmp_path / "leaver"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    before = lab.directory.operators.read_text()
    lab.directory.operators.write_text(before + f"leaver {key.with_suffix('.pub').read_text()}")
    policy = POLICY + POLICY.replace('"operator"', '"leaver"')
    lab.directory.policy.write_text(policy)
    leaver = Operator(lab, key)
    assert leaver.give(leaver.order("leaver"))["results"] == {"touched": NODES}
    done = lab.run(2, SUBORD, "operator", "revoke", "leaver", "--reason", "left")
    assert done.returncode == 0, done.stderr
    until(
        lambda: all("leaver" in json.dumps(revocations(lab, each)) for each in lab.positions),
        "all nodes have the list",
    )
    assert causes(leaver.give(leaver.order("revoked"))) == {"revoked": NODES}
    assert acted(lab, "revoked") == [0] * NODES


def revocations(lab: Lab, position: int) -> Any:
    return lab.document(position, "/v1/operators")["revocations"]


def lines(lab: Lab, name: str, word: str) -> int:
    """The nodes on which a leased service began, or ended."""
    files = [lab.directory.node(each) / name for each in lab.positions]
    return sum(word in file.read_text() for file in files if file.exists())


def test_an_interrupted_command_ends_what_runs_on_all_nodes(lab: Lab) -> None:
    environment = {
        "SUBORD_SOCKET": str(lab.control_socket(6)),
        "SUBORD_OPERATOR_KEY": str(lab.directory.operator_key),
    }
    with subprocess.Popen([*COMMAND, "linger", "interrupted"], env=os.environ | environment) as command:
        until(lambda: lines(lab, "interrupted", "began") == NODES, "all act")
        assert lines(lab, "interrupted", "ended") == 0
        command.send_signal(signal.SIGINT)
        assert command.wait(WAIT_S_MAX) != 0
    assert wait_until(lambda: lines(lab, "interrupted", "ended") == NODES, ENDED_S_MAX, 0.02)


def test_what_runs_ends_within_its_lease_when_the_issuer_dies(lab: Lab, operator: Operator) -> None:
    """Also on the node of the issuer, whose agent lives."""
    body = operator.order("alone", service="linger", run_s=60.0)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(operator.give, body, 5, "linger")
        until(lambda: lines(lab, "alone", "began") == NODES, "all act")
        lab.kill(5)
        with pytest.raises(CommandError):
            asked.result()
    assert wait_until(lambda: lines(lab, "alone", "ended") == NODES, LEASE_S + LATE_S, 0.05), (
        "before its 60 s are over"
    )
    lab.start_and_wait(5)
    until(lambda: ping(lab)["told"] == NODES, "it is back")
    assert causes(operator.give(body, 5, "linger")) == {"lease over": NODES}
    assert lines(lab, "alone", "began\nended\nbegan") == 0


def test_each_fault_is_named_at_the_nodes_concerned_alone(lab: Lab) -> None:
    """The last test: four nodes have no agent from now on. With 300 nodes: `netns-lab/lab evaluate agents`."""
    plan = agent_faults.Plan(nodes=(NODES,), quiet_s=0.5)
    turns = [agent_faults.turn_of(lab, plan, fault) for fault in agent_faults.FAULTS]
    record = {"nodes": NODES, "repeat": 0, "fault": None, "turns": json.loads(json.dumps(turns))}
    assert agent_faults.faults_of(record) == []
    shown = agent_faults.table([record])
    assert shown.endswith("held")
    assert "4 no journal" in shown


RIGHT = {"nodes": "1-2", "at": 1, "took_s": 0.1, "told": 1, "missing": {"no agent": "2"}}
TURN = {"harm": "no agent", "concerned": "2", "answers": [RIGHT, RIGHT], "wrong_times": {}, "moved": {}}


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ({"answers": [{**RIGHT, "missing": {"silent": "2"}}]}, "1 of 2 told, missing: {'silent': '2'}"),
        ({"answers": [{**RIGHT, "told": 0, "missing": {"no agent": "1-2"}}]}, "0 of 2 told"),
        ({"answers": [{**RIGHT, "told": 2, "missing": {}}]}, "2 of 2 told"),
        ({"wrong_times": {"1": 2}}, "1 acted 2 times"),
        ({"moved": {"10.0.0.1": 1}}, "10.0.0.1 moved"),
    ],
)
def test_an_evaluation_that_did_not_hold_says_why(worse: dict[str, Any], words: str) -> None:
    record = {"nodes": 2, "repeat": 0, "fault": None, "turns": [{**TURN, **worse}]}
    assert not agent_faults.is_whole(record)
    assert agent_faults.is_whole({**record, "turns": [TURN]})
    (found,) = agent_faults.faults_of(record)
    assert words in found
