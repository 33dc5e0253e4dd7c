"""Aims and measurements: one table, from the same figures as the others.

Verdicts are computed; missed aims and missing runs count as missed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import build_accounting
import build_cluster_metrics
import build_shares_lab
import records
from build_evaluation import markdown
from build_paper import TIME, is_built, is_whole
from build_peers import KINDS, is_converged
from build_sealing import cpu_ratios, is_held, sieges
from records import Run, differences, groups, kept, one, ratios, values

WARM_AND_SCAN_NODES = 50
NOTHING_S, MET_S = 30, 10  # sparse networks, after the last start
SILENT_MAX = 10
SITES, NEAR_S, SPEARMAN = 4, 60, -0.9
REST_NODES_MIN = 100  # in smaller clusters the mean is mostly that of the root, and of pages that few processes share


class Row(NamedTuple):
    """One aim: its name, its bound, what was found in how many runs, and whether that is enough."""

    what: str
    aim: str
    found: str
    runs: int
    holds: bool


def _most(what: str, aim: str, runs: list[Run], key: str, *, bound: float, unit: str = "", digits: int = 2) -> Row:
    """The worst run must be within the bound; a run without a figure failed."""
    found = values(runs, key)
    result = f"{max(found):.{digits}f}{unit}" if found else "nothing"
    failed = len(runs) - len(found)
    return Row(
        what,
        aim,
        result + (f", {failed} failed" if failed else ""),
        len(runs),
        not failed and bool(found) and max(found) <= bound,
    )


def _whole(runs: Iterable[Run]) -> bool:
    return all(run["stable"] and run["roots"] == 1 for run in runs)


def starts() -> Iterator[Row]:
    """Dense starts, all runs of all fan-outs."""
    small, large = (records.read(name) for name in ("start-100-400", "start-together"))
    huge = one(records.read("growth-daemons"), nodes=1000)
    for what, aim, runs, key, bound in (
        ("100 and 400 nodes are one tree, after the last start", "2 s", small, "stable_after_last_start_s", 2),
        ("500 nodes are one tree, after the first start", "5 s", large, "stable_s", 5),
        ("500 nodes are one tree, after the last start", "1 s", large, "stable_after_last_start_s", 1),
        ("1,000 nodes are one tree, after the first start", "20 s", huge, "stable_s", 20),
    ):
        row = _most(what, aim, runs, key, bound=bound, unit=" s")
        yield row._replace(holds=row.holds and _whole(runs))
    yield _most(
        "leader changes of a node, dense start", "0.05", large, "leader_changes_per_node", bound=0.05, digits=3
    )
    yield _most("exchanges of a node until it has its place, dense", "1.1", large, "exchanges_per_node", bound=1.1)


def sparse() -> Iterator[Row]:
    """500 at random addresses of a /16; three layouts are judged by their worst row, too."""
    for name, what, bound in (
        ("sparse-random-nothing", "nothing to go by", NOTHING_S),
        ("sparse-random-seed", "a seed", MET_S),
        ("sparse-random-announcements", "announcements", MET_S),
    ):
        runs = records.read(name)
        title = f"500 random of a /16, {what}: one tree after the last start"
        row = _most(title, f"{bound} s", runs, "stable_after_last_start_s", bound=bound, unit=" s", digits=1)
        yield row._replace(holds=row.holds and _whole(runs))
        silent = "silent_probes_after_contact_per_node"
        found = statistics.mean(values(runs, silent))
        yield Row(
            f"... silent addresses asked after first contact, {what}",
            f"{SILENT_MAX} in the mean",
            f"{found:.1f}, worst run {max(values(runs, silent)):.1f}",
            len(runs),
            found <= SILENT_MAX,
        )


def paper() -> Iterator[Row]:
    """Mapping against full scan, and from disk."""
    for name, slow, fast, what, bound in (
        ("discovery", "scan", "mapping", "full scan : mapping", 3),
        ("warm", "cold", "warm", "search : start from disk, random addresses", 5),
    ):
        runs = one(records.read(name), nodes=WARM_AND_SCAN_NODES)
        some = [kept(one(runs, mode=mode), is_built) for mode in (slow, fast)]
        found = ratios(some[0][0], some[1][0], TIME)
        result = f"{statistics.median(found):.1f} in the median, {min(found):.1f} at least" if found else "nothing"
        enough = len(found) == len(runs) / 2 and statistics.median(found) >= bound
        title = f"{what}, {WARM_AND_SCAN_NODES} nodes, from the last start"
        yield Row(title, f"{bound} times", result, len(runs), enough)


def healing() -> Iterator[Row]:
    """Deaths."""
    rows = {(row["what"], row["role"]): row for row in records.read("healing")["rows"]}
    killed, cut, root = rows["kill", "interior"], rows["cut", "interior"], rows["kill", "root"]
    for what, aim, row, bounds in (
        ("orphans of a killed node have a leader again", "p50 0.7 s, p99 1.5 s", killed, (0.7, 1.5)),
        ("... of one that is cut off", "p99 5 s", cut, (5, 5)),
    ):
        times = row["attached_p50_s"], row["attached_p99_s"]
        result = f"p50 {times[0]:.2f} s, p99 {times[1]:.2f} s, {row['attached']} of {row['orphans']} orphans"
        holds = row["attached"] == row["orphans"] and all(t <= bound for t, bound in zip(times, bounds, strict=True))
        yield Row(what, aim, result, row["times"], holds)
    times = root["times"]
    replaced = root["roster_s_max"]
    yield Row(
        "a killed root is replaced, and its successor lists all", "3 s", f"{replaced:.2f} s", times, replaced <= 3
    )
    scenarios = {run["scenario"]: run for run in records.read("scenarios")["scenarios"]}
    halves = scenarios["partition_halves"]
    healed = halves["whole_s_max"]
    yield Row(
        "a partition of 300 heals to one root",
        "10 s",
        f"{healed:.1f} s",
        1,
        halves["result"] == "ok" and healed <= 10,
    )


def rest() -> Iterator[Row]:
    """Costs, in the clear and sealed."""
    clear = [run for run in records.read("growth-daemons") if run["nodes"] >= REST_NODES_MIN]
    sealed = [run for run in one(records.read("sealing"), way="sealed") if run["nodes"] >= REST_NODES_MIN]
    for way, runs in (("in the clear", clear), ("sealed", sealed)):
        for what, aim, key, bound, unit, digits in (
            ("packets", "1.1 a second", "rest_packets_per_s", 1.1, "", 2),
            ("bytes", "150 a second", "rest_bytes_per_s", 150, "", 0),
            ("CPU", "0.05 % of a core", "rest_cpu_percent", 0.05, " %", 3),
            ("memory (PSS)", "6 MiB", "pss_mib_per_node", 6, " MiB", 1),
        ):
            title = f"{what} of a node at rest, {way}, {REST_NODES_MIN} nodes and more"
            yield _most(title, aim, runs, key, bound=bound, unit=unit, digits=digits)
    samples = records.read("soak")["samples"]
    row = _most(
        "resident memory of a daemon, half an hour",
        "45 MiB",
        samples,
        "resident_mib_max",
        bound=45,
        unit=" MiB",
        digits=1,
    )
    yield row._replace(runs=1)


def alone() -> Iterator[Row]:
    """One sealed daemon, and its way to readiness."""
    runs = one(records.read("memory"), what="alone", state="ready", is_before=False)
    what = "resident memory of a daemon alone, sealed, ready"
    yield _most(what, "32 MiB", runs, "resident_mib", bound=32, unit=" MiB", digits=1)
    what = "CPU of a daemon alone, sealed, from exec to ready"
    yield _most(what, "0.2 s", runs, "cpu_s", bound=0.2, unit=" s")


def sealing() -> Iterator[Row]:
    """The cost of sealing, and its effect."""
    found = cpu_ratios()
    result = f"{statistics.median(found):.2f} in the median, {max(found):.2f} at most" if found else "nothing"
    enough = bool(found) and statistics.median(found) <= 1.2
    yield Row("CPU of a node at rest, sealed : in the clear", "1.2 times", result, len(found), enough)
    runs = sieges()
    held = [run for run in runs if is_held(run)]
    title = "no node understands, answers or follows an intruder without the key"
    yield Row(title, "never", f"{len(held)} of {len(runs)} sieges held", len(runs), len(held) == len(runs))
    slowest = values(held, "siege_orphans_max_s")
    result = f"{max(slowest):.2f} s" if slowest else "nothing"
    title = "orphans of a killed node have a leader again, under attack"
    yield Row(title, "1.5 s", result, len(slowest), len(slowest) == len(runs) and max(slowest) <= 1.5)


def mappings() -> Iterator[Row]:
    """Ranks by performance, and nodes of several sites with near leaders."""
    runs = records.read("mappings")
    far = one(runs, part="distance", mapping="latency")
    found, last = values(far, "wide_edges"), values(far, "wide_least_s")
    result = f"{max(found):g}, after {max(last):.0f} s" if found and last else "nothing"
    holds = len(last) == len(far) and max(found) == SITES - 1 and max(last) <= NEAR_S
    what = f"edges between {SITES} sites, 200 nodes, addresses in turns"
    yield Row(what, f"{SITES - 1}, within {NEAR_S} s", result, len(far), holds)
    ranked = one(runs, part="performance", fanout=2)
    order = values(ranked, "spearman")
    result = f"{max(order):.3f}" if order else "nothing"
    holds = len(order) == len(ranked) and max(order) <= SPEARMAN
    yield Row("performance and level, fan-out 2: Spearman", f"{SPEARMAN}", result, len(ranked), holds)
    above = values(one(runs, part="performance"), "above_faster")
    yield Row("nodes above one that is two classes faster", "0", f"{max(above):g}", len(above), max(above) == 0)
    for mapping, what in (("performance", "performances"), ("latency", "distances")):
        trembled = one(runs, part=f"trembling-{mapping}")
        moves = values(trembled, "moves")
        result = f"{max(moves):g}" if moves else "nothing"
        holds = len(moves) == len(trembled) and max(moves) == 0
        yield Row(f"leader changes while {what} tremble by 30 %, 10 minutes", "0", result, len(trembled), holds)


def commands() -> Iterator[Row]:
    """The duration of commands: whole processes."""
    for (name,), runs in groups(records.read("cli"), "command").items():
        what, bound = {
            "tree": (f"`subord tree` of {runs[0]['nodes']} nodes", 0.5),
            "position": ("a command without a daemon (`subord position`)", 0.2),
        }[name]
        yield _most(what, f"{bound} s", runs, "seconds", bound=bound, unit=" s")


def simulated() -> Iterator[Row]:
    """The simulator and its campaigns."""
    runs = records.read("growth")["runs"]
    ten, huge = one(runs, nodes=10_000), one(runs, nodes=100_000)
    cost = max(run["cpu_s"] / run["lasted_s"] * 60 for run in ten)
    yield Row("simulator: 10,000 nodes for 60 virtual seconds", "60 s", f"{cost:.0f} s of CPU", len(ten), cost <= 60)
    whole = all(run["whole_s"] is not None for run in huge)
    result = f"within {max(values(huge, 'tree_s')):.2f} virtual seconds" if whole else "not all"
    yield Row("simulator: 100,000 nodes become one tree", "they do", result, len(huge), whole)
    found = records.read("campaign")
    result = f"{found['seeds']:,} seeds, {found['failed']} failed"
    holds = found["seeds"] >= 10_000 and found["failed"] == 0
    yield Row("campaign", "10,000 seeds, none fails", result, 1, holds)


def services() -> Iterator[Row]:
    """Commands and files on all nodes; of each run the worst command counts."""
    for nodes, bound in EXEC_S.items():
        what = f"`subord exec` of `true` on {nodes} nodes"
        row = _service(what, f"{bound} s", ("exec", "speed", nodes), "took_s", bound=bound, unit=" s")
        taken = [each for run in _runs_of("exec", "speed", nodes) for each in run.get("took_s") or ()]
        middle = f" at most, {statistics.median(taken):.2f} s in the median" if taken else ""
        yield row._replace(found=row.found + middle)
    what = "... an interior node of 300 is killed meanwhile, each other one ran it once; later by"
    yield _service(what, "3 s", ("exec", "killed", 300), "later_s", bound=3, unit=" s")
    what = "... processes on 300 nodes that are left 3 s after Ctrl-C"
    yield _service(what, "0", ("exec", "interrupted", 300), "left", bound=0, digits=0)
    what = "... 1 GB of output from 300 nodes, all say what is cut; a process grows by"
    yield _service(what, "64 MiB", ("exec", "output", 300), "grown_mib", bound=64, unit=" MiB", digits=1)
    what = "... packets of 300 nodes at rest, after commands : before"
    yield _service(what, "1.1 times", ("exec", "rest", 300), "rest_times", bound=1.1)
    what = "`subord files push` of 1 MB to 500 nodes"
    yield _service(what, "5 s", ("files", "speed", 500), "took_s", bound=5, unit=" s")
    what = "... bytes that a node sends, with headers, as part of fan-out + 1 times the file"
    yield _service(what, "1.05", ("files", "speed", 500), "sent_share", bound=1.05)
    what = "... an interior node of 300 is killed meanwhile, all others have the file; later by"
    yield _service(what, "3 s", ("files", "killed", 300), "later_s", bound=3, unit=" s")


def _service(what: str, aim: str, of: tuple[str, str, int], key: str, **how: Any) -> Row:
    """`of`: the file, part and number of nodes. Each run must also have held. Nothing counts as missed."""
    found = _runs_of(*of)
    if not found:
        return Row(what, aim, "nothing", 0, holds=False)
    row = _most(what, aim, list(map(_worst, found)), key, **how)
    wrong = sum(run["fault"] is None and run["faults"] != [] for run in found)
    return row._replace(found=row.found + (f", {wrong} did not hold" if wrong else ""), holds=row.holds and not wrong)


def _runs_of(name: str, part: str, nodes: int) -> list[Run]:
    found = records.read(name)
    return [run for run in found if (run["part"], run["nodes"], run["system"]) == (part, nodes, "subord")]


def accounting() -> Iterator[Row]:
    """Records of jobs while daemons die. Smaller runs do not count; no row while nothing is measured."""
    if not records.is_measured(build_accounting.NAME):
        return
    wanted = {"records": 10**6, "nodes": 100, "roots": 10, "killed_percent_per_min": 10}
    runs = [{**run, "roots": run["kills"]["root"]} for run in records.read("accounting") if run["fault"] is None]
    large = [run for run in runs if all(round(run[key]) >= least for key, least in wanted.items())]
    lost, double = (sum(run["counted"][key] for run in large) for key in ("lost", "double"))
    wrong = sum(run["faults"] != [] for run in large)
    found = f"{lost}, {double}" + (f", {wrong} did not hold" if wrong else "") if large else "nothing"
    what = "1,000,000 records on 100 nodes, 10 % killed a minute, the root ten times: lost, double"
    yield Row(what, "0, 0", found, len(large), holds=bool(large) and not (lost or double or wrong))


EXEC_S = {100: 0.5, 200: 1.0, 500: 2.0}


def _worst(run: Run) -> Run:
    """Lists as their highest number, and figures that need two others."""
    found = {key: max(value) if key in LISTS and isinstance(value, list) else value for key, value in run.items()}
    if "daemon_mib" in run:
        found["grown_mib"] = max(run[f"{kind}_mib"] for kind in ("daemon", "agent", "client"))
    if run.get("sent_most_times"):
        found["sent_share"] = max(run["sent_most_times"]) / (run["fanout"] + 1)
    if "after_packets_per_s" in run:
        found["rest_times"] = run["after_packets_per_s"] / run["before_packets_per_s"]
    return found


LISTS = ("took_s", "later_s")


def cluster_metrics() -> Iterator[Row]:
    """Metrics of the largest cluster; of each run the worst look counts. None while they are not measured."""
    if not records.is_measured(build_cluster_metrics.NAME):
        return
    found = [_highest(run) for run in build_cluster_metrics.runs() if run["system"] == build_cluster_metrics.SUBORD]
    few, many = (one(found, nodes=nodes) for nodes in (100, METRICS_NODES))
    grown = ratios(many, few, "heart_bytes_per_s")
    result = f"{max(grown):.2f} at most" if grown else "nothing"
    what = f"metrics: bytes of the root at rest, {METRICS_NODES} : 100 nodes"
    yield Row(what, "1.5 times", result, len(many), len(grown) == len(many) and max(grown) <= 1.5)
    measured = [run for run in build_cluster_metrics.runs() if run["fault"] is None]
    without = [run for run in measured if run["system"] == build_cluster_metrics.WITHOUT]
    yield from _cost_of_metrics(many, [run for run in without if run["nodes"] == METRICS_NODES])
    what = f"... the oldest figure of {METRICS_NODES} nodes"
    yield _most(what, "20 s", many, "age_s", bound=20, unit=" s", digits=1)
    what = "... an interior node is killed; all living nodes are in the figures again after"
    yield _most(what, "5 s", many, "death_whole_s", bound=5, unit=" s", digits=1)
    held = sum(run["fault"] is None and run["faults"] == [] for run in found)
    what = "... sums and quantiles are those of the nodes, and none is counted twice after a death"
    yield Row(what, "always", f"{held} of {len(found)} runs held", len(found), held == len(found))


def _cost_of_metrics(runs: list[Run], without: list[Run]) -> Iterator[Row]:
    """Beside the runs without them that took turns with these."""
    for what, key, bound, digits in (
        ("packets", "node_packets_per_s", 0.3, 2),
        ("bytes", "node_bytes_per_s", 120, 0),
    ):
        found = differences(runs, without, key)
        result = f"{max(found):.{digits}f} at most" if found else "nothing"
        holds = len(found) == len(runs) and max(found, default=0.0) <= bound
        yield Row(f"... {what} a second that a node sends more for them", f"{bound}", result, len(runs), holds)
    times = ratios(runs, without, "all_cpu_percent")
    result = f"{max(times):.2f} at most" if times else "nothing"
    holds = len(times) == len(runs) and max(times, default=0.0) <= 1.15
    yield Row("... CPU at rest, with : without them", "1.15 times", result, len(runs), holds)


METRICS_NODES = 500


def _highest(run: Run) -> Run:
    """Lists of figures as their highest number; with one that is missing the run has none."""
    keys = ("age_s", "death_whole_s")
    return {**run, **{key: None if None in run[key] else max(run[key]) for key in keys if run.get(key)}}


def shares() -> Iterator[Row]:
    """On real daemons. None while they are not measured."""
    return (Row(*each) for each in build_shares_lab.aims())


GROUPS = (
    starts,
    sparse,
    paper,
    mappings,
    healing,
    rest,
    alone,
    sealing,
    services,
    cluster_metrics,
    shares,
    accounting,
    commands,
    simulated,
)


def _all() -> list[Row]:
    return [row for group in GROUPS for row in group()]


def targets_count() -> str:
    """How many aims were met, for the middle of a sentence."""
    rows = _all()
    return f"{sum(row.holds for row in rows)} of {len(rows)} aims are met"


def targets() -> str:
    """All aims, the missed ones marked."""
    rows = _all()
    return markdown(
        ["measure", "aim", "worst run", "runs", "holds"],
        [[row.what, row.aim, row.found, str(row.runs), "yes" if row.holds else "**no**"] for row in rows],
    )


def headline() -> str:
    """The figures for the README, with those of Serf and etcd."""
    start = kept(one(records.read("stability"), nodes=500, fanout=8), is_whole)[0]
    nodes, some = _race()
    runs = one(records.read("peers"), nodes=nodes)
    counts = [kept(one(runs, system=name), is_converged)[1] for name in some]
    killed, cut = ([f"{_median(each, key):.1f} s" for each in some.values()] for _, key in BRIEF_EVENTS)
    first, last = (f"{_median(start, key):.2f} s" for key in ("last_change_s", "last_change_after_last_start_s"))
    table = markdown(
        [
            "medians (last row: counts); real daemons, one machine with two cores",
            "subord",
            "Serf",
            "etcd, three members",
        ],
        [
            ["500 nodes start together: from the first start to the last change of place", first, "-", "-"],
            ["the same, from the last start", last, "-", "-"],
            [f"{nodes} nodes: a killed node is reported (1) after", *killed],
            [f"{nodes} nodes: a node that was cut off is reported (1) after", *cut],
            [f"{nodes} nodes at rest: packets per second from a node", *_sent(some, "packets_per_s", 1)],
            [f"{nodes} nodes at rest: bytes per second from a node", *_sent(some, "bytes_per_s", 0)],
            [f"{nodes} nodes: runs that formed a whole cluster within 180 s of the last start", *counts],
        ],
    )
    sealed = one(records.read("sealing"), way="sealed")
    packets, sent = _median(sealed, "rest_packets_per_s"), _median(sealed, "rest_bytes_per_s")
    size = sealed[0]["nodes"]
    versions = sorted({run["version"] for run in (*start, *some["subord"])})
    return f"""{table}
