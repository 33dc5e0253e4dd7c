"""What follows a try of the work of a stage, the names of nodes, and nodes that are lost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from subord.services.batch.naming import Name, is_same, naming, next_names, number_of
from subord.services.batch.records import Host, HostState
from subord.services.elastic.managing.advancing import (
    Again,
    Back,
    Done,
    Failing,
    after,
    begun,
    delay_s,
    registered_again,
    removed,
)
from subord.services.elastic.managing.losing import Losing
from subord.services.elastic.stages import ADDING, REMOVING, Record, Stage

NOW = 1_800_000_000.0
WAIT_S = 600.0
NEW = begun("node001", 1, "small", 4, NOW)


def at(stage: Stage, **changes: Any) -> Record:
    return replace(NEW, stage=stage, **changes)


@pytest.mark.parametrize(("stage", "following"), [*pairwise((*ADDING, Stage.SERVING)), *pairwise(REMOVING)])
def test_a_stage_that_is_done_is_followed_by_the_next(stage: Stage, following: Stage) -> None:
    before = at(stage, tries=3, fault="x", address="10.0.0.1", paid_since=NOW)
    found = after(before, Done(), NOW + 5, WAIT_S)
    assert found == replace(before, stage=following, entered_at=NOW + 5, tries=0, fault="")


def test_after_the_last_stage_there_is_no_record() -> None:
    assert after(at(Stage.STOPPING), Done(), NOW, WAIT_S) is None


def test_a_node_that_was_started_has_an_address_and_a_time() -> None:
    found = after(NEW, Done("10.0.0.1", NOW + 1), NOW + 5, WAIT_S)
    assert found is not None
    assert (found.stage, found.address, found.paid_since) == (Stage.JOINING, "10.0.0.1", NOW + 1)


@pytest.mark.parametrize("stage", ADDING)
def test_a_node_that_is_not_added_in_time_is_removed(stage: Stage) -> None:
    early = after(at(stage), Again("why"), NOW + WAIT_S - 1, WAIT_S)
    assert early == at(stage, tries=1, fault="why")
    late = after(at(stage, address="10.0.0.1"), Again("why"), NOW + WAIT_S, WAIT_S)
    assert late is not None
    assert (late.stage, late.is_undone, late.tries) == (Stage.DRAINING, True, 0)
    assert (late.began_at, late.address) == (NOW + WAIT_S, "10.0.0.1")
    assert late.reason == f"it could not be added in 600 s: {stage}: why"


def test_a_node_whose_manager_was_away_has_a_try_before_it_is_removed() -> None:
    found = after(at(Stage.JOINING), Done(), NOW + 10 * WAIT_S, WAIT_S)
    assert found is not None
    assert found.stage == Stage.NAMING


@pytest.mark.parametrize("stage", REMOVING)
def test_a_removal_never_gives_up(stage: Stage) -> None:
    now = NOW + (0.9 if stage == Stage.UNNAMING else 999) * WAIT_S
    found = after(at(stage, tries=999), Again("why"), now, WAIT_S)
    assert found == at(stage, tries=1000, fault="why")


def test_a_table_that_cannot_be_published_keeps_no_node_paid_for_ever() -> None:
    """The key may be revoked, or the disk full. The next table that is published has no such name."""
    found = after(at(Stage.UNNAMING, tries=9, reason="idle"), Again("no key"), NOW + WAIT_S, WAIT_S)
    assert found is not None
    assert (found.stage, found.tries, found.fault) == (Stage.UNEXPORTING, 0, "")
    assert found.reason == "idle; its name stays in tables of hosts until the next one is published: no key"


def test_a_node_that_is_needed_again_serves() -> None:
    going = removed(at(Stage.SERVING), NOW + 1, "idle")
    assert (going.stage, going.began_at, going.reason) == (Stage.DRAINING, NOW + 1, "idle")
    found = after(going, Back(), NOW + 9, WAIT_S)
    assert found is not None
    assert (found.stage, found.entered_at, found.reason) == (Stage.SERVING, NOW + 9, "")


def test_tries_are_ever_further_apart_up_to_a_limit() -> None:
    assert [delay_s(at(Stage.STARTING, tries=tries)) for tries in (0, 1, 2, 3, 6, 10**6)] == [2, 2, 4, 8, 60, 60]
    assert delay_s(at(Stage.JOINING, tries=10**6)) == delay_s(at(Stage.REGISTERING, tries=9)) == 10


def test_long_faults_are_cut() -> None:
    found = after(NEW, Again("x" * 9999), NOW, WAIT_S)
    assert found is not None
    assert len(found.fault) == 400
    late = after(NEW, Again("x" * 9999), NOW + WAIT_S, WAIT_S)
    assert late is not None
    assert len(late.reason) == 400


def test_after_nodes_that_could_not_be_added_the_next_ones_are_ever_later() -> None:
    failing = Failing()
    assert failing.until < NOW
    found = []
    for number in range(7):
        began = NOW + number * 10_000
        for _ in range(5):  # at once
            failing = failing.with_undone(replace(NEW, began_at=began, reason="why"), began + WAIT_S)
        found.append(failing.until - began - WAIT_S)
    assert found == [300, 600, 1200, 2400, 3600, 3600, 3600]
    assert failing.reason == "node001: why"
    assert Failing(10**9, NOW).until == NOW + 3600


# -- names ----------------------------------------------------------------------------------------------------------


def test_the_next_name_has_the_highest_number_and_one() -> None:
    known = ["node001", "node003", "node005.cluster", "master", "other9", "node7", "node2x", "nodex002"]
    assert next_names("node", known, 2) == [Name("node006", 6), Name("node007", 7)]
    assert next_names("node", [], 1) == [Name("node001", 1)]
    assert next_names("node", ["node999"], 1) == [Name("node1000", 1000)]
    assert next_names("n-o", ["n-o004", "nxo009"], 1) == [Name("n-o005", 5)]
    assert next_names("node", ["node999999999", "node001", "node003"], 2) == [Name("node002", 2), Name("node004", 4)]
    assert number_of("node", "NODE012") == 12
    assert number_of("node", "node" + "9" * 10) is None


def test_names_with_and_without_a_domain_are_of_one_host() -> None:
    assert is_same("node001", "Node001.cluster")
    assert not is_same("node001.a", "node001.b")
    assert not is_same("node001", "node0011")
    name_of = naming(["node001", "master"])
    assert [*map(name_of, ("node001.cluster", "other.cluster", "MASTER"))] == ["node001", "other.cluster", "master"]


# -- lost nodes -----------------------------------------------------------------------------------------------------

SERVING = {name: replace(at(Stage.SERVING), name=name) for name in ("node001", "node002")}


def host(name: str, **changes: Any) -> Host:
    return Host(name, 4, 0, 0, HostState.UP, False, "", 0.1, 4, None)._replace(**changes)


HOSTS = [host("master"), host("node001"), host("node002")]


def test_one_poll_alone_changes_nothing() -> None:
    for listed, hosts in (((), HOSTS), (None, []), (("node001",), HOSTS[:1])):
        losing = Losing(WAIT_S)
        assert losing.lost(SERVING, hosts, listed, NOW) == []
        assert losing.lost(SERVING, HOSTS, list(SERVING), NOW) == []
        assert losing.lost(SERVING, hosts, listed, NOW) == []


def test_a_node_that_two_lists_lack_is_removed_for_good() -> None:
    losing = Losing(WAIT_S)
    assert losing.lost(SERVING, HOSTS, ["node002"], NOW) == []
    assert losing.lost(SERVING, HOSTS, None, NOW) == [], "the supplier has not told"
    (found,) = losing.lost(SERVING, HOSTS, ["node002"], NOW + 60)
    assert (found.name, found.stage, found.is_lost, found.is_undone) == ("node001", Stage.DRAINING, True, False)


@pytest.mark.parametrize("hosts", [HOSTS[:2], [*HOSTS[:2], host("node002", slots=0)]])
def test_a_node_that_the_batch_system_lacks_is_registered_again(hosts: list[Host]) -> None:
    losing = Losing(WAIT_S)
    assert losing.lost(SERVING, hosts, None, NOW) == []
    assert losing.lost(SERVING, hosts, None, NOW + 60) == [registered_again(SERVING["node002"], NOW + 60)]


@pytest.mark.parametrize("state", [HostState.DOWN, HostState.ERROR])
def test_a_node_that_does_not_answer_is_removed_unless_it_has_jobs(state: HostState) -> None:
    idle, busy = host("node001", state=state), host("node002", state=state, busy=1)
    losing = Losing(WAIT_S)
    assert losing.lost(SERVING, [idle, busy], None, NOW) == []
    assert losing.lost(SERVING, [idle, busy], None, NOW + WAIT_S - 1) == []
    (found,) = losing.lost(SERVING, [idle, busy], None, NOW + WAIT_S)
    assert (found.name, found.is_lost) == ("node001", True)
    assert found.reason == "it has not answered the batch system for 600 s, and has no job"


def test_a_node_that_answers_again_begins_anew() -> None:
    losing = Losing(WAIT_S)
    down = [host("node001", state=HostState.DOWN), host("node002")]
    assert losing.lost(SERVING, down, None, NOW) == []
    assert losing.lost(SERVING, HOSTS, None, NOW + 60) == []
    assert losing.lost(SERVING, down, None, NOW + WAIT_S) == []
