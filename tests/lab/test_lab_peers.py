"""`evaluate peers`: what is read on others' output, and small races with those that are installed."""

import shutil
from types import SimpleNamespace

import pytest

from .lab_helpers import netlab, refused

pytestmark = pytest.mark.lab(few=True)

SERF_LINES = """
    2026/11/21 23:20:00 [INFO] serf: EventMemberJoin: n1 10.0.0.1
    2026/11/21 23:20:00 [INFO] agent: Serf agent starting
    2026/11/21 23:20:01 [INFO] serf: EventMemberJoin: n2 10.0.0.2
"""
ELECTED = '{{"level":"info","caller":"raft/node.go:325","msg":"raft.node: {} {} at term {}"}}'


class Output:
    """What programs have printed, without programs."""

    def __init__(self):
        self.new = []

    def write(self, name, position, text):
        self.new += [(name, position, line) for line in text.splitlines()]

    def lines(self, name):
        found = [(position, line) for its_name, position, line in self.new if its_name == name]
        self.new = [each for each in self.new if each[0] != name]
        yield from found

    def live(self):
        return frozenset((1, 2, 3, 4))

    def end(self, position):
        pass


def lab_of(*positions):
    return SimpleNamespace(
        positions=list(positions),
        address=lambda position: f"10.0.0.{position}",
        position=lambda address: int(address.rpartition(".")[2]),
    )


def test_serf_has_converged_when_everybody_has_heard_of_everybody():
    output = Output()
    serf = netlab("peers.serf").Serf(lab_of(1, 2), output, "Serf 1")
    output.write("serf", 1, SERF_LINES)
    assert serf.converged_at() is None
    output.write("serf", 2, SERF_LINES)
    assert serf.converged_at() is not None


def test_who_of_serf_knows_that_somebody_has_failed():
    output = Output()
    serf = netlab("peers.serf").Serf(lab_of(1, 2, 3), output, "Serf 1")
    output.write("serf", 1, "[INFO] serf: EventMemberFailed: n3 10.0.0.3")
    assert set(serf.noticed(3)) == {1}
    assert serf.must_notice(3) == {1, 2, 4}  # all that run
    output.write("serf", 1, "[INFO] serf: EventMemberJoin: n3 10.0.0.3")
    assert serf.noticed(3) == {}


def test_etcd_watchers_see_who_registers_and_who_is_struck_out():
    output = Output()
    etcd = netlab("peers.etcd").Etcd(lab_of(1, 2, 3, 4), output, 2, "etcd 1")
    for watcher in (3, 4):
        output.write("watch", watcher, "PUT\n/nodes/3\nup\nPUT\n/nodes/4\nup")
    assert etcd.converged_at() is not None
    output.write("watch", 4, "DELETE\n/nodes/3\n")
    assert set(etcd.noticed(3)) == {4}
    assert etcd.must_notice(3) == {4}


def test_etcd_has_a_new_leader_when_all_members_that_live_say_the_same():
    output = Output()
    etcd = netlab("peers.etcd").Etcd(lab_of(1, 2, 3), output, 3, "etcd 1")
    for position, name in ((1, "aa"), (2, "bb"), (3, "cc")):
        output.write("etcd", position, ELECTED.format(name, "elected leader bb", 2))
    assert etcd.leader() == 2
    etcd.end(2)
    assert etcd.leader_since(2) is None
    output.write("etcd", 1, ELECTED.format("aa", "changed leader from bb to cc", 3))
    assert etcd.leader_since(2) is None
    output.write("etcd", 3, ELECTED.format("cc", "elected leader cc", 3))
    assert etcd.leader_since(2) is not None


def test_what_is_not_installed_is_left_out_in_words(monkeypatch):
    peers = netlab("peers.experiment")
    monkeypatch.setattr(peers.shutil, "which", lambda program: None if program == "serf" else program)
    plan = peers.Plan(nodes=(8,), repeat=1)
    assert plan.missing() == [f"serf is left out: serf is not installed here ({peers.INSTALL})."]
    assert [run.about["system"] for run in plan.runs()] == ["subord", "etcd-3", "etcd-5"]


