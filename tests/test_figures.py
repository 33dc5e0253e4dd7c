"""The tables of the evaluation include failures: missed targets, failed runs, unnoticed deaths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from documents import imported
from loops import over

MACHINE = {"cores": 2, "memory_gib": 23.5, "kernel": "6.1", "python": "3.11.2", "load": 0.3}
Run = dict[str, Any]
Given = Callable[..., None]


records = imported("records")
build_accounting = imported("build_accounting")
build_growth_daemons = imported("build_growth_daemons")
build_mappings = imported("build_mappings")
build_order_faults = imported("build_order_faults")
build_paper = imported("build_paper")
build_peers = imported("build_peers")
build_prometheus = imported("build_prometheus")
build_running = imported("build_running")
build_sealing = imported("build_sealing")
build_shares = imported("build_shares")
build_targets = imported("build_targets")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """`given(name=runs)` replaces docs/figures/NAME.json."""

    def give(**figures: Any) -> None:
        by_name = {name.replace("_", "-"): found for name, found in figures.items()}
        read = records.read
        monkeypatch.setattr(records, "read", lambda name: by_name[name] if name in by_name else read(name))

    return give


def measured(number: int = 0, **found: Any) -> Run:
    return {"repeat": number, "fault": None, **found, "machine": MACHINE, "version": "0.1.0", "commit": "abc"}


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_a_missing_file_is_named() -> None:
    with pytest.raises(SystemExit, match=r"docs/figures/no-such.json is missing"):
        records.read("no-such")


def test_figures_name_the_version_of_the_program() -> None:
    runs = [measured(0, nodes=1), measured(1, nodes=1), {**measured(0, nodes=2), "commit": "def"}]
    words = records.about(runs, "nodes")
    assert "subord 0.1.0 at abc, 0.1.0 at def; 1 to 2 runs of each" in words


# -- targets ------------------------------------------------------------------------------------------------------


START = {
    "stable": True,
    "roots": 1,
    "stable_s": 4.0,
    "stable_after_last_start_s": 0.5,
    "leader_changes_per_node": 0.0,
    "exchanges_per_node": 1.0,
}
GOOD = {
    "start_100_400": [measured(**START)],
    "start_together": [measured(**START), measured(**START)],
    "growth_daemons": [measured(**START, nodes=1000)],
}


def test_all_targets_hold_for_good_runs(given: Given) -> None:
    given(**GOOD)
    assert all(row.holds for row in build_targets.starts())


@pytest.mark.parametrize(
    ("name", "worse", "missed"),
    [
        ("start_100_400", {"stable_after_last_start_s": 2.1}, "100 and 400 nodes are one tree, after the last start"),
        ("start_100_400", {"roots": 2}, "100 and 400 nodes are one tree, after the last start"),
        ("start_together", {"leader_changes_per_node": 0.06}, "leader changes of a node, dense start"),
        ("start_together", {"stable_s": 5.1}, "500 nodes are one tree, after the first start"),
        (
            "growth_daemons",
            {"nodes": 1000, "stable": False, "stable_s": None},
            "1,000 nodes are one tree, after the first start",
        ),
    ],
)
def test_one_bad_run_misses_a_target(given: Given, name: str, worse: Run, missed: str) -> None:
    given(**{**GOOD, name: [*GOOD[name], measured(**{**START, **worse})]})
    assert [row.what for row in build_targets.starts() if not row.holds] == [missed]


def test_an_orphan_without_a_new_leader_is_counted(given: Given) -> None:
    row = {"role": "interior", "times": 5, "orphans": 10, "attached_p50_s": 0.5, "attached_p99_s": 0.5}
    others = [{**row, "what": "cut", "attached": 10}, {**row, "what": "kill", "role": "root", "roster_s_max": 1.0}]
    given(healing={"rows": [{**row, "what": "kill", "attached": 9}, *others]})
    killed = next(iter(build_targets.healing()))
    assert (killed.found, killed.holds) == ("p50 0.50 s, p99 0.50 s, 9 of 10 orphans", False)


# -- the paper's tests --------------------------------------------------------------------------------------------


def found(mode: str, nodes: int, seconds: float | None, number: int = 0, **more: Any) -> Run:
    times = dict.fromkeys(("built_s", "built_after_last_start_s", "own_s_median"), seconds)
    about = {"nodes": nodes, "mode": mode, "network": "N", "stable": True, "roots": 1, "placed": nodes}
    return measured(number, **{**about, **times, **more})


def discovery(scan_s: float, nodes: int = 40, **more: Any) -> list[Run]:
    return [found("mapping", nodes, 1.0), found("scan", nodes, scan_s, **more)]


def test_a_faster_full_scan_is_reported_as_no(given: Given) -> None:
    given(discovery=[*discovery(0.5, 10), *discovery(0.6, 40), *discovery(0.7, 100)])
    assert build_paper.claim_scan().startswith("no: 0.5 times faster at 10 nodes")
    given(discovery=[*discovery(2.0, 10), *discovery(3.0, 40), *discovery(4.0, 100)])
    assert build_paper.claim_scan().startswith("yes: ")


def test_failed_runs_are_counted_and_not_averaged(given: Given) -> None:
    given(discovery=[*discovery(9.0), found("scan", 40, 90.0, 1, stable=False), found("mapping", 40, 1.0, 1)])
    assert rows(build_paper.discovery())[0] == [
        *("40", "from the first fork", "2 of 2", "1.000", "1 of 2", "9.000", "9.0"),
    ]


def test_a_slower_start_from_disk_is_reported_as_no(given: Given) -> None:
    given(warm=[found("cold", 50, 1.0), found("warm", 50, 2.0)])
    assert build_paper.claim_disk().startswith("no: ")


@pytest.mark.parametrize(
    ("worse", "verdict"),
    [
        ({}, "yes: one root in 1 of 1 runs, the last change after 4.0 s at most"),
        ({"roots": 2}, "no: one root in 0 of 1 runs"),
        ({"placed": 99}, "no: one root in 0 of 1 runs"),
        ({"last_change_s": 29.9}, "no: one root in 1 of 1 runs, the last change after 29.9 s at most"),
        ({"fault": "the lab failed", "roots": None}, "no: one root in 0 of 1 runs"),
    ],
)
def test_an_unstable_run_is_reported_as_no(given: Given, worse: Run, verdict: str) -> None:
    film = {"nodes": 100, "fanout": 2, "roots": 1, "placed": 100, "last_change_s": 4.0}
    given(stability=[measured(**{**film, **worse})])
    assert build_paper.claim_stability().startswith(verdict)


def test_growth_leaves_out_unstable_runs(given: Given) -> None:
    keys = [key for _, key, _ in build_growth_daemons.COLUMNS]
    run = {"nodes": 10, "fanout": 8, "stable": True, "roots": 1, "live": 10, "depth": 2, "depth_optimum": 2}
    good = measured(**{**run, **dict.fromkeys(keys, 1.0)})
    bad = measured(1, **{**run, **dict.fromkeys(keys), "roots": 2})
    given(growth_daemons=[good, bad])
    assert rows(build_growth_daemons.cost())[0][:5] == ["10", "8", "1 of 2", "2 (2)", "1.0"]


# -- others -------------------------------------------------------------------------------------------------------


def race(system: str, number: int, **more: Any) -> Run:
    about = {"nodes": 20, "system": system, "settings": f"how {system} runs", "meaning": "known: by all"}
    return measured(number, **{**about, "converged": True, **more})


REST = {"node_packets_per_s": 1.0, "node_bytes_per_s": 60.0, "node_cpu_percent": 0.04, "node_resident_mib": 7.0}
CLIENTS = {key.replace("node", "client"): value for key, value in REST.items()}
RACES = [
    race("subord", 0, converged_after_last_start_s=0.5, **REST, known_kill_all_s=0.4, leader_kill_s=0.5),
    race("subord", 1, converged_after_last_start_s=0.7, **REST, known_kill_all_s=None, leader_kill_s=0.6),
    race("serf", 0, converged=False, converged_after_last_start_s=None),
    race("serf", 1, converged_after_last_start_s=9.0, **REST, known_kill_all_s=6.0),
    race("etcd-3", 0, fault="etcd elected no leader"),
    race("etcd-3", 1, converged_after_last_start_s=2.0, **CLIENTS, known_kill_all_s=4.0),
]


def test_an_unnoticed_death_is_reported(given: Given) -> None:
    given(peers=RACES)
    by_system = {
        row[1]: dict(zip((key for _, key in build_peers.EVENTS), row[3:], strict=True))
        for row in rows(build_peers.events())
    }
    assert by_system["subord"]["known_kill_all_s"] == "0.40, 1 never"
    assert by_system["subord"]["leader_kill_s"] == "0.55 (0.50..0.60)"
    assert by_system["serf"]["leader_kill_s"] == "-"


def test_failed_runs_are_listed(given: Given) -> None:
    given(peers=RACES)
    assert build_peers.missed().splitlines() == [
        "- etcd-3, 20 nodes: etcd elected no leader",
        "- serf, 20 nodes: 1 of 2 runs did not converge in time.",
    ]


def test_clients_represent_a_system_without_equal_nodes(given: Given) -> None:
    given(peers=RACES)
    (clients,) = [row for row in rows(build_peers.cost()) if row[1] == "etcd-3"]
    assert clients == ["20", "etcd-3", "1 of 2", "each client", "1.00", "60", "0.040", "7.0"]
    assert {line.name for line in build_peers._lines("bytes_per_s")} == {"subord", "serf", "etcd-3"}


# -- the seal -----------------------------------------------------------------------------------------------------


def rested(way: str, number: int, percent: float) -> Run:
    costs = dict.fromkeys((key for _, key, _ in build_sealing.COSTS), 1.0)
    run = {**costs, "nodes": 40, "way": way, "stable": True, "roots": 1, "cpu_s_per_node": 0.001}
    return measured(number, **{**run, "rest_cpu_percent": percent})


SIEGE = {
    **dict.fromkeys(("plain", "moved_before_kill", "others_moved", "led_by_intruder", "knocks_answered", "ended"), 0),
    "faults": [],
    **dict.fromkeys(("peace_orphans_never", "siege_orphans_never"), 0),
    "nodes": 100,
    "roots": 1,
    "pretender_tree_nodes": 1,
    "siege_orphans_max_s": 0.5,
    "sent": {"replay": 5, "forge": 0},
    "forged": {"flipped": 3},
    "dropped": {"bad_tag": 7},
}


def test_a_seal_is_compared_with_the_run_beside_it(given: Given) -> None:
    given(
        sealing=[rested("sealed", 0, 0.06), rested("in the clear", 0, 0.05), rested("sealed", 1, 0.03)],
        siege=[measured(**SIEGE)],
    )
    table = rows(build_sealing.cost())
    assert [row[:3] for row in table] == [
        ["40", "sealed", "2 of 2"],
        ["40", "in the clear", "1 of 1"],
        ["40", "times as much", ""],
    ]
    assert table[-1][7] == "1.20"
    cpu, held, healed = build_targets.sealing()
    assert (cpu.found, cpu.runs, cpu.holds) == ("1.20 in the median, 1.20 at most", 1, True)
    assert held.holds
    assert healed.holds


@pytest.mark.parametrize(
    "worse",
    [
        {"plain": 1},
        {"roots": 2},
        {"others_moved": 1},
        {"led_by_intruder": 1},
        {"pretender_tree_nodes": 2},
        {"knocks_answered": 1},
        {"ended": 1},
        {"siege_orphans_never": 1},
        {"fault": "the lab failed"},
    ],
)
def test_a_failed_siege_is_reported(given: Given, worse: Run) -> None:
    given(
        sealing=[rested("sealed", 0, 0.07), rested("in the clear", 0, 0.05)],
        siege=[measured(**SIEGE), {**measured(1, **SIEGE), "faults": ["in words"], **worse}],
    )
    cpu, held, healed = build_targets.sealing()
    assert (held.found, held.holds) == ("1 of 2 sieges held", False)
    assert not healed.holds
    assert not cpu.holds
    if "fault" not in worse:
        assert "1" in {row[1] for row in rows(build_sealing.faults())}
        assert "`bad_tag` 7" in build_sealing.thrown_away()
        assert "forge" not in build_sealing.thrown_away().splitlines()[0]


def test_the_headline_compares_where_all_have_converged(given: Given) -> None:
    races = [{**run, "known_cut_all_s": 7.0} for run in RACES]
    larger = [{**run, "nodes": 30} for run in races if run["system"] != "serf"]
    etcd = {**races[-1], "member_packets_per_s": 9.0, "member_bytes_per_s": 90.0}
    given(peers=[*races[:-1], etcd, *larger])
    headline = build_targets.headline()
    assert "20 nodes" in headline
    assert "30 nodes" not in headline
    assert "| 2 of 2 | 1 of 2 | 1 of 2 |" in headline


def test_sealed_nodes_are_judged_beside_those_in_the_clear(given: Given) -> None:
    costs = {"rest_packets_per_s": 1.0, "rest_bytes_per_s": 60, "rest_cpu_percent": 0.04, "pss_mib_per_node": 5.0}
    given(
        growth_daemons=[measured(nodes=100, **costs), measured(nodes=10, **{**costs, "rest_cpu_percent": 1.0})],
        sealing=[measured(nodes=100, way="sealed", **{**costs, "rest_cpu_percent": 0.06})],
    )
    holds = {row.what: row.holds for row in build_targets.rest() if "resident" not in row.what}
    assert [what for what, held in holds.items() if not held] == ["CPU of a node at rest, sealed, 100 nodes and more"]
    assert len(holds) == 8


# -- mappings -----------------------------------------------------------------------------------------------------


CHANGE = {
    "was_leader_of": 2,
    "level_before": 1,
    "level_after": 4,
    "level_best": 4,
    "reached_s": 0.55,
    "own_moves": 1,
    "led_moved": 2,
    "others_moved": 3,
}
FAILED = {"fault": "No whole tree."}


def part(name: str, mapping: str, fanout: int = 8, **found: Any) -> Run:
    return measured(0, part=name, mapping=mapping, fanout=fanout, **found)


def test_a_failed_run_with_distant_sites_is_counted(given: Given) -> None:
    far = {"wide_edges": 3, "wide_edges_by_second": [9, 5, 3], "cut_whole_s": None}
    given(
        mappings=[
            part("distance", "latency", **far),
            part("distance", "latency") | FAILED,
            part("distance", "ip", **far),
        ]
    )
    runs, edges, *_ = rows(build_mappings.distance())
    assert runs == ["runs", "1 of 1", "1 of 2"]
    assert edges == ["edges between sites", "3", "3"]
    assert ["a site is cut off: both parts are whole, s", "-", "-"] in rows(build_mappings.distance())
    assert rows(build_mappings.over_time())[1] == ["`latency`", "5", "3", *["3"] * 6]


def test_every_change_of_performance_has_its_line(given: Given) -> None:
    slow, fast = CHANGE, {**CHANGE, "was_leader_of": 0, "level_after": 0, "reached_s": None}
    given(mappings=[part("performance", "performance", 2, spearman=-0.9, slow=slow, fast=fast)])
    (found,) = rows(build_mappings.order())
    assert found[:2] == ["2", "1 of 1"]
    assert "-0.900" in found
    assert rows(build_mappings.changes()) == [
        ["2", "8 times faster", "no subordinates", "1 → 0", "4", "-", "1", "2", "3"],
        ["2", "8 times slower", "leader of 2", "1 → 4", "4", "0.6", "1", "2", "3"],
    ]


def test_moves_during_trembling_measurements_are_reported(given: Given) -> None:
    still = {"trembled_s": 600.0, "places": 0, "calm_before": True}
    given(
        mappings=[
            part("trembling-latency", "latency", **still),
            part("trembling-latency", "latency", **still | {"places": 2}),
            part("trembling-performance", "performance", **still | {"calm_before": False}),
        ]
    )
    assert rows(build_mappings.trembling()) == [
        ["`latency`", "8", "1 of 2", "600", "1 (0..2)"],
        ["`performance`", "8", "0 of 1", "600", "0"],
    ]


# -- Prometheus ------------------------------------------------------------------------------------------------------


def alert_run(number: int, **found: Any) -> Run:
    whole = {"nodes": 100, "settings": "prometheus 2", "standing": "interior", "alerts": ["SubordNodeDown"]}
    whole["silent_panels"] = []
    return measured(number, **{**whole, "alert_s": 80.0 + number, **found})


def test_wrong_alerts_are_reported(given: Given) -> None:
    others = ["SubordNodeDown", "SubordSeveralRoots"]
    failed = {**measured(3), "nodes": 100, "fault": "Waited 300 s for Prometheus to raise the alarm."}
    silent = alert_run(4, silent_panels=["subord_nothing"], alert_s=500.0)
    given(prometheus=[alert_run(0), alert_run(1, alerts=others, alert_s=500.0), alert_run(2), failed, silent])
    text = build_prometheus.run_of_100()
    assert text.startswith("In 2 of 5 runs with 100 nodes")
    assert "| `SubordNodeDown` fires, s | 81.0 (80.0..82.0) |" in text


def test_without_any_alert_there_is_no_time(given: Given) -> None:
    given(prometheus=[{**measured(), "nodes": 100, "fault": "Prometheus ended."}])
    text = build_prometheus.run_of_100()
    assert text.startswith("In 0 of 1 runs")
    assert "| `SubordNodeDown` fires, s | - |" in text


# -- releases -----------------------------------------------------------------------------------------------------

build_releases = imported("build_releases")


def release_runs(release: str, *stable_s: float) -> list[Run]:
    about = {"what": "start", "name": "start of 500", "release": release}
    return [{**about, "repeat": number, "stable_s": found} for number, found in enumerate(stable_s)]


def test_a_figure_beyond_the_spread_of_before_is_named(given: Given) -> None:
    runs = [*release_runs("before", 5.0, 5.5, 6.0), *release_runs("now", 5.6, 6.1, 6.2)]
    given(releases={"machine": MACHINE, "commits": {"before": "abc", "now": "def"}, "runs": runs})
    assert "1 of 1 figures are worse beyond the spread: stable after the first start, s" in build_releases.worse()
    assert rows(build_releases.table())[0][-1] == "**worse**"


@pytest.mark.parametrize("now", [(5.6, 5.9, 6.2), (4.0, 6.1, 6.2), (4.0, 4.0, 4.0)])
def test_a_figure_within_the_spread_of_before_is_not_worse(given: Given, now: tuple[float, ...]) -> None:
    runs = [*release_runs("before", 5.0, 5.5, 6.0), *release_runs("now", *now)]
    given(releases={"machine": MACHINE, "commits": {"before": "abc", "now": "def"}, "runs": runs})
    assert "0 of 1 figures" in build_releases.worse()


# -- orders and faults ---------------------------------------------------------------------------------------------


def test_faults_of_agents_name_what_differed_and_count_failed_runs(given: Given) -> None:
    def turn(missing: dict[str, str], took_s: float) -> Run:
        answer = {"nodes": "1-75", "missing": missing, "took_s": took_s}
        return {"harm": "no agent", "answers": [answer, {**answer, "took_s": 0.1}] * 2}

    held = measured(0, nodes=300, turns=[turn({"no agent": "1,3-4"}, 1.0)], faults=[])
    worse = measured(1, nodes=300, turns=[turn({"no agent": "1,3-4", "silent": "7"}, 3.0)], faults=["no agent: ..."])
    given(agents=[held, worse, {**measured(2, nodes=300), "fault": "the lab fell over"}])
    ((harm, missing, first, again, whole),) = rows(build_order_faults.agents())
    assert (harm, missing) == ("no agent", "6 `no agent`; 6 `no agent`, 2 `silent`")
    assert (first, again, whole) == ("2.00 (1.00..3.00)", "0.10", "1 of 3")


# -- commands and files --------------------------------------------------------------------------------------------


def ran(part: str, nodes: int = 300, system: str = "subord", number: int = 0, **found: Any) -> Run:
    about = {"part": part, "nodes": nodes, "system": system, "fanout": 8, "layout": "dense", "timing": "lan"}
    return measured(number, **{"faults": [], "absent": {}, "date": "2026-11-25", **about, **found})


GROWN = {"daemon_mib": 1.0, "agent_mib": 9.0, "client_mib": 2.0}
REST_OF_EXEC = {"before_packets_per_s": 1.0, "after_packets_per_s": 1.05}
EXEC = [
    *(ran("speed", nodes, took_s=[0.3, 0.4], first_s=0.9, ended_least=nodes) for nodes in (100, 200, 500)),
    ran("killed", whole_s=[1.5], killed_s=[2.0, 2.5], later_s=[0.5, 1.0]),
    ran("interrupted", ran=300, left=0, ended_s=0.5),
    ran("output", **GROWN, told=300, took_s=9.0),
    ran("rest", **REST_OF_EXEC),
]
FILES = [
    ran("speed", 500, took_s=[3.0, 4.0], whole_least=500, sent_most_times=[8.0, 9.1], file_bytes=10**6),
    ran("killed", whole_s=[1.5], killed_s=[2.0], later_s=[0.5]),
]


def test_aims_of_commands_and_files(given: Given) -> None:
    given(exec=EXEC, files=FILES)
    found = list(build_targets.services())
    assert all(row.holds for row in found)
    assert [row.found for row in found[:3]] == ["0.40 s at most, 0.35 s in the median"] * 3
    assert [row.found for row in found[3:5]] == ["1.00 s", "0"]
    assert [row.found for row in found[5:8]] == ["9.0 MiB", "1.05", "4.00 s"]


@pytest.mark.parametrize(
    ("number", "worse", "missed"),
    [
        (0, {"took_s": [0.3, 0.51]}, "`true` on 100 nodes"),
        (1, {"nodes": 201}, "`true` on 200 nodes"),
        (3, {"later_s": [0.5, 3.1]}, "each other one ran it once"),
        (3, {"faults": ["node 7 ran it 2 times"]}, "each other one ran it once"),
        (4, {"left": 1}, "left 3 s after Ctrl-C"),
        (5, {"client_mib": 65.0}, "a process grows by"),
        (6, {"after_packets_per_s": 1.2}, "after commands : before"),
        (7, {"sent_most_times": [9.0, 9.5]}, "bytes that a node sends"),
        (8, {"fault": "the lab fell over", "later_s": None}, "all others have the file"),
    ],
)
def test_one_bad_run_of_commands_or_files_misses_an_aim(given: Given, number: int, worse: Run, missed: str) -> None:
    runs = [dict(run) for run in (*EXEC, *FILES)]
    runs[number].update(worse)
    given(exec=runs[: len(EXEC)], files=runs[len(EXEC) :])
    (row,) = [row for row in build_targets.services() if not row.holds]
    assert missed in row.what


def test_peers_stand_beside_subord_and_what_is_missing_is_named(given: Given) -> None:
    clush = ran("speed", 100, "clush", took_s=[9.0, 10.0], ended_least=100, settings="clush 1.9: sshd")
    absent = {"serf": "apt-get install serf"}
    failed = {**ran("speed", 100, "pdsh"), "fault": "Only 3 sshd listen."}
    bad = ran("speed", 100, number=1, took_s=[0.6], ended_least=99, faults=["ended on 99 of 100 nodes"])
    given(exec=[failed, clush, bad, ran("speed", 100, took_s=[0.4], ended_least=100, absent=absent)])
    columns = (("s", "took_s", 2), ("ended on", "ended_least", 0))
    assert rows(build_running.table("exec", "speed", columns)) == [
        ["100", "8", "subord", "1 of 2", "0.50 (0.40..0.60)", "100 (99..100)"],
        ["100", "-", "clush", "1 of 1", "9.50 (9.00..10.00)", "100"],
        ["100", "-", "pdsh", "0 of 1", "-", "-"],
    ]
    assert build_running.missed("exec").splitlines() == [
        "- speed, 100 nodes, pdsh, run 1: Only 3 sshd listen.",
        "- speed, 100 nodes, subord, run 2: ended on 99 of 100 nodes.",
        "- serf was not measured: apt-get install serf.",
    ]
    assert build_running.settings("exec") == "- *clush*: clush 1.9: sshd.\n"
    assert {line.name for line in build_running._lines("exec")} == {"subord", "clush"}
    assert "2026-11-25" in build_running.about("exec")


def test_faults_of_orders_have_a_row_for_each_wait_also_of_a_scenario_that_failed(given: Given) -> None:
    def answered(took_s: float, **missing: int) -> Run:
        return {"step": {"do": "answered"}, "seen": {"orders": 2, "took_s_max": took_s, "missing": missing}}

    order, kill = {"step": {"do": "order", "nodes": "1-2", "times": 16}}, {"step": {"do": "kill", "nodes": "5"}}
    whole = [{"step": {"do": "start"}}, order, answered(0.5), order, kill, answered(1.0, down=2)]
    failed = [*whole[:2], answered(0.7, silent=1), order, kill]
    words = "step 3 (answered): 1 was answered after 9.00 s, at most 5 s are allowed"
    failures = ((whole, None), (failed, words), (whole[:2], words))
    scenarios = [{"scenario": "x", "steps": steps, "failure": failure} for steps, failure in failures]
    given(order_faults={"machine": MACHINE, "scenarios": scenarios})
    assert rows(build_order_faults.orders()) == [
        ["order 1-2, 16 each", "2", "0 to 1 `silent`", "0.60 (0.50..0.70)", "2 of 3"],
        ["order 1-2, 16 each, kill 5", "2", "2 `down`", "1.00", "1 of 2"],
    ]


# -- records of jobs ----------------------------------------------------------------------------------------------


def sampled(at_s: float, **more: Any) -> Run:
    found = {
        "waiting": 0,
        "oldest_s": 0,
        "oldest_live_s": 0,
        "spool_bytes": 0,
        "spool_bytes_most": 0,
        "database_bytes": [1 << 20, 3 << 20],
    }
    return {"at_s": at_s, **found, **more}


KEPT = {"stored": 10**6, "lost": 0, "double": 0, "given_again": 2, "in_several": 7}
SINKS = ("10.0.0.3", "10.0.0.100")
ACCOUNTING = {
    "nodes": 100,
    "fanout": 8,
    "layout": "dense",
    "timing": "lan",
    "records": 10**6,
    "per_s": 1000.0,
    "request_records": 50,
    "files": "tmpfs",
    "absent": {},
    "faults": [],
    "sinks": [{"address": each, "database": "SQLite", "place": "home", "subordinates": 8} for each in SINKS],
    "kills": {"node": 167, "root": 10, "sink": 4, "sinks": 1, "server": 1},
    "killed_percent_per_min": 9.96,
    "accepted": 10**6,
    "writes_s": 1000.0,
    "emptied_s": 2.5,
    "unsure": 50,
    "waiting_most": 60_000,
    "oldest_s_most": 61,
    "oldest_live_s_most": 60,
    "spool_bytes_most": 5 << 20,
    "spool_bytes_of_one": 1 << 20,
    "cpu_percent_mean": 55.5,
    "counted": {
        **KEPT,
        "databases": {each: {"rows": 5, "records": 5, "twice": 0} for each in SINKS},
        "delay_s": {"p50": 0, "p99": 9, "p100": 61},
    },
    "report": {"jobs": 10**6, "took_s": 7.0},
    "deaths": [
        {"at_s": 50.0, "what": "root", "down_s": 3.0, "nodes": ["10.0.0.1"]},
        {"at_s": 70.0, "what": "sink", "down_s": 3.0, "nodes": ["10.0.0.3"]},
        {"at_s": 500.0, "what": "sinks", "down_s": 60.0, "nodes": list(SINKS)},
    ],
    "samples": [sampled(0.0), sampled(60.0, waiting=500, oldest_s=6, spool_bytes=5 << 20), sampled(120.0)],
}


@pytest.fixture(autouse=True)
def _has_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may be missing; tests give its contents."""
    is_measured = records.is_measured
    monkeypatch.setattr(records, "is_measured", lambda name: name == build_accounting.NAME or is_measured(name))


