"""Old and new daemons beside each other: one tree, an upgrade node by node without a gap, and the way back.

Old ones are those of a wheel in tests/releases, new ones those of this directory. The cluster of 0.2 is upgraded, up
to strict mode; daemons of 0.1 may still join.
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
from releases import OLDEST, PREVIOUS, wheel_of

import subord
from subord.client import daemon
from subord.client.errors import CommandError
from subord.core.address.numbering import numbering

from .lab_helpers import SUBORD, run_lab

pytestmark = pytest.mark.lab

WHEEL = wheel_of(PREVIOUS)
NODES = 20
OLD = [position for position in range(1, NODES + 1) if position % 4 in (1, 2)]
SETTLED_S_MAX = 60.0
COMPUTED = {p: numbering("complete", 2).computed_leader(p) for p in range(1, NODES + 1)}
PINS = 'subord_table_entries{table="pins"}'
READ = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=10).read().decode())"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Sealed, half old, half new, with edges from each to each; the root is old."""
    kinds = {(position in OLD, leader in OLD) for position, leader in COMPUTED.items() if leader}
    assert len(kinds) == 4
    with Lab(nodes=NODES, fanout=2, timing="lab", previous=WHEEL, old=OLD) as lab:
        lab.start_all()
        settle(lab)
        yield lab


def settle(lab: Lab, *away: int) -> None:
    """Until the living are one tree, and stand where they should if all live."""
    living = {lab.address(position) for position in lab.positions if position not in away}
    lab.wait(lambda cluster: cluster.settled_at(living) is not None, SETTLED_S_MAX)
    if not away:
        computed = {position: COMPUTED[position] for position in lab.positions}
        lab.wait(lambda cluster: leaders(lab) == computed and cluster.settled_at(living) is not None, SETTLED_S_MAX)


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


def is_whole(text: str, lab: Lab) -> bool:
    tree = json.loads(text)
    return (tree["nodes"], tree["complete"]) == (len(lab.positions), True)


def replace(lab: Lab, *positions: int, release: str) -> None:
    """`systemctl stop`, another package, `systemctl start`; the others are one tree meanwhile."""
    for position in positions:
        lab.kill(position, signal.SIGTERM)
    lab.wait(lambda cluster: all(cluster.nodes[lab.address(p)].exited for p in positions), SETTLED_S_MAX)
    settle(lab, *positions)
    lab.start(*positions, release=release)  # type: ignore[arg-type]
    settle(lab)