@pytest.mark.parametrize("system", ["subord", "serf", "etcd-3"])
def test_a_small_comparison(system):
    """All members are found, and all deaths are noticed by those that must."""
    peers = netlab("peers.experiment")
    if not all(shutil.which(program) for program in peers.PROGRAMS[system]):
        pytest.skip(peers.INSTALL)
    plan = peers.Plan(nodes=(6,), systems=(system,), repeat=1, settle_s=1.0, rest_s=1.0)
    (run,) = [run for run in plan.runs() if run.about["system"] == system]
    found = {**run.about, "fault": None, **run.measure()}
    assert found["fault"] is None
    assert found["converged"], found
    reader = "client" if system == "etcd-3" else "node"
    assert found[f"{reader}s"] == (3 if system == "etcd-3" else 6)
    assert found[f"{reader}_resident_mib"] >= found[f"{reader}_pss_mib"] > 1
    for way in ("kill", "cut"):
        assert 0 < found[f"known_{way}_first_s"] <= found[f"known_{way}_all_s"]
    if system != "serf":
        assert min(found["leader_kill_s"], found["leader_cut_s"]) > 0
    words = peers.table([found])
    assert system in words
    assert "ClusterShell is not compared" in words


def test_the_root_knows_also_while_the_victim_lives_on_as_a_root_of_its_own():
    """Cut off, a leader of others becomes root of itself; the root of the rest is still the one that has to know."""
    events = netlab("eventlog.events")
    cluster = events.Cluster()
    for number, leader in ((1, None), (2, "10.0.0.1"), (3, "10.0.0.1")):
        cluster.nodes[f"10.0.0.{number}"] = events.NodeSeen(
            f"10.0.0.{number}", place="home" if leader else "root", leader=leader
        )
    cluster.nodes["10.0.0.1"].roster_nodes, cluster.nodes["10.0.0.1"].roster_at = 2, 7.0
    cluster.nodes["10.0.0.2"].place = "root"
    options = SimpleNamespace(network="10.0.0.0/24", fanout=8, timing="lan")
    lab = lab_of(1, 2, 3)
    lab.options, lab.cluster, lab.look, lab.events = options, cluster, lambda: cluster, []
    system = netlab("peers.subord").Subord(lab)
    lab.events.append({"event": "subordinate_lost", "node": "10.0.0.1", "subordinate": "10.0.0.2", "mono": 6.0})
    assert system.noticed(2) == {1: 7.0}
    assert system.must_notice(2) == {1}
    with pytest.raises(netlab("errors").LabError, match="2 roots"):
        system.leader()


def test_agents_that_are_believed_dead_are_not_converged():
    output = Output()
    serf = netlab("peers.serf").Serf(lab_of(1, 2), output, "Serf 1")
    for writer in (1, 2):
        output.write("serf", writer, SERF_LINES)
    assert serf.converged_at() is not None
    output.write("serf", 1, "[INFO] serf: EventMemberFailed: n2 10.0.0.2")
    assert serf.converged_at() is None


def test_too_few_nodes_are_refused_before_anything_is_done():
    result = refused("evaluate", "peers", "--systems", "subord,etcd-5", "--nodes", "20,7", "--repeat", 1)
    assert result.returncode == 1
    assert "etcd-5 is compared with 8 nodes or more: correct --nodes or --systems. Nothing was done." in result.stderr


def test_a_program_that_ends_by_itself_is_a_fault():
    process = SimpleNamespace(poll=lambda: 1, returncode=1, args=("serf", "agent"), pid=0)
    programs = netlab("peers.programs").NodePrograms.__new__(netlab("peers.programs").NodePrograms)
    programs._running = {3: [process]}
    with pytest.raises(netlab("errors").LabError, match="serf on node 3 ended by itself, exit code 1"):
        programs.live()


def test_an_unknown_system_is_refused():
    result = refused("evaluate", "peers", "--systems", "subord,consul")
    assert result.returncode == 2
    assert "`consul`: choose from subord, serf, etcd-3, etcd-5" in result.stderr