def accounted(**worse: Any) -> Run:
    return measured(0, **{**ACCOUNTING, **worse})


def test_records_that_are_lost_or_double_are_shown_and_miss_the_aim(given: Given) -> None:
    given(accounting=[accounted(), {**measured(1, **ACCOUNTING), "fault": "the lab fell over", "counted": None}])
    assert [row.holds for row in build_targets.accounting()] == [True]
    assert build_accounting.missed() == "- Run 2: the lab fell over.\n"
    shown = dict(row for row in rows(build_accounting.table()))
    assert (shown["**lost**"], shown["**double**"]) == ("0", "0")
    assert shown["given again after a lost answer"] == "50 records, 2 of them twice in the sinks"
    given(accounting=[accounted(), accounted(counted={**ACCOUNTING["counted"], "lost": 3}, faults=["3 are lost"])])
    (row,) = build_targets.accounting()
    assert (row.found, row.runs, row.holds) == ("3, 0, 1 did not hold", 2, False)
    assert "- Run 1: 3 are lost." in build_accounting.missed()


@pytest.mark.parametrize("less", [{"records": 20_000}, {"nodes": 12}, {"killed_percent_per_min": 9.4}])
def test_a_small_run_does_not_meet_the_aim(given: Given, less: Run) -> None:
    given(accounting=[accounted(**less)])
    (row,) = build_targets.accounting()
    assert (row.found, row.runs, row.holds) == ("nothing", 0, False)


