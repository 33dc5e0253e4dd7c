"""`evaluate peers`: what is read on others' sheets, and small races with those that are installed."""

import shutil
from types import SimpleNamespace

import pytest

from .lab_helpers import netlab, run_lab

pytestmark = pytest.mark.lab

SERF_LINES = """
    2026/11/21 23:20:00 [INFO] serf: EventMemberJoin: n1 10.0.0.1
    2026/11/21 23:20:00 [INFO] agent: Serf agent starting
    2026/11/21 23:20:01 [INFO] serf: EventMemberJoin: n2 10.0.0.2
"""
ELECTED = '{{"level":"info","caller":"raft/node.go:325","msg":"raft.node: {} {} at term {}"}}'


class Sheets:
    """What others have written, without others."""

    def __init__(self):
        self.new = []

    def write(self, name, position, text):
        self.new += [(name, position, line) for line in text.splitlines()]

    def lines(self, name):
        found = [(position, line) for its_name, position, line in self.new if its_name == name]
        self.new = [each for each in self.new if each[0] != name]
        yield from found

    def cpu_s(self):
        return dict.fromkeys((1, 2, 3, 4), 0.0)

    def end(self, position):
        pass


def lab_of(*positions):
    return SimpleNamespace(positions=list(positions), address=lambda position: f"10.0.0.{position}")


def test_serf_has_converged_when_everybody_has_heard_of_everybody():
    sheets = Sheets()
    serf = netlab("serf").Serf(lab_of(1, 2), sheets)
    sheets.write("serf", 1, SERF_LINES)
    assert serf.converged_at() is None
    sheets.write("serf", 2, SERF_LINES)
    assert serf.converged_at() is not None


def test_who_of_serf_knows_that_somebody_has_failed():
    sheets = Sheets()
    serf = netlab("serf").Serf(lab_of(1, 2, 3), sheets)
    sheets.write("serf", 1, "[INFO] serf: EventMemberFailed: n3 10.0.0.3")
    assert set(serf.knowers(3)) == {1}
    assert serf.must_know(3) == {1, 2, 4}  # whoever runs
    sheets.write("serf", 1, "[INFO] serf: EventMemberJoin: n3 10.0.0.3")
    assert serf.knowers(3) == {}


def test_etcd_watchers_see_who_registers_and_who_is_struck_out():
    sheets = Sheets()
    etcd = netlab("etcd").Etcd(lab_of(1, 2, 3, 4), sheets, 2)
    for watcher in (3, 4):
        sheets.write("watch", watcher, "PUT\n/nodes/3\nup\nPUT\n/nodes/4\nup")
    assert etcd.converged_at() is not None
    sheets.write("watch", 4, "DELETE\n/nodes/3\n")
    assert set(etcd.knowers(3)) == {4}
    assert etcd.must_know(3) == {4}


def test_etcd_has_a_new_leader_when_all_members_that_live_say_the_same():
    sheets = Sheets()
    etcd = netlab("etcd").Etcd(lab_of(1, 2, 3), sheets, 3)
    for position, name in ((1, "aa"), (2, "bb"), (3, "cc")):
        sheets.write("etcd", position, ELECTED.format(name, "elected leader bb", 2))
    assert etcd.leader() == 2
    etcd.end(2)
    assert etcd.leader_since(2) is None
    sheets.write("etcd", 1, ELECTED.format("aa", "changed leader from bb to cc", 3))
    assert etcd.leader_since(2) is None
    sheets.write("etcd", 3, ELECTED.format("cc", "elected leader cc", 3))
    assert etcd.leader_since(2) is not None


def test_what_is_not_installed_is_left_out_in_words(monkeypatch):
    peers = netlab("peers")
    monkeypatch.setattr(peers.shutil, "which", lambda program: None if program == "serf" else program)
    plan = peers.Plan(nodes=(6,), repeat=1)
    assert plan.missing() == [f"serf is left out: serf is not installed here ({peers.INSTALL})."]
    assert [title.split(", ")[1] for title, _ in plan.runs(lambda *_: None)] == ["subord", "etcd-3", "etcd-5"]


@pytest.mark.parametrize("system", ["subord", "serf", "etcd-3"])
def test_a_small_race(system):
    """All members are found, and all deaths are noticed by those who must."""
    peers = netlab("peers")
    if not all(shutil.which(program) for program in peers.PROGRAMS[system]):
        pytest.skip(peers.INSTALL)
    plan = peers.Plan(nodes=(6,), repeat=1, settle_s=1.0, rest_s=1.0)
    found = peers.measure_one(plan, system, 6, 0, lambda *_: None)
    assert found["converged"], found
    who = "client" if system == "etcd-3" else "node"
    assert found[f"{who}s"] == (3 if system == "etcd-3" else 6)
    assert found[f"{who}_pss_mib"] > 1
    for way in ("kill", "cut"):
        assert 0 < found[f"known_{way}_first_s"] <= found[f"known_{way}_all_s"]
    if system != "serf":
        assert min(found["leader_kill_s"], found["leader_cut_s"]) > 0
    words = peers.table([found])
    assert system in words
    assert "ClusterShell is not compared" in words


def test_an_unknown_system_is_refused():
    result = run_lab("evaluate", "peers", "--systems", "subord,consul")
    assert result.returncode == 2
    assert "`consul`: choose from subord, serf, etcd-3, etcd-5" in result.stderr
