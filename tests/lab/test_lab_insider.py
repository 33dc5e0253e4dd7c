"""Members that lie, among real daemons: one lab for all lies, each told by another node, one after the other.

Each test looks at what honest nodes show: the tree at the root, and whom `subord errors` names.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subord.core.edges.verification import UNTRIED_MAX

from .lab_helpers import REPOSITORY, wait_until

pytestmark = pytest.mark.lab

SUBORD = str(Path(sys.executable).with_name("subord"))
LYING_MEMBER = REPOSITORY / "tests" / "helpers" / "lying_member.py"
NODES = 30
SETTLED_S_MAX = 30.0
WHOLE = set(range(1, NODES + 1))
ANSWER_S_MAX = 5.0
PATIENT = "--timeout", "8"  # on a busy machine


@pytest.fixture(scope="module")
def cluster():
    from netlab.lab import Lab

    with Lab(nodes=NODES, fanout=2, daemon=LYING_MEMBER) as lab:
        lab.start_all()
        lab.wait_stable(SETTLED_S_MAX)
        yield lab


@pytest.fixture
def lab(cluster):
    """The whole tree, before and after: one lie leaves nothing behind for the next."""
    wait_until(lambda: listed(cluster) == WHOLE, "the tree is whole before the lie")
    yield cluster
    for position in WHOLE:
        tells(cluster, position, "")
    wait_until(lambda: listed(cluster) == WHOLE, "the tree is whole after the lie")


def tells(lab, position, *lie):
    (lab.directory.node(position) / "lie").write_text(" ".join(lie))


def ask(lab, position, *words):
    command = [SUBORD, *words, "--json", "--socket", str(lab.control_socket(position))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, f"{words}: {done.stderr}"
    return json.loads(done.stdout)


def listed(lab, position=1):
    """Positions that a node shows as present."""
    found, waiting = set(), list(ask(lab, position, "tree")["roots"])
    while waiting:
        node = waiting.pop()
        if node["standing"] != "missing":
            found.add(node["position"])
        waiting += node["subordinates"]
    return found


def accused(lab, words):
    """Whom `subord errors` names, in lines with these words."""
    told = ask(lab, 1, "errors", *PATIENT)["problems"]
    return {address for each in told if words in each["text"] for address in each["addresses"]}


def names(lab, words, *positions):
    """Waits until `subord errors` names exactly these; shows what it named last if it never does."""
    expected, seen = {lab.address(each) for each in positions}, set()

    def is_named():
        seen.clear()
        seen.update(accused(lab, words))
        return seen == expected

    try:
        wait_until(is_named, words)
    except AssertionError:
        assert seen == expected, words
        raise


def settles(seconds, condition):
    """Holds all the time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert condition()


def test_an_age_that_overflows_is_put_down_to_the_liar(lab):
    """H1: the liar 28 stands below 14, 7, 3 and 1."""
    tells(lab, 28, "age")
    names(lab, "malformed", 28)
    settles(8.0, lambda: listed(lab) >= WHOLE - {28})
    assert accused(lab, "malformed") == {lab.address(28)}


def lose(state: Path) -> None:
    """A new disk, with the identity of the node from a backup: without it the node would be another one."""
    for each in state.iterdir():
        if each.name != "identity":
            each.unlink()


def test_a_victim_of_newer_comes_back_within_seconds(lab):
    """H2: 26 tells its leader 13 of lives far ahead; then 13 is started again, without and with its disk."""
    tells(lab, 26, "newer", lab.address(13))
    wait_until((lab.directory.node(26) / "told").exists, "it has told all")
    tells(lab, 26, "")
    named = accused(lab, "boot_leap")
    for disk in ("lost", "kept"):
        lab.kill(13)
        wait_until(lambda: 13 not in listed(lab), "it is gone")
        if disk == "lost":
            lose(lab.directory.node(13) / "state")
        began = time.monotonic()
        lab.start(13)
        lab.wait(lambda _: lab.places().get(13) == ("home", 6), 10.0)
        wait_until(lambda: listed(lab) == WHOLE, "the root lists all")
        assert time.monotonic() - began < 10
    assert named == {lab.address(26)}


def test_a_hidden_branch_is_shown(lab):
    """H4: 5 reports only itself; 10, 11 and those below them say so."""
    hidden = {10, 11, 20, 21, 22, 23}
    lab.kill(5)
    wait_until(lambda: 5 not in listed(lab), "it is gone")
    tells(lab, 5, "alone")
    lab.start(5)
    wait_until(lambda: listed(lab) == WHOLE - hidden, "the branch is hidden")
    names(lab, "not listed by the root", *hidden)
    note = subprocess.run(
        [SUBORD, "tree", "--socket", str(lab.control_socket(1))], capture_output=True, text=True, check=False
    )
    assert lab.address(10) in note.stdout + note.stderr
    names(lab, "more nodes answer for its branch", 5)
    lab.kill(5)
    tells(lab, 5, "")
    lab.start(5)


def test_phantoms_are_bounded_and_put_down_to_the_liar(lab):
    """M1: 30 claims 60,000 nodes below itself. Its leader 15 stands on level 3."""
    tells(lab, 30, "phantoms")
    names(lab, "rows_absent", 30)
    at_most = NODES + (UNTRIED_MAX >> 3)
    settles(8.0, lambda: listed(lab) >= WHOLE and len(listed(lab)) <= at_most)
    assert accused(lab, "rows_absent") == {lab.address(30)}
    tells(lab, 30, "")
    lab.kill(30)
    wait_until(lambda: listed(lab) == WHOLE - {30}, "they go with the liar")
    lab.start(30)


def test_the_tree_is_answered_while_a_leaf_holds_its_places(lab):
    """M2: 24 answers nothing, and asks the root without end what passes down the tree."""
    tells(lab, 24, "mute", lab.address(1))
    for _ in range(10):
        for position in (1, 2, 17):
            began = time.monotonic()
            assert listed(lab, position) == WHOLE
            assert time.monotonic() - began < ANSWER_S_MAX
    assert ask(lab, 1, "errors", *PATIENT)["silent"] == [lab.address(24)]
