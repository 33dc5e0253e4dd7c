"""Mappings by latency and performance: real daemons far apart, or of different speed; and what judges them."""

import json
from itertools import count

import pytest
from loops import over

from subord.core.quantize import class_of

from .lab_helpers import FAKE, WAIT_S, need_relay, netlab, refused, run_lab

pytestmark = pytest.mark.lab

THREE = """
addresses = "interleaved"
link = { rtt_ms = 30 }
sites = [{ name = "a" }, { name = "b" }, { name = "c" }]
"""


def is_in_order(judged):
    """As far as it must be: level by level, with one that is off by one here and there."""
    return (
        judged["above_faster"] == 0 and judged["root_is_best"] and judged["spearman"] < 0.9 * judged["spearman_best"]
    )


# -- real daemons -------------------------------------------------------------------------------------------------


def test_as_few_wide_edges_as_can_be_also_when_round_trips_tremble(tmp_path):
    """By the addresses it would be eight of eleven."""
    need_relay()
    (tmp_path / "three.toml").write_text(THREE)
    given = {"sites": tmp_path / "three.toml", "mapping": "latency", "timing": "lab"}
    with netlab("lab").Lab(12, 4, **given) as lab:
        lab.start_all()
        lab.wait(lambda cluster: cluster.settled_at() is not None and lab.wide_edges() == 2, WAIT_S)
        lab.jitter(0.3)
        assert netlab("mappings.base").await_quiet(lab, 1.0, lambda: lab.wide_edges() == 2, seconds=WAIT_S)
        lab.cut_site("b")
        parts = [set(lab.options.sites.members[1]), {*lab.options.sites.members[0], *lab.options.sites.members[2]}]
        lab.wait(lambda cluster: all(cluster.settled_at(part) for part in parts) and lab.wide_edges() == 1, WAIT_S)
        lab.cut_site("b", connected=True)
        lab.wait(lambda cluster: cluster.settled_at() is not None and lab.wide_edges() == 2, WAIT_S)


def test_the_best_leads_and_who_becomes_slower_sinks(tmp_path):
    """Ten classes; the fastest has the highest position."""
    speeds = {position: 100.0 * 1.6**position for position in range(1, 13)}
    with netlab("lab").Lab(12, 2, mapping="performance", timing="lab") as lab:
        for position, jobs_per_hour in speeds.items():
            lab.set_performance(position, jobs_per_hour)
        lab.start_all()
        judged = netlab("mappings.rank_change").judged
        lab.wait(lambda cluster: cluster.settled_at() is not None and is_in_order(judged(lab)), WAIT_S)
        assert [root.address for root in lab.look().roots()] == [lab.address(12)]
        told = [each["ranking"] for each in netlab("mappings.base").statuses(lab).values()]
        assert {each["mapping"] for each in told} == {"performance"}
        assert {each["performance_class"] for each in told} == set(map(class_of, speeds.values()))
        before = netlab("mappings.ranking").levels(lab.look().leaders())[lab.address(11)]
        lab.set_performance(11, 100.0)
        lab.wait(
            lambda cluster: netlab("mappings.ranking").levels(cluster.leaders())[lab.address(11)] > before, WAIT_S
        )
        run_lab("perform", "--name", lab.options.name, 11, 100_000)
        lab.wait(lambda cluster: [root.address for root in cluster.roots()] == [lab.address(11)], WAIT_S)


def test_a_run_and_its_record(tmp_path):
    mappings, file = netlab("mappings.experiment"), tmp_path / "figures.json"
    given = {"parts": ("trembling-performance",), "timing": "lab", "seconds": 1.0, "events": tmp_path}
    plan = mappings.Plan(nodes=(8,), fanout=(2, 4), repeat=3, **given)
    records = netlab("experiments.evaluate").run_all(plan.runs(), file, lambda _: None)
    (run,) = json.loads(file.read_text())
    assert run == records[0]
    assert mappings.is_whole(run), mappings.faults_of(run)
    assert (run["mapping"], run["fanout"], run["places"], run["roots"]) == ("performance", 2, 0, 1)
    assert len(list(tmp_path.glob("mappings-*.jsonl"))) == 1
    assert "changes of place                0" in mappings.table(records)