(1) By the root of subord, by all agents of Serf, by all watchers of etcd.
Measured with subord {" and ".join(versions)} without a key; "-" is not measured.
With a key, in another measurement, a node sends {packets:.1f} packets and {sent:,.0f} bytes a second ({size} nodes).
"""


BRIEF_COLUMNS = (
    ("packets/s", "packets_per_s", 2),
    ("bytes/s", "bytes_per_s", 0),
    ("CPU, % of a core", "cpu_percent", 3),
    ("resident, MiB", "resident_mib", 1),
)
BRIEF_EVENTS = (("killed node known, s", "known_kill_all_s"), ("cut node known, s", "known_cut_all_s"))


def peers_brief() -> str:
    """Each program at the largest size at which all have converged: medians."""
    nodes, _ = _race()
    rows = []
    for (system,), runs in groups(one(records.read("peers"), nodes=nodes), "system").items():
        sound, of = kept(runs, is_converged)
        known = [f"{_median(sound, key):.1f}" for _, key in BRIEF_EVENTS]
        for kind, title in KINDS.items():
            if values(sound, f"{kind}_packets_per_s"):
                cells = [f"{_median(sound, f'{kind}_{key}'):,.{digits}f}" for _, key, digits in BRIEF_COLUMNS]
                rows.append([system, of, title, *cells, *known])
    titles = [column[0] for column in (*BRIEF_COLUMNS, *BRIEF_EVENTS)]
    return f"{nodes} nodes, medians.\n\n" + markdown(["system", "runs", "figures of", *titles], rows)


def _race() -> tuple[int, dict[str, list[Run]]]:
    """The largest size at which each program has converged, and those runs."""
    runs = [run for run in records.read("peers") if is_converged(run)]
    names = ("subord", "serf", "etcd-3")
    sizes = [{run["nodes"] for run in runs if run["system"] == name} for name in names]
    nodes = max(set.intersection(*sizes))
    return nodes, {name: one(runs, nodes=nodes, system=name) for name in names}


def _sent(some: dict[str, list[Run]], key: str, digits: int) -> list[str]:
    """What a node sends; of etcd a client, and a member."""
    node, agent = (f"{_median(some[name], f'node_{key}'):,.{digits}f}" for name in ("subord", "serf"))
    client, member = (f"{_median(some['etcd-3'], f'{kind}_{key}'):,.{digits}f}" for kind in ("client", "member"))
    return [node, agent, f"client {client}, member {member}"]


def _median(runs: list[Run], key: str) -> float:
    return statistics.median(values(runs, key))


PARTS: dict[str, Callable[[], str]] = {
    "headline": headline,
    "peers-brief": peers_brief,
    "targets": targets,
    "targets-count": targets_count,
}
