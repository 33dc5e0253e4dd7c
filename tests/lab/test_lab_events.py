"""The picture that the lab draws from the event log, and the figures that follow from it."""

import json

import pytest
from loops import over

from .lab_helpers import netlab

pytestmark = pytest.mark.lab


def picture(*events):
    """Each event: (mono, last byte of the address, name, fields)."""
    cluster = netlab("eventlog.events").Cluster()
    for mono, node, name, given in events:
        fields = {key: f"10.0.0.{value}" if key == "leader" and value else value for key, value in given.items()}
        cluster.apply({"mono": mono, "wall": 0, "node": f"10.0.0.{node}", "event": name, **fields})
    return cluster


def forked(mono, node):
    return (mono, node, "lab_forked", {"pid": node})


def place(mono, node, where, leader=None):
    return (mono, node, "place", {"place": where, "leader": leader})


def roster(mono, node, nodes):
    return (mono, node, "roster", {"nodes": nodes, "not_home": 0})


TWO = (forked(1, 1), forked(2, 2), place(3, 1, "root"), roster(3, 1, 1), place(4, 2, "home", 1))


@over(
    ("more", "settled_at"),
    [
        ([], None),  # the root does not know the second node yet
        ([roster(5, 1, 2)], 5),
        ([roster(5, 1, 2), place(6, 2, "guest", 1)], 6),
        ([roster(5, 1, 2), place(6, 2, "root")], None),  # two roots
        ([roster(5, 1, 2), forked(6, 3)], None),  # the third looks for its place
        ([roster(5, 1, 2), (6, 2, "lab_exited", {"pid": 2, "code": -9})], None),  # the roster is behind
        ([roster(5, 1, 2), (6, 2, "lab_exited", {"pid": 2, "code": -9}), roster(7, 1, 1)], 7),
        ([roster(5, 1, 2), (6, 1, "lab_exited", {"pid": 1, "code": -9})], None),  # without leader
        ([roster(5, 1, 2), (6, 1, "stopped", {}), place(7, 2, "root"), roster(7.5, 2, 1)], 7.5),
    ],
)
def test_settled(more, settled_at):
    assert picture(*TWO, *more).settled_at() == settled_at


def test_a_root_that_steps_down_loses_its_roster():
    cluster = picture(*TWO, roster(5, 1, 2), place(6, 2, "root"), place(7, 1, "home", 2), place(8, 1, "root"))
    assert cluster.nodes["10.0.0.1"].roster_nodes == 0


def test_leader_changes_do_not_count_the_first_place_nor_the_same_leader_again():
    cluster = picture(*TWO, place(5, 2, "guest", 1), place(6, 2, "root"), place(7, 2, "home", 1))
    assert [node.leader_changes for node in cluster.live()] == [0, 2]


def test_a_restart_begins_anew():
    cluster = picture(*TWO, place(5, 2, "root"), (6, 2, "lab_exited", {"pid": 2, "code": 1}), forked(7, 2))
    node = cluster.nodes["10.0.0.2"]
    assert (node.alive, node.place, node.leader_changes) == (True, None, 0)


def test_depth_ends_where_the_leaders_run_in_a_circle():
    assert picture(*TWO, forked(5, 3), place(6, 3, "home", 2)).depth() == 2
    assert picture(*TWO, place(5, 1, "guest", 2)).depth() == 2


def test_reader_takes_whole_lines_only_and_counts_what_is_no_event(tmp_path):
    log = netlab("eventlog.events").EventLog(tmp_path / "events")
    assert log.read() == []
    line = json.dumps({"mono": 1, "wall": 1, "node": "10.0.0.1", "event": "ready"})
    with (tmp_path / "events").open("w") as file:
        file.write(f"{line}\nno JSON\n[1]\n{line[:20]}")
        file.flush()
        assert [event["event"] for event in log.read()] == ["ready"]
        assert log.malformed == 2
        file.write(line[20:] + "\n")
        file.flush()
        assert len(log.read()) == 1
        file.write("x" * (1 << 17))
        file.flush()
        assert log.read() == []
        file.write(f"\n{line}\n")
        file.flush()
        assert len(log.read()) == 1
    assert log.malformed == 3


def test_figures_of_rest_count_each_frame_once_per_node_and_second():
    figures = netlab("experiments.figures")
    before = figures.Reading(
        mono=10,
        sent={"a": (100, 1), "b": (0, 0)},
        brought={"a": (7, 2), "b": (0, 0)},
        cpu_s={"a": 1.0, "b": 2.0},
        datagrams_sent={},
    )
    after = figures.Reading(
        mono=20,
        sent={"a": (1100, 11), "b": (500, 10)},
        brought={"a": (407, 7), "b": (900, 9)},
        cpu_s={"a": 1.01, "b": 2.03},
        datagrams_sent={},
    )
    rates = {"rest_packets_per_s": 1.0, "rest_bytes_per_s": 75.0, "rest_cpu_percent": 0.2}
    root = {"rest_root_packets_per_s": 1.5, "rest_root_bytes_per_s": 140.0, "rest_root_cpu_percent": 0.1}
    assert figures.of_rest(before, after, "a") == pytest.approx({**rates, **root})
    for no_node in (None, "c"):
        assert figures.of_rest(before, after, no_node) == pytest.approx({**rates, **dict.fromkeys(root)})


def test_figures_of_the_start():
    figures, lab = netlab("experiments.figures"), netlab("lab")
    reading = figures.Reading(
        mono=9,
        sent={"a": (100, 2), "b": (300, 4)},
        brought={},
        cpu_s={"a": 0.5, "b": 1.5},
        datagrams_sent={"a": 1, "b": 2},
    )
    stable = lab.Stable(at=5.0, since_first_start_s=4.0, since_last_start_s=3.0)
    assert figures.of_start(picture(*TWO), stable, reading) == {
        "stable": True,
        "stable_s": 4.0,
        "stable_after_last_start_s": 3.0,
        "forked_within_s": 1.0,
        "datagrams_per_node": 1.5,
        "frames_per_node": 3.0,
        "bytes_per_node": 200.0,
        "cpu_s_per_node": 1.0,
    }
    assert figures.of_tree(picture(*TWO)) == {
        "roots": 1,
        "depth": 1,
        "subordinates_max": 1,
        "at_home": 2,
        "leader_changes_per_node": 0.0,
    }


def test_table_shows_the_median_and_the_span_of_the_repeats():
    start_up = netlab("experiments.start_up")
    run = dict.fromkeys((column.key for column in start_up.COLUMNS), 1.0)
    run |= {"nodes": 5, "fanout": 2, "layout": "dense", "start": "together", "stable": True, "fault": None}
    runs = [{**run, "stable_s": seconds} for seconds in (1.0, 4.0, 2.0)]
    runs.append({**run, "stable": False, "stable_s": None, "nodes": 6})
    title, five, six = start_up.table(runs).splitlines()
    assert "3 of 3" in five
    assert "2.00 (1.00..4.00)" in five
    assert six.split()[4:8] == ["0", "of", "1", "-"]
    assert title.split()[:2] == ["nodes", "fanout"]


@pytest.mark.parametrize(("order", "expected"), [("together", [1, 2, 3]), ("reverse", [3, 2, 1]), ("random", None)])
def test_start_order(order, expected):
    start_order = netlab("lab").start_order
    found = start_order([3, 1, 2], order, seed=7)
    assert sorted(found) == [1, 2, 3]
    assert found == (expected or start_order([1, 2, 3], order, seed=7))