def test_up_deals_performances(tmp_path):
    drawn = netlab("topology.layout").performances
    addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert drawn("latency", addresses, 16, 1) == drawn("performance", addresses, 0, 1) == {}
    found = drawn("performance", addresses, 16, 1)
    assert list(found) == addresses
    assert max(found.values()) == pytest.approx(16 * min(found.values()))
    assert drawn("performance", addresses, 16, 1) == found != drawn("performance", addresses, 16, 2)
    with netlab("lab").Lab(2, mapping="performance", spread=4, daemon=str(FAKE)) as lab:
        texts = [(lab.directory.node(position) / "config.toml").read_text() for position in lab.positions]
        assert all('mapping = "performance"\n' in text for text in texts)
        assert sorted(text.partition("\nperformance = ")[2].split("\n")[0] for text in texts) == ["100.0", "400.0"]
        lab.set_performance(2, 7.5)  # it does not run: it will read that when it starts
        assert "\nperformance = 7.5\n" in (lab.directory.node(2) / "config.toml").read_text()


@over(
    ("arguments", "code", "words"),
    [
        (("evaluate", "mappings", "--parts", "taste"), 2, "`taste`: choose from distance, performance, trembling"),
        (("evaluate", "mappings", "--nodes", "3"), 1, "8 nodes or more"),
        (("evaluate", "mappings", "--events", "no-such"), 1, "is no directory"),
        (("evaluate", "mappings", "--sites", "no-such.toml"), 1, "No such file"),
        (("up", "--nodes", "2", "--mapping", "taste"), 2, "invalid choice: 'taste'"),
        (("up", "--nodes", "2", "--spread", "0.5"), 2, "neither 0 nor from 1"),
        (("tremble", "1"), 2, "not from 0 to below 1"),
        (("perform", "1", "0"), 2, "not above 0"),
        (("evaluate", "siege", "--seconds", "-1"), 2, "--seconds: -1 is not above 0"),
        (("evaluate", "siege", "--per-s", "nan"), 2, "--per-s: nan is not a number"),
        (("evaluate", "siege", "--seconds", "soon"), 2, "--seconds: soon is not a number"),
        (("soak", "--minutes", "x"), 2, "--minutes: x is not 1 or more"),
        (("stabilise", "--nodes", "2", "--rest", "-1"), 2, "--rest: -1 is not 0 or more"),
    ],
)
def test_wrong_input(tmp_path, arguments, code, words):
    result = refused(*arguments, cwd=tmp_path)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr


# -- jitter of a link -----------------------------------------------------------------------------------------


def test_a_link_with_jitter_stays_within_its_share():
    link = netlab("topology.sites").Link(delay_s=0.02, loss=0.1, bits_per_s=1e6)
    ends = [netlab("topology.wan").jittered(link, 0.3, draw) for draw in (0.0, 0.5, 1.0)]
    assert [each.delay_s for each in ends] == pytest.approx([0.014, 0.02, 0.026])
    assert {(each.loss, each.bits_per_s) for each in ends} == {(0.1, 1e6)}


def test_both_directions_have_the_same_jitter_and_it_stops():
    sites = netlab("topology.sites")
    two = sites.Sites(
        names=("a", "b"),
        members=(("10.0.0.1",), ("10.0.0.2",)),
        links=((0, 1, sites.Link(delay_s=0.1)),),
    )
    draws = iter([0.0, 0.0, *[0.9] * 4, 1.0, 0.0, *[0.9] * 40])
    it = netlab("topology.wan").Wan(two, lambda: next(draws))
    frame = b"\xff" * 60

    def passing_s(now):
        for site in (0, 1):
            it.take(site, frame, now)
        found = []
        while it.next_at < float("inf"):
            at = it.next_at
            found += [at - now for _ in it.due(at)]
        return found

    it.jitter(0.3, 100.0)
    assert passing_s(100.0) == pytest.approx([0.07, 0.07])  # draws: one delay, until when, and two frames
    assert passing_s(104.9) == pytest.approx([0.07, 0.07])
    assert passing_s(105.0) == pytest.approx([0.13, 0.13])
    it.jitter(0.0, 106.0)
    assert passing_s(1e6) == pytest.approx([0.1, 0.1])


# -- the order of a tree ------------------------------------------------------------------------------------------


