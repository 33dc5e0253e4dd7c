"""Identities of real daemons: a stolen address, a revoked node, strict mode, and keys that survive restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab

from subord.client.daemon import change
from subord.client.errors import CommandError

from .lab_helpers import SUBORD, settled

pytestmark = pytest.mark.lab(few=True)

NODES = 8
WAIT_S_MAX = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab") as lab:
        until(lambda: all(all_are_known(lab, each) for each in range(1, NODES + 1)), "every node knows all keys")
        yield lab


def until(condition: Callable[[], bool], what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.2), what


def ordered(lab: Lab, position: int, *words: str) -> str:
    done = lab.run(position, SUBORD, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def members(lab: Lab, position: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.document(position, "/v1/members")["members"]
    return found


def identities(lab: Lab, position: int) -> dict[str, str | None]:
    return {each["address"]: each["identity"] for each in members(lab, position)}


def all_are_known(lab: Lab, position: int) -> bool:
    known = identities(lab, position)
    return len(known) == NODES and None not in known.values()


def up(lab: Lab, position: int) -> set[str]:
    return {each["address"] for each in members(lab, position) if each["standing"] == "live"}


def down(lab: Lab, position: int) -> set[str]:
    return {each["address"] for each in members(lab, position) if each["standing"] in ("gone", "missing")}


def problems(lab: Lab, position: int) -> str:
    return json.dumps(lab.document(position, "/v1/errors", 8.0)["problems"])


def test_all_nodes_know_the_same_keys_and_they_survive_a_restart(lab: Lab) -> None:
    before = identities(lab, 1)
    assert before == identities(lab, 5) == identities(lab, 8)
    lab.kill(3, 15)
    lab.wait(lambda cluster: cluster.nodes[lab.address(3)].exited, WAIT_S_MAX)
    until(lambda: lab.address(3) not in up(lab, 1), "it has left")
    lab.start_and_wait(3)
    until(lambda: lab.address(3) in up(lab, 1), "it is back")
    assert identities(lab, 1) == before


def test_another_host_with_the_address_of_a_node_is_refused_and_named_until_the_node_is_forgotten(lab: Lab) -> None:
    """The impostor has the key of the cluster, as a compromised node has."""
    address, before = lab.address(6), identities(lab, 1)[lab.address(6)]
    lab.replace(6)
    lab.start(6)
    until(lambda: "another key is pinned" in problems(lab, 1), "it is named")
    until(lambda: address not in up(lab, 1), "the former host is given up, and this one is not taken")
    assert identities(lab, 8).get(address, before) == before
    until(lambda: address in down(lab, 4), "it is down")
    until(lambda: lab.document(4, "/v1/members")["complete"], "the root knows all members")

    def is_forgotten() -> bool:
        """Its row is missing at once; the register may call it down later."""
        done = lab.run(4, SUBORD, "forget", address, "--reason", "its host was replaced")
        assert done.returncode == 0 or "has just vanished" in done.stderr, done.stderr
        return done.returncode == 0

    until(is_forgotten, "it can be forgotten")
    until(lambda: address in up(lab, 1), "its new key is taken")
    until(lambda: identities(lab, 8).get(address) not in (None, before), "and all nodes know it")


def test_a_revoked_node_is_out_within_seconds_and_comes_back(lab: Lab) -> None:
    address = lab.address(2)
    ordered(lab, 7, "operator", "revoke", "--node", address, "--reason", "stolen")
    until(lambda: address not in up(lab, 1), "it is out")
    until(lambda: len(up(lab, 1)) == NODES - 1, "its subordinates have other leaders")
    ordered(lab, 7, "operator", "revoke", "--node", address, "--undo")
    until(lambda: len(up(lab, 1)) == NODES, "it is back")


def test_no_order_without_an_operator(lab: Lab, tmp_path: Path) -> None:
    """The former requests of releases without operators are refused, and a key that no node knows gives no orders."""
    for path in ("/v1/keys/install", "/v1/members/forget?nodes=1&reason=x&by=y"):
        with pytest.raises(CommandError):
            change(str(lab.control_socket(5)), path)
    make_key = f"ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/stranger"
    done = lab.run(5, "sh", "-c", f"{make_key} && {SUBORD} key install --key {tmp_path}/stranger")
    assert done.returncode != 0
    assert "no line of this node's operators file has the key of the signature" in done.stderr


def test_strict_mode_is_known_to_all_nodes(lab: Lab) -> None:
    ordered(lab, 8, "operator", "strict", "on")
    until(lambda: len(up(lab, 1)) == NODES, "all have identities, so nothing changes")
    lab.kill(4)
    lab.start_and_wait(4)
    until(lambda: len(up(lab, 1)) == NODES, "it proves its identity again")
    ordered(lab, 8, "operator", "strict", "off")
