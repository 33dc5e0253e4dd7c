"""New locks for a house whose people come and go: real daemons change their key while some of them are away."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from netlab.lab import Lab

from .lab_helpers import SUBORD, command, settled, wait_until

pytestmark = pytest.mark.lab(few=True)

NODES = 20
WHOLE_S_MAX = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WHOLE_S_MAX, nodes=NODES, fanout=3, timing="lab") as lab:
        yield lab


TRY_AGAIN = 75  # the root has just died


def key(lab: Lab, position: int, *words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """`subord key ...` on one node."""
    done = command(lab, position, "key", *words, "--json")
    assert done.returncode in codes, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    return found


def test_commands_on_a_node_sign_as_the_operator_of_the_lab(lab: Lab) -> None:
    done = lab.run(3, SUBORD, "operator", "sign", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    accepted = [line.split()[0] for line in done.stdout.splitlines() if "accepted as operator" in line]
    assert accepted == ["files", "hosts", "identity", "keys", "members", "metrics", "plans", "shares"]


def rings(lab: Lab, position: int) -> list[tuple[int, tuple[str, ...], int]]:
    """(revision, names of keys, nodes), the newest first."""
    listed = key(lab, position, "list", codes=(0, TRY_AGAIN)).get("rings", ())
    return [(ring["revision"], tuple(ring["keys"]), ring["nodes"]) for ring in listed]


def until_all_have(lab: Lab, revision: int, nodes: int, at: int = 2) -> None:
    until = time.monotonic() + WHOLE_S_MAX
    while {each[::2] for each in rings(lab, at)} != {(revision, nodes)}:
        assert time.monotonic() < until, rings(lab, at)
        time.sleep(0.2)


def test_a_rotation_under_churn_brings_everybody_to_the_new_key(lab: Lab) -> None:
    ((_, (old,), _),) = rings(lab, 7)
    lab.kill(11)  # 5 % are down all the time
    new = key(lab, 7, "install", "--timeout", "60")["key"]
    lab.kill(3)  # an interior node dies between the steps
    lab.kill(19)
    lab.start(19)
    key(lab, 8, "use", new, "--timeout", "60")
    lab.start(3)
    until_all_have(lab, 2, NODES - 1)
    lab.kill(1)  # the root, which made the rings; another makes the next
    lab.start(11)
    until_all_have(lab, 2, NODES - 1)
    lab.start(1)
    until_all_have(lab, 2, NODES)
    wait_until(lambda: lab.document(9, "/v1/members")["complete"], "the root knows that these are all")
    assert key(lab, 9, "remove", old, "--timeout", "60")["everybody"] is True
    until_all_have(lab, 3, NODES, at=20)
    assert {each[1] for each in rings(lab, 20)} == {(new,)}
    everybody = {lab.address(each) for each in lab.positions}
    lab.wait(lambda cluster: cluster.settled_at(everybody) is not None, WHOLE_S_MAX)


def test_a_key_is_not_removed_while_somebody_may_need_it(lab: Lab) -> None:
    ((_, (old,), _),) = rings(lab, 1)
    new = key(lab, 1, "install")["key"]
    key(lab, 1, "use", new)
    lab.kill(14, signal.SIGSTOP)
    refused = key(lab, 1, "remove", old, codes=(1,))
    assert "1 of the nodes have not answered that they have the newest ring: 10.0.0.14" in refused["error"]
    assert rings(lab, 1)[0][1] == (new, old)
    lab.kill(14, signal.SIGCONT)