@over(
    ("one", "other", "expected"),
    [
        ([1, 2, 3], [10, 20, 30], 1),
        ([1, 2, 3], [3, 2, 1], -1),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),
        ([1, 2, 2, 3], [1, 2, 3, 3], 3.75 / 4.5),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_spearman(one, other, expected):
    found = netlab("mappings.ranking").spearman(one, other)
    assert found == (None if expected is None else pytest.approx(expected))


def test_ties_share_the_average_of_their_ranks():
    assert netlab("mappings.ranking").ranks([7, 3, 7, 7, 1]) == [4, 2, 4, 4, 1]
    assert netlab("mappings.ranking").ranks([]) == []


def test_rows_and_levels():
    ranking = netlab("mappings.ranking")
    assert ranking.levels_in_order(8, 2) == [0, 1, 1, 2, 2, 2, 2, 3]
    leaders = {"a": None, "b": "a", "c": "b", "d": "gone", "e": "f", "f": "e"}
    found = ranking.levels(leaders)
    assert (found["a"], found["b"], found["c"], found["d"]) == (0, 1, 2, 0)
    assert found["e"] == len(leaders)  # a circle has no top
    assert ranking.on_levels({"a": 0, "b": 2, "c": 2}) == [1, 0, 2]


def test_order_and_the_best_order():
    ranking = netlab("mappings.ranking")
    speeds = {f"n{number}": 100.0 - number for number in range(15)}
    in_order = dict(zip(speeds, ranking.levels_in_order(15, 2), strict=True))
    assert ranking.order(speeds, in_order) == ranking.best_order(speeds, 2) < -0.9
    assert ranking.order(speeds, {**in_order, "n0": 3, "n14": 0}) > ranking.best_order(speeds, 2)


def test_who_stands_above_somebody_faster():
    below_slower = netlab("mappings.ranking").below_slower
    leaders = {"a": None, "b": "a", "c": "b", "d": "b"}
    assert list(below_slower(leaders, {"a": 5, "b": 4, "c": 5, "d": 1})) == []  # one class is no matter
    assert list(below_slower(leaders, {"a": 4, "b": 6, "c": 6, "d": 8})) == [
        *(("a", "b"), ("a", "c")),
        *(("b", "d"), ("a", "d")),
    ]


# -- what a log shows ---------------------------------------------------------------------------------------------


def places(*some):
    return [{"mono": float(at), "node": node, "event": "place", "leader": leader} for at, node, leader in some]


def test_wide_edges_over_time():
    replay = netlab("eventlog.changes")
    log = places((1, "a1", None), (2, "b1", "a1"), (3, "a2", "b1"), (4, "a2", "a1"), (5, "b2", "b1"), (6, "a1", None))
    changes = replay.wide_edges([*log, {"mono": 7.0, "node": "b1", "event": "stopped"}], lambda node: node[0])
    assert changes == [(2.0, 1), (3.0, 2), (4.0, 1), (7.0, 0)]
    assert replay.by_second(changes, 0.5, 5.0) == [0, 0, 1, 2, 1]
    assert (replay.since(changes, 0), replay.since(changes[:3], 1), replay.since(changes, 1)) == (7.0, 4.0, None)
    assert replay.since([(1.0, 3), (2.0, 3)], 3) == 1.0


def test_the_level_of_one_over_time():
    replay = netlab("eventlog.changes")
    before = {"a": None, "b": "a", "c": "b", "d": "c"}
    log = places((1, "c", "a"), (2, "b", "c"), (3, "d", "b"), (4, "d", "a"))
    assert replay.level(log, "d", before) == [(1.0, 2), (3.0, 3), (4.0, 1)]
    numbers = count()
    assert [at for at, _ in replay.changes(log, lambda _: next(numbers), before)] == [1, 2, 3, 4]


def test_what_went_wrong_is_said():
    mappings = netlab("mappings.experiment")
    calm = {"part": "trembling-latency", "fault": None, "calm_before": True, "places": 0}
    assert mappings.is_whole(calm)
    assert mappings.faults_of({**calm, "places": 2}) == ["2 changes of place"]
    assert mappings.faults_of({**calm, "fault": "No whole tree."}) == ["No whole tree."]
    far = {"part": "distance", "fault": None, "mapping": "latency", "wide_edges": 4, "wide_edges_least": 3}
    far |= {"rest_place_changes": 0, "cut_whole_s": 1.0, "mend_one_root_s": None, "mend_wide_edges": 3}
    assert mappings.faults_of(far) == ["4 wide edges", "the whole did not become one again"]
    assert mappings.faults_of({**far, "mapping": "ip", "mend_one_root_s": 1.0}) == []
