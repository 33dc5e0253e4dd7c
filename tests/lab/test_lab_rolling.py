"""Old and new daemons beside each other: one tree, an upgrade node by node without a gap, and the way back.

Old ones are those of the wheel in tests/releases, new ones those of this directory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from netlab.errors import LabError
from netlab.lab import Lab
from releases import PREVIOUS, wheel_of

import subord
from subord.client import daemon
from subord.client.errors import CommandError
from subord.core.address.numbering import numbering

from .lab_helpers import run_lab

pytestmark = pytest.mark.lab

WHEEL = wheel_of(PREVIOUS)
NODES = 20
OLD = [position for position in range(1, NODES + 1) if position % 4 in (1, 2)]
SETTLED_S_MAX = 30.0
COMPUTED = {p: numbering("complete", 2).computed_leader(p) for p in range(1, NODES + 1)}


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Sealed, half old, half new, with edges from each to each; the root is old."""
    kinds = {(position in OLD, leader in OLD) for position, leader in COMPUTED.items() if leader}
    assert len(kinds) == 4
    with Lab(nodes=NODES, fanout=2, timing="lab", previous=WHEEL, old=OLD) as lab:
        lab.start_all()
        settle(lab)
        yield lab
        assert list(events(lab, "refused")) == []


def settle(lab: Lab, *away: int) -> None:
    """Until the living are one tree, and stand where they should if all live."""
    living = {lab.address(position) for position in lab.positions if position not in away}
    lab.wait(lambda cluster: cluster.settled_at(living) is not None, SETTLED_S_MAX)
    if not away:
        lab.wait(lambda cluster: leaders(lab) == COMPUTED and cluster.settled_at(living) is not None, SETTLED_S_MAX)


def leaders(lab: Lab) -> dict[int, int | None]:
    return {position: leader for position, (_, leader) in lab.places().items()}


def events(lab: Lab, name: str) -> Iterator[dict[str, Any]]:
    lab.look()
    return (event for event in lab.events if event["event"] == name)


def ask(lab: Lab, position: int, target: str) -> daemon.Document:
    return daemon.ask(str(lab.control_socket(position)), target)


def versions(lab: Lab) -> dict[int, str]:
    return {position: ask(lab, position, "/v1/status")["version"] for position in lab.positions}


