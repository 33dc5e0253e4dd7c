"""Tables of hosts on real daemons and agents: published as the agent of a queue's node does, seen as operators do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab

from subord.core.address.network import Network
from subord.services.acting import Context
from subord.services.hosts.block import BEGIN
from subord.services.hosts.publishing import publish, unapplied
from subord.services.hosts.table import Table, table_of

from .lab_helpers import command, settled

pytestmark = pytest.mark.lab(few=True)

NODES = 9
WAIT_S_MAX = 60.0
OWN = "127.0.0.1\tlocalhost\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        for each in lab.positions:
            hosts(lab, each).write_text(OWN)
        yield lab


def hosts(lab: Lab, position: int) -> Path:
    """What the agent of a node has in place of /etc/hosts."""
    found: Path = lab.directory.node(position) / "hosts"
    return found


def table(lab: Lab, *others: int) -> Table:
    """Of all nodes but these."""
    return table_of((f"node{each:03}", lab.address(each)) for each in lab.positions if each not in others)


def context(lab: Lab, position: int = 5) -> Context:
    """Of the agent of this node."""
    network = Network.parse(lab.options.network)
    return Context("root", "", b"", 60.0, socket=str(lab.control_socket(position)), network=network)


def given(lab: Lab, wanted: Table) -> None:
    assert publish(wanted, context(lab), str(lab.directory.operator_key)) == ""


def fault(lab: Lab, wanted: Table, *positions: int) -> str:
    """Why these nodes have it not, or all."""
    return unapplied(wanted, map(lab.address, positions or lab.positions), context(lab))


def until_applied(lab: Lab, wanted: Table, *positions: int) -> None:
    assert wait_until(lambda: not fault(lab, wanted, *positions), WAIT_S_MAX, 0.1), fault(lab, wanted, *positions)


def names(lab: Lab, position: int) -> list[str]:
    text = hosts(lab, position).read_text()
    assert text.startswith(OWN)
    return [line.split()[1] for line in text.splitlines() if line.startswith("10.")]


def until(condition: Callable[[], bool], what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.2), what


def failed(lab: Lab) -> tuple[int, list[str]]:
    """The exit code of a look, and which nodes have failed."""
    code, found = status(lab)
    return code, [address for each in found["states"] if each["state"] == "failed" for address in each["addresses"]]


def status(lab: Lab) -> tuple[int, dict[str, Any]]:
    done = command(lab, 3, "hosts", "status", "--json")
    return done.returncode, json.loads(done.stdout)


def test_all_nodes_get_a_table_and_the_next_one(lab: Lab) -> None:
    for wanted in (table(lab, 9), table(lab)):
        given(lab, wanted)
        until_applied(lab, wanted)
        assert {tuple(names(lab, each)) for each in lab.positions} == {tuple(each.name for each in wanted.entries)}
    found: list[Any] = []

    def are_applied() -> bool:
        code, document = status(lab)
        found[:] = [code, *((each["state"], each["nodes"]) for each in document["states"])]
        return found == [0, ("applied", NODES)]

    until(are_applied, f"all nodes say so: {found}")
    lines = command(lab, 7, "hosts").stdout.splitlines()
    assert lines[0].startswith("version 2 published by operator at ")
    assert lines[1].split() == [lab.address(1), "node001"]


def test_a_node_that_was_off_gets_the_newest(lab: Lab) -> None:
    before, wanted = table(lab), table(lab, 2)
    given(lab, before)
    until_applied(lab, before)
    lab.kill(8)
    given(lab, wanted)
    until_applied(lab, wanted, 1, 3, 6, 9)
    assert names(lab, 8) == [each.name for each in before.entries]
    lab.start_and_wait(8)
    until_applied(lab, wanted)
    assert names(lab, 8) == [each.name for each in wanted.entries]


def test_a_node_that_cannot_write_is_named(lab: Lab) -> None:
    wanted = table(lab, 3)
    hosts(lab, 4).unlink()
    given(lab, wanted)
    until_applied(lab, wanted, *(each for each in lab.positions if each != 4))
    until(lambda: failed(lab) == (1, [lab.address(4)]), "it is named")
    assert "No such file or directory): make it, or correct elastic.hosts_file" in fault(lab, wanted)
    until(lambda: "hosts" in command(lab, 3, "errors").stdout, "it is a problem")
    hosts(lab, 4).write_text(OWN)
    until_applied(lab, wanted)


def test_an_operator_takes_the_lines_away(lab: Lab) -> None:
    given(lab, table(lab))
    until_applied(lab, table(lab))
    done = command(lab, 6, "hosts", "off")
    assert done.returncode == 0, done.stderr
    until_applied(lab, Table())
    assert {hosts(lab, each).read_text() for each in lab.positions} == {OWN}
    assert BEGIN.decode() not in Path("/etc/hosts").read_text(), "agents of a lab keep away from it"
