"""`subord hosts`, and how the agent of a queue's node publishes a table and asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.core.carriage.documents import HOSTS, NEVER_MS, Document
from subord.core.carriage.orders import Verdict
from subord.runtime.hosts import state
from subord.runtime.hosts.state import State, mark_of
from subord.services.acting import Context
from subord.services.hosts.publishing import NO_KEY, publish, unapplied
from subord.services.hosts.table import Table, encode, table_of
from tests.api.fake_node_api import FakeNode, World
from tests.api.served_node import fake_daemon
from tests.cli.other_operators import publish_before, sign_as
from tests.cli.test_json import fitting

Said = pytest.CaptureFixture[str]
AT_MS = 1_795_682_000_000
TABLE = table_of([("master", "10.0.0.1"), ("node001", "10.0.0.4"), ("node002", "10.0.0.5")])
MARK = mark_of(encode(TABLE))
EVERY = [f"10.0.0.{position}" for position in World().leaders]


class Stage:
    """The tree of eleven nodes; the commands and the agent are at the seventh."""

    def __init__(self, key: Path) -> None:
        self.key = str(key)
        self.world = World()
        for each in self.world.leaders:
            self.world.known[each] = FakeNode(self.world, each)
        self.node = self.world.known[7]
        self.path = ""

    @property
    def context(self) -> Context:
        return Context("root", "ann", b"", 9.0, socket=self.path, network=self.node.settings.network)

    def hold(self, version: int, body: bytes) -> None:
        """The asked node has this document."""
        held = Document(HOSTS, version, AT_MS, NEVER_MS, body)
        self.node.tracker.take([(held, Verdict("", "ann", "SHA256:x"))])

    def say(self, word: str, *positions: int, version: int = 1, mark: str = MARK, **rest: Any) -> None:
        """What these nodes have done; without positions all."""
        for each in positions or self.world.leaders:
            self.world.known[each].hosts.state = State(word, version, mark, **rest)

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str]]:
        code = main(["hosts", *words, "--socket", self.path])
        return code, capsys.readouterr().out.splitlines()

    @property
    def held(self) -> Document | None:
        return self.node.tracker.membership.documents.by_name.get(HOSTS)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "key").touch()
    stage = Stage(tmp_path / "key")
    with fake_daemon(stage.node) as stage.path:
        yield stage


# -- the table ------------------------------------------------------------------------------------------------------


def test_the_table_is_shown(stage: Stage, capsys: Said) -> None:
    stage.hold(3, encode(TABLE))
    code, lines = stage.type(capsys)
    assert code == exit_codes.OK
    assert lines == [
        "version 3 published by ann at 2026-11-26 08:33:20 UTC: 3 names",
        "10.0.0.1  master",
        "10.0.0.4  node001",
        "10.0.0.5  node002",
    ]
    _, lines = stage.type(capsys, "--json")
    found = fitting("hosts", lines[0])
    assert (found["version"], found["mark"], found["entries"][0]) == (
        3,
        MARK,
        {"name": "master", "address": "10.0.0.1"},
    )


def test_there_is_none(stage: Stage, capsys: Said) -> None:
    assert stage.type(capsys) == (exit_codes.OK, ["no table of hosts is published"])
    assert fitting("hosts", stage.type(capsys, "--json")[1][0])["version"] == 0
    code, lines = stage.type(capsys, "status")
    assert (code, lines[0], lines[2]) == (
        exit_codes.OK,
        "no table of hosts is published",
        "none      11  10.0.0.[1-11]",
    )


def test_a_table_of_a_later_release(stage: Stage, capsys: Said) -> None:
    stage.hold(3, b'{"later":1}')
    assert stage.type(capsys)[1] == [
        "version 3 published by ann at 2026-11-26 08:33:20 UTC: this release cannot read it"
    ]
    assert fitting("hosts", stage.type(capsys, "--json")[1][0])["readable"] is False


def test_options_before_the_action_count(stage: Stage, capsys: Said) -> None:
    stage.hold(1, encode(TABLE))
    main(["hosts", "--json", "--socket", stage.path, "status"])
    assert fitting("hosts-status", capsys.readouterr().out)["asked"] == 11


# -- the states -----------------------------------------------------------------------------------------------------


def test_all_nodes_have_it(stage: Stage, capsys: Said) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    code, lines = stage.type(capsys, "status")
    assert code == exit_codes.OK
    assert lines[:3] == ["version 1 of the table counts", "state    nodes", "applied     11  10.0.0.[1-11]"]
    assert lines[3].startswith("11 of 11 answered in")
    assert stage.type(capsys, "status", "10.0.0.4")[1][2] == "applied      1  10.0.0.4"


def test_each_state_has_its_reason(stage: Stage, capsys: Said) -> None:
    stage.hold(2, encode(TABLE))
    stage.say(state.APPLIED, version=2)
    stage.say(state.APPLIED, 2, version=2, notes=("lines outside count",))
    stage.say(state.APPLIED, 3, version=1, mark="0" * 16)
    stage.say(state.FAILED, 4, 5, version=2, detail="the disk is full")
    stage.say(state.NO_AGENT, 6, version=2)
    stage.say(state.OFF, 7, version=0, mark="")
    stage.world.lying[8] = b"\xff"
    code, lines = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[:-1] == [
        "version 2 of the table counts",
        "state     nodes",
        "failed        2  10.0.0.[4-5]",
        "  the agent cannot write the table; its file is unchanged: the disk is full",
        "no agent      1  10.0.0.6",
        "  there is no agent on the node, or it cannot be reached: start subord-agent.socket",
        "applied       1  10.0.0.3",
        "  the names of the table are in the file",
        "  version 1 of the table is there, not version 2",
        "off           1  10.0.0.7",
        "  elastic.hosts_file of the node is empty, so it follows no table",
        "applied       1  10.0.0.2",
        "  lines outside count",
        "applied       4  10.0.0.[1,9-11]",
        "4 nodes do not have the table",
        "the answers of 1 node cannot be read: they are of another release",
    ]
    found = fitting("hosts-status", stage.type(capsys, "status", "--json")[1][0])
    assert [each["applied"] for each in found["states"]] == [False] * 3 + [True] * 3
    assert found["unread"] == 1


def test_a_node_without_an_answer(stage: Stage, capsys: Said) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    stage.world.cut_off = {9}
    code, lines = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[-1].endswith("; missing: 10.0.0.9 moved")


def test_the_answer_of_a_later_release_is_shown(stage: Stage, capsys: Said) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    stage.world.lying[8] = msgspec.msgpack.encode(("waits", 1, MARK))
    assert "  the node says: waits" in stage.type(capsys, "status")[1]


# -- off ------------------------------------------------------------------------------------------------------------


def test_an_operator_takes_the_lines_away(stage: Stage, capsys: Said) -> None:
    stage.hold(3, encode(TABLE))
    code, lines = stage.type(capsys, "off")
    assert (code, len(lines)) == (exit_codes.OK, 1)
    assert lines[0].startswith("version 4 published by ann at 20")
    assert lines[0].endswith(": 0 names")
    assert stage.held is not None
    assert stage.held.body == encode(Table())
    assert fitting("hosts-off", stage.type(capsys, "off", "--json")[1][0])["version"] == 5


def test_an_operator_without_the_power(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_as("mia", monkeypatch)
    stage.hold(3, encode(TABLE))
    assert main(["hosts", "off", "--socket", stage.path]) == exit_codes.PERMISSION
    assert "Nothing was changed" in capsys.readouterr().err


def test_of_two_at_once_one_is_told(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.hold(3, encode(TABLE))
    publish_before(lambda: stage.hold(9, encode(TABLE)), monkeypatch)
    code = main(["hosts", "off", "--socket", stage.path])
    out, err = capsys.readouterr()
    assert (code, out) == (exit_codes.NOT_REACHED, "")
    assert "version 9 of ann counts, which was published at the same time: try again" in err
    assert stage.held is not None
    assert stage.held.version == 9


# -- publishing -----------------------------------------------------------------------------------------------------


def test_a_table_is_published_once(stage: Stage) -> None:
    for version in (1, 1):
        assert publish(TABLE, stage.context, stage.key) == ""
        assert stage.held is not None
        assert (stage.held.version, stage.held.body) == (version, encode(TABLE))
    assert publish(Table(), stage.context, stage.key) == ""
    assert stage.held.version == 2


def test_no_key(stage: Stage) -> None:
    assert publish(TABLE, stage.context, "") == NO_KEY
    assert publish(TABLE, stage.context, "/gone") == "elastic.key: there is no file /gone; nothing was published"
    assert stage.held is None


def test_a_key_that_may_not(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_as("mia", monkeypatch)
    fault = publish(TABLE, stage.context, stage.key)
    assert fault.startswith("refused: hosts/table:")
    assert fault.endswith("Nothing was changed")
    assert stage.held is None


def test_a_table_that_does_not_fit(stage: Stage) -> None:
    large = table_of((f"a{number}.long-name-of-a-node.cluster", f"10.0.1.{number}") for number in range(1, 250))
    fault = publish(large, stage.context, stage.key)
    assert "a document has at most 8192" in fault
    assert fault.endswith("; nothing was published")


def test_a_table_with_other_addresses(stage: Stage) -> None:
    """Each agent would refuse it."""
    fault = publish(table_of([("node001", "192.168.0.1")]), stage.context, stage.key)
    assert fault.startswith("192.168.0.1 of node001 is no address of the cluster's network")
    assert stage.held is None


def test_no_daemon(stage: Stage) -> None:
    gone = stage.context._replace(socket=f"{stage.path}.gone")
    assert publish(TABLE, gone, stage.key).startswith("no subord daemon answers at")
    assert unapplied(TABLE, EVERY, gone).startswith("the nodes could not be asked: no subord daemon answers at")


def test_nodes_that_have_it(stage: Stage) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    stage.say(state.OFF, 9, version=0, mark="")
    assert unapplied(TABLE, EVERY, stage.context) == ""
    assert unapplied(TABLE, [], stage.context) == ""
    assert stage.node.orders.given != []


@pytest.mark.parametrize(
    ("word", "rest", "fault"),
    [
        (state.FAILED, {"detail": "the disk is full"}, "10.0.0.4: failed: the disk is full"),
        (state.NO_AGENT, {}, "10.0.0.4: no agent: there is no agent on the node, or it cannot be reached: start"),
        (state.STARTING, {}, "10.0.0.4: starting: the agent has not written the table yet"),
        (state.APPLIED, {"mark": "0" * 16, "version": 3}, "10.0.0.4: applied: it has version 3 of the table"),
        (state.NONE, {"mark": "", "version": 0}, "10.0.0.4: none: it has version 0 of the table"),
    ],
)
def test_a_node_that_has_it_not(stage: Stage, word: str, rest: dict[str, Any], fault: str) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    stage.say(word, 4, **rest)
    assert unapplied(TABLE, EVERY, stage.context).startswith(fault)
    assert unapplied(TABLE, ["10.0.0.5"], stage.context) == "", "only those that are asked for"


def test_nodes_that_do_not_answer(stage: Stage) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    stage.world.cut_off = {9, 10}
    assert unapplied(TABLE, EVERY, stage.context).startswith("10.0.0.9 and 1 more: moved: ")
    stage.world.cut_off = set()
    stage.world.lying[8] = b"\xff"
    assert (
        unapplied(TABLE, EVERY, stage.context) == "the answers of 1 node cannot be read: they are of another release"
    )


def test_addresses_that_are_none_of_the_cluster(stage: Stage) -> None:
    assert unapplied(TABLE, ["192.168.0.1"], stage.context) == (
        "192.168.0.1 is no address of the cluster's network: correct what starts nodes"
    )


def test_nodes_are_asked_in_portions(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.hold(1, encode(TABLE))
    stage.say(state.APPLIED)
    stage.say(state.FAILED, 11, detail="late")
    monkeypatch.setattr("subord.services.hosts.publishing.AT_ONCE_MAX", 2)
    assert unapplied(TABLE, EVERY, stage.context) == "10.0.0.11: failed: late"