def ordered(lab: Lab, position: int, *words: str) -> str:
    """What a command prints that gives an order, as the operator of the lab."""
    done = lab.run(position, SUBORD, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def members(lab: Lab, position: int) -> dict[str, dict[str, Any]]:
    return {each["address"]: each for each in ask(lab, position, "/v1/members")["members"]}


def unbound(lab: Lab, position: int = 1) -> set[int]:
    """Live nodes without an identity, as that node lists them."""
    listed = members(lab, position).values()
    return {int(each["position"]) for each in listed if each["standing"] == "live" and each["identity"] is None}


def gauge(lab: Lab, name: str, position: int = 1) -> float:
    page = lab.run(position, sys.executable, "-c", READ, f"http://{lab.address(position)}:9717/metrics").stdout
    (value,) = (line.split()[1] for line in page.splitlines() if line.startswith(f"{name} "))
    return float(value)


def problems(lab: Lab, position: int = 1) -> dict[str, list[str]]:
    """The addresses of each problem that `subord errors` shows, by its text."""
    found = lab.document(position, "/v1/errors", 8.0)["problems"]
    return {each["text"]: each["addresses"] for each in found}


def is_named(lab: Lab, position: int, text: str) -> bool:
    address = lab.address(position)
    return any(text in problem and address in addresses for problem, addresses in problems(lab).items())


def refused(lab: Lab, position: int) -> int:
    """How often that node was refused."""
    return sum(each["times"] for each in ask(lab, position, "/v1/status")["refusals"])


def check_commands(lab: Lab, an_old: int, a_new: int) -> None:
    """Commands of both releases, at daemons of both, about nodes of both."""
    for old_command in (False, True):
        for position, other in ((an_old, a_new), (a_new, an_old)):
            until_told(lab, position, "tree", "--json", old=old_command, told=lambda text: is_whole(text, lab))
            assert "home: subordinate of" in command(lab, position, "status", old=old_command)
            assert f"{lab.address(other)}  home" in command(lab, position, "why", lab.address(other), old=old_command)
            told_by_all = f"{len(lab.positions)} of {len(lab.positions)}"
            until_told(
                lab, position, "key", "list", old=old_command, told=lambda text, all_=told_by_all: all_ in text
            )


def check_no_edge_broke(lab: Lab, since: float) -> None:
    """Nodes went by goodbyes alone, so no node has ended the stream of another one."""
    lost = [event for name in ("lost", "subordinate_lost") for event in events(lab, name) if event["mono"] > since]
    assert [event for event in lost if event["cause"] in ("silence", "closed")] == []


def downgrade(lab: Lab, signals: dict[int, int]) -> None:
    """Stop daemons by signals, and start the previous release there."""
    for position, number in signals.items():
        lab.kill(position, number)
    lab.wait(lambda cluster: all(cluster.nodes[lab.address(p)].exited for p in signals), SETTLED_S_MAX)
    settle(lab, *signals)
    lab.start(*signals, release="previous")


def test_half_old_half_new_is_one_tree_and_is_upgraded_without_a_gap(lab: Lab) -> None:
    """From 0.2, which has no identities, to a strict cluster."""
    assert versions(lab) == {p: PREVIOUS if p in OLD else subord.__version__ for p in lab.positions}
    an_old, a_new, maintained = 5, 12, 7
    check_commands(lab, an_old, a_new)
    for position in (an_old, a_new):
        lab.wait(lambda _, p=position: len(members(lab, p)) == NODES, SETTLED_S_MAX)  # type: ignore[misc]

    first = lab.look().last_place_at
    ordered(lab, a_new, "maintain", lab.address(maintained), "--reason", "new disks")
    replace(lab, 1, release="present")
    left = {position for position in OLD if position != 1}
    lab.wait(lambda _: ask(lab, a_new, "/v1/members")["complete"], SETTLED_S_MAX)  # whatever the others are
    assert unbound(lab) >= left
    assert gauge(lab, "subord_subtree_unbound_nodes") >= len(left)
    assert {ask(lab, p, "/v1/status").get("identity") for p in left} == {None}
    for batch in (OLD[1:5], OLD[5:]):
        replace(lab, *batch, release="present")
    assert set(versions(lab).values()) == {subord.__version__}
    check_no_edge_broke(lab, first)
    assert list(events(lab, "refused")) == []

    for position in (1, NODES):
        lab.wait(lambda _, p=position: unbound(lab, p) == set(), SETTLED_S_MAX)  # type: ignore[misc]
        assert members(lab, position)[lab.address(maintained)]["maintenance"] == "new disks"
    assert gauge(lab, "subord_subtree_unbound_nodes") == 0
    ordered(lab, NODES, "operator", "strict", "on")
    downgrade(lab, {13: signal.SIGTERM})
    lab.wait(lambda _: is_named(lab, 13, "the cluster is strict"), SETTLED_S_MAX)
    lab.wait(lambda _: ask(lab, 3, "/v1/members")["complete"], SETTLED_S_MAX)
    ordered(lab, 3, "forget", lab.address(13), "--reason", "older release")  # so no key is pinned there
    before = refused(lab, 13)
    lab.wait(lambda _: refused(lab, 13) >= before + 5, SETTLED_S_MAX)
    # By its own word: a node that had not heard of strict mode yet may have taken it at first.
    assert ask(lab, 13, "/v1/status")["leader"] is None
    assert lab.address(13) not in members(lab, 1)


def test_downgraded_nodes_are_refused_and_named_until_they_are_forgotten() -> None:
    """After a goodbye, as a package says it, and without. Nothing that travels breaks an edge to them then."""
    with Lab(nodes=7, fanout=2, timing="lab", previous=WHEEL) as lab:
        lab.start_all()
        settle(lab)
        lab.wait(lambda _: all(gauge(lab, PINS, position) == 7 for position in lab.positions), SETTLED_S_MAX)
        downgrade(lab, {4: signal.SIGTERM, 5: signal.SIGKILL})
        words = "a key is pinned to this address"
        lab.wait(lambda _: is_named(lab, 4, words) and is_named(lab, 5, words), SETTLED_S_MAX)
        lab.wait(lambda _: [leaders(lab).get(position) for position in (4, 5)] == [None, None], SETTLED_S_MAX)
        lab.wait(lambda _: ask(lab, 2, "/v1/members")["complete"], SETTLED_S_MAX)
        said = ordered(lab, 2, "forget", lab.address(4), lab.address(5), "--reason", "back to 0.2")
        assert said.startswith("2 nodes forgotten")
        settle(lab)
        assert {ask(lab, p, "/v1/status")["version"] for p in (4, 5)} == {PREVIOUS}

        since = lab.look().last_place_at
        ordered(lab, 6, "key", "install")
        ordered(lab, 6, "maintain", lab.address(4), "--reason", "to be upgraded")
        lab.wait(
            lambda _: {ask(lab, p, "/v1/status")["seal"]["revision"] for p in lab.positions} == {1}, SETTLED_S_MAX
        )
        assert unbound(lab) == {4, 5}
        check_no_edge_broke(lab, since)


def test_daemons_of_the_oldest_release_still_join() -> None:
    old = [1, 4, 6]
    with Lab(nodes=9, fanout=2, timing="lab", previous=wheel_of(OLDEST), old=old) as lab:
        lab.start_all()
        settle(lab)
        assert versions(lab) == {p: OLDEST if p in old else subord.__version__ for p in lab.positions}
        check_commands(lab, 4, 5)
        with pytest.raises(CommandError, match="does not know /v1/members: it runs an older release"):
            ask(lab, 4, "/v1/members")
        note = "10.0.0.1 (root) broke off its answer: subord 0.1 does not know members"
        lab.wait(lambda _: note in ask(lab, 5, "/v1/members")["note"], SETTLED_S_MAX)
        replace(lab, 1, release="present")
        lab.wait(lambda _: ask(lab, 5, "/v1/members")["complete"], SETTLED_S_MAX)
        assert {4, 6} <= unbound(lab)
        assert list(events(lab, "refused")) == []


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