def test_a_sink_without_postgresql_is_named(given: Given) -> None:
    given(accounting=[accounted(absent={"postgresql": "apt-get install postgresql"})])
    assert build_accounting.missed() == "- Run 1 is without PostgreSQL: apt-get install postgresql.\n"
    assert [each[2] for each in rows(build_accounting.sinks())] == ["leads 8", "leads 8"]


def test_lag_and_disk_are_drawn_with_the_deaths(given: Given) -> None:
    given(accounting=[accounted()])
    lag, disk = build_accounting.lag_svg(), build_accounting.disk_svg()
    assert ("Records that wait" in lag, "Databases of the sinks, MiB" in disk) == (True, True)
    assert lag.count('<rect class="mark m1"') == 2 * 2, "one root died; beside it the legend, in two panels"
    assert lag.count('<path class="mark m2"') == 2 * 3, "begin and end of the outage"
    assert disk.count("<polyline") == 4


def test_a_page_without_figures_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "is_measured", lambda _: False)
    assert {part() for part in build_accounting.PARTS.values()} == {"Not measured yet.\n"}
    assert list(build_targets.accounting()) == []


def test_figures_without_a_run_are_refused(given: Given) -> None:
    given(accounting=[{**measured(0), "fault": "the lab fell over"}])
    with pytest.raises(SystemExit, match="has no run that was measured"):
        build_accounting.table()


