"""Orders of real daemons: which nodes answer a ping, and which do not and why, when some hang, die, or are older."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab
from releases import PREVIOUS, wheel_of

from .lab_helpers import SUBORD

pytestmark = pytest.mark.lab

NODES = 31
SETTLED_S_MAX = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    with Lab(nodes=NODES, fanout=2, timing="lab") as lab:
        lab.start_all()
        lab.wait_stable(SETTLED_S_MAX)
        yield lab


@pytest.fixture
def lab(cluster: Lab) -> Lab:
    """All nodes answer before each test, and the root knows that these are all."""

    def is_whole() -> bool:
        found = ping(cluster, NODES)
        return bool(found["complete"]) and found["told"] == NODES

    assert wait_until(is_whole, SETTLED_S_MAX, 0.2)
    return cluster


def ping(lab: Lab, position: int, *words: str) -> dict[str, Any]:
    """What `subord ping --json` prints at a node. The exit code is 0 if and only if all have answered."""
    command = [SUBORD, "ping", "--json", "--addresses", "--socket", str(lab.control_socket(position)), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["told"] + sum(each["count"] for each in found["missing"]) == found["asked"]
    assert (done.returncode == 0) is (found["told"] == found["asked"] and found["complete"])
    return found


def remembers_all(lab: Lab, position: int) -> bool:
    """By the own register, which a root writes some seconds after it has seen a node."""
    code = (
        f"import urllib.request as u; print(u.urlopen('http://{lab.address(position)}:9717/metrics').read().decode())"
    )
    return f"subord_members_live {NODES}.0" in lab.run(position, sys.executable, "-c", code).stdout


def given(lab: Lab, position: int) -> int:
    """How many of the orders that the node has in memory, under way or ended, were given there."""
    found = lab.document(position, "/v1/orders")
    return sum(each["own"] for each in (*found["orders"], *found["ended"]))


def causes(found: dict[str, Any]) -> dict[str, str]:
    return {each["cause"]: each["nodes"] for each in found["missing"]}


@pytest.mark.parametrize("position", [1, 5, NODES])
def test_every_node_answers_at_any_node(lab: Lab, position: int) -> None:
    found = ping(lab, position)
    assert (found["asked"], found["told"], found["missing"]) == (NODES, NODES, [])
    assert [each["nodes"] for each in found["levels"]] == [1, 2, 4, 8, 16]
    assert found["levels"][0]["round_trip_ms_max"] is None
    assert wait_until(  # edges open some seconds after a start
        lambda: all(each["round_trip_ms_max"] for each in ping(lab, position)["levels"][1:]), SETTLED_S_MAX, 0.2
    )


def test_some_nodes_of_other_branches(lab: Lab) -> None:
    found = ping(lab, 20, "10.0.0.[2,15,31]")
    assert (found["asked"], found["told"]) == (3, 3)


def test_an_address_of_no_member(lab: Lab) -> None:
    assert causes(ping(lab, 20, "10.0.0.[3,99]")) == {"unknown": "10.0.0.99"}


def test_all_members_are_named_while_the_root_hangs(lab: Lab) -> None:
    """No node that answers knows all at first. Then another node is root, and only the former one is missing."""
    assert wait_until(lambda: remembers_all(lab, 31), SETTLED_S_MAX, 0.2)
    lab.kill(1, signal.SIGSTOP)
    try:
        found = ping(lab, 31, "--timeout", "0.6")
        assert (found["asked"], found["complete"]) == (NODES, False)
        assert wait_until(lambda: ping(lab, 31)["told"] == NODES - 1, SETTLED_S_MAX, 0.1)
        found = ping(lab, 31)
        assert (found["asked"], found["told"], found["complete"]) == (NODES, NODES - 1, False)
    finally:
        lab.kill(1, signal.SIGCONT)


@pytest.mark.parametrize("hung", [2, 10])
def test_around_a_node_that_hangs(lab: Lab, hung: int) -> None:
    """Only the hung node is missing."""
    lab.kill(hung, signal.SIGSTOP)
    try:
        found = ping(lab, 31)
        assert found["asked"] == NODES
        # On a busy machine the tree may have given it up by then.
        assert causes(found) in ({"silent": f"10.0.0.{hung}"}, {"down": f"10.0.0.{hung}"})
    finally:
        lab.kill(hung, signal.SIGCONT)


def test_problems_and_keys_around_a_node_that_hangs(lab: Lab) -> None:
    """The branch below it answers; it alone is named, also in what Prometheus and the last orders show."""
    before = lab.document(31, "/v1/errors?budget=8", 10.0)
    assert (before["nodes"], before["silent"], before["coverage"]["told"]) == (NODES, [], NODES)
    lab.kill(2, signal.SIGSTOP)
    try:
        errors = lab.document(31, "/v1/errors?budget=8", 10.0)
        keys = lab.document(31, "/v1/keys?budget=8", 10.0)
    finally:
        lab.kill(2, signal.SIGCONT)
    for found in (errors, keys):
        assert (found["silent"], found["silent_nodes"], found["complete"]) == (["10.0.0.2"], 1, True)
        (missing,) = found["coverage"]["missing"]
        assert (missing["cause"], missing["addresses"]) == ("silent", ["10.0.0.2"])
        assert (found["coverage"]["asked"], found["coverage"]["told"]) == (NODES, NODES - 1)
    assert errors["nodes"] == NODES - 1
    (ring,) = keys["rings"]
    assert ring["nodes"] == NODES - 1
    last, *_ = lab.document(31, "/v1/orders")["ended"]
    assert (last["service"], last["own"], last["told"], last["missing"]) == ("keys", True, NODES - 1, 1)


def test_a_node_that_died_is_named_until_it_returns(lab: Lab) -> None:
    lab.kill(5)
    try:
        assert wait_until(
            lambda: (found := ping(lab, 31))["told"] == NODES - 1 and causes(found) == {"down": "10.0.0.5"},
            SETTLED_S_MAX,
            0.2,
        )
    finally:
        lab.start_and_wait(5)


def test_an_order_that_is_out_when_an_interior_node_dies(lab: Lab) -> None:
    """2 hangs, so the order waits for it; then it is killed: every living node counts once."""
    before = given(lab, 9)
    lab.kill(2, signal.SIGSTOP)
    command = [SUBORD, "ping", "--json", "--socket", str(lab.control_socket(9))]
    asking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert wait_until(lambda: given(lab, 9) > before, SETTLED_S_MAX, 0.02), "the order is out"
    lab.kill(2)
    output, _ = asking.communicate(timeout=60)
    found = json.loads(output)
    lab.start_and_wait(2)
    assert found["told"] == NODES - 1
    assert [each["addresses"] for each in found["missing"]] == [["10.0.0.2"]]


def test_nodes_of_the_release_before_are_named_and_passed_by() -> None:
    """2 and 3 lead half of the tree each; nodes below them are asked directly."""
    with Lab(nodes=15, fanout=2, timing="lab", previous=wheel_of(PREVIOUS), old=[2, 3, 11]) as lab:
        lab.start_all()
        lab.wait_stable(SETTLED_S_MAX)
        expected = {"older release": "10.0.0.[2-3,11]"}
        assert wait_until(lambda: causes(ping(lab, 1)) == expected, SETTLED_S_MAX, 0.3)
        found = ping(lab, 15)
        assert (found["asked"], found["told"], causes(found)) == (15, 12, expected)