def command(lab: Lab, position: int, *words: str, old: bool) -> str:
    """What `subord ...` of either release prints when it asks the daemon of that node."""
    path = lab.previous_tree if old else os.path.dirname(os.path.dirname(subord.__file__))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "subord", *words, "--socket", str(lab.control_socket(position))],
        env={**os.environ, "PYTHONPATH": str(path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until_told(lab: Lab, position: int, *words: str, old: bool, told: Callable[[str], bool]) -> None:
    """Until the command prints that: on a busy machine an answer may be late, and the first one incomplete."""
    lab.wait(lambda _: told(command(lab, position, *words, old=old)), SETTLED_S_MAX)


def is_whole(text: str) -> bool:
    tree = json.loads(text)
    return (tree["nodes"], tree["complete"]) == (NODES, True)


def replace(lab: Lab, *positions: int, release: str) -> None:
    """`systemctl stop`, another package, `systemctl start`; the others are one tree meanwhile."""
    for position in positions:
        lab.kill(position, signal.SIGTERM)
    lab.wait(lambda cluster: all(cluster.nodes[lab.address(p)].exited for p in positions), SETTLED_S_MAX)
    settle(lab, *positions)
    lab.start(*positions, release=release)  # type: ignore[arg-type]
    settle(lab)


def test_half_old_half_new_is_one_tree_and_is_upgraded_without_a_gap(lab: Lab) -> None:
    assert versions(lab) == {p: PREVIOUS if p in OLD else subord.__version__ for p in lab.positions}
    an_old, a_new = 5, 12
    for old_command in (False, True):
        for position, other in ((an_old, a_new), (a_new, an_old)):
            until_told(lab, position, "tree", "--json", old=old_command, told=is_whole)
            assert "home: subordinate of" in command(lab, position, "status", old=old_command)
            assert f"{lab.address(other)}  home" in command(lab, position, "why", lab.address(other), old=old_command)
            told_by_all = f"{NODES} of {NODES}"
            until_told(
                lab, position, "key", "list", old=old_command, told=lambda text, all_=told_by_all: all_ in text
            )
    with pytest.raises(CommandError, match="does not know /v1/members: it runs an older release"):
        ask(lab, an_old, "/v1/members")
    note = "10.0.0.1 (root) broke off its answer: subord 0.1 does not know members"
    lab.wait(lambda _: note in ask(lab, a_new, "/v1/members")["note"], SETTLED_S_MAX)

    first = lab.look().last_place_at
    replace(lab, 1, release="present")
    lab.wait(lambda _: ask(lab, a_new, "/v1/members")["complete"], SETTLED_S_MAX)  # whatever the others are
    for batch in (OLD[1:5], OLD[5:]):
        replace(lab, *batch, release="present")
    assert set(versions(lab).values()) == {subord.__version__}
    silent = [event for event in events(lab, "lost") if event["mono"] > first and event["cause"] == "silence"]
    assert silent == []  # all of it went by goodbyes


def test_old_and_new_measure_each_other_in_the_clear() -> None:
    old = [1, 4, 5, 8]
    with Lab(
        nodes=9, fanout=2, timing="lab", mapping="latency", insecure=True, previous=WHEEL, old=old, announce=True
    ) as lab:
        lab.start_all("reverse")
        lab.wait(lambda cluster: cluster.settled_at() is not None and len(cluster.live()) == 9, SETTLED_S_MAX)
        assert {p: ask(lab, p, "/v1/status")["version"] == PREVIOUS for p in lab.positions} == {
            p: p in old for p in lab.positions
        }

        def measured(position: int) -> bool:
            return ask(lab, position, "/v1/status")["ranking"]["leader_round_trip_s"] is not None

        led = [p for p, leader in leaders(lab).items() if leader]
        lab.wait(lambda _: all(map(measured, led)), SETTLED_S_MAX)
        assert {(p in old, leader in old) for p, leader in leaders(lab).items() if leader} >= {
            (True, False),
            (False, True),
        }


def test_what_cannot_be_a_release_is_refused_before_anything_starts(tmp_path: object) -> None:
    for words, reason in (
        (("--previous", tmp_path, "--old", "1"), "neither a wheel of subord nor a directory with the package in it"),
        (("--previous", __file__), "neither a wheel of subord"),
        (("--old", "1-3"), "give --previous FILE, too"),
        (("--previous", WHEEL, "--old", "7"), "No node of this lab has position 7"),
        (("--previous", WHEEL, "--exec"), "leave out --exec and --daemon"),
    ):
        done = run_lab("up", "--nodes", 3, "--name", f"test-releases-{os.getpid()}", *words)
        assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    done = run_lab("up", "--nodes", 3, "--old", "3-1")
    assert (done.returncode, "3-1 is no range of nodes" in done.stderr) == (2, True)
    with pytest.raises(LabError, match="give --previous FILE, too"):
        Lab(nodes=3, old=[1])


def test_a_lab_of_two_releases_on_the_command_line() -> None:
    name = f"test-two-{os.getpid()}"
    done = run_lab("up", "--nodes", 4, "--timing", "lab", "--name", name, "--previous", WHEEL, "--old", "1,3-4")
    assert done.returncode == 0, done.stderr
    try:
        shown = run_lab("status", "--name", name).stdout
        assert (shown.count("(previous release)"), shown.count("(present release)")) == (3, 1)
        assert run_lab("kill", "--name", name, 3).returncode == 0
        assert run_lab("start", "--name", name, 3, "--release", "present").returncode == 0
        shown = run_lab("status", "--name", name).stdout
        assert (shown.count("(previous release)"), shown.count("(present release)")) == (2, 2)
    finally:
        run_lab("down", "--name", name)