# -- shares of classes --------------------------------------------------------------------------------------------


def shares(figure: int, mean: float, std: float, static: float = 3.0, worst: int = 3) -> Run:
    classes = {name: {"mean": mean, "std": std} for name in build_shares.CLASSES}
    recovery = {"mean": 3.0, "max": worst}
    return {
        "variant": "bank",
        "figure": figure,
        "seeds": 6,
        **classes,
        "static": {"class3": {"mean": static, "std": 0.1}},
        "recovery_rounds": {"fluid": recovery, "noisy": recovery},
    }


@over(
    ("run", "holds"),
    [
        (shares(3, 10.2, 2.7, static=2.55), "yes"),
        (shares(3, 10.2, 2.7, static=2.7), "**no**"),
        (shares(4, 8.6, 3.5), "yes"),
        (shares(4, 8.6, 3.7), "**no**"),
        (shares(5, 8.4, 0.6), "**no**"),
        (shares(6, 9.5, 0.6), "yes"),
        (shares(6, 9.3, 0.6), "**no**"),
        (shares(7, 9.9, 0.5), "yes"),
        (shares(7, 9.9, 0.6), "**no**"),
        (shares(8, 10.0, 0.6), "yes"),
        (shares(8, 10.0, 0.6, worst=4), "**no**"),
    ],
)
def test_figures_of_shares_miss_their_aims(given: Given, run: Run, holds: str) -> None:
    others = [] if run["figure"] == 5 else [shares(5, 9.9, 0.6)]
    given(shares={"runs": [*others, run]})
    (row,) = [row for row in rows(build_shares.usage()) if row[0] == str(run["figure"])]
    assert row[-1] == holds
