"""The Grafana dashboard deploy/grafana/subord.json, from one entry per panel.

The schema is that of Grafana 10 and 11 (`schemaVersion` 38): https://grafana.com/docs/grafana/latest/dashboards/.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from build_cluster_panels import CLUSTERS
from build_panels import JOB, RATE, PanelSpec, Query, curves, durations, stat

Json = dict[str, Any]

WIDTH = 24  # columns of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODE = 'job="$job", instance=~"$instance"'


def _quantiles(name: str) -> list[Query]:
    rate = f"sum by (le) (rate(subord_{name}_seconds_bucket{{{JOB}}}{RATE}))"
    return [Query(f"histogram_quantile({share}, {rate})", f"{share:.0%}") for share in (0.5, 0.99)]


NUMBERS = (
    stat("Nodes", f"job:subord_nodes:max{{{JOB}}}", "In the tree, as its root counts them."),
    stat("Do not answer", f"job:subord_members_down:sum{{{JOB}}}", "Members that Prometheus cannot scrape.", 1),
    stat("Roots", f"job:subord_roots:sum{{{JOB}}}", "One, or the cluster is in parts.", 2),
    stat("Guests", f"job:subord_guests:ratio{{{JOB}}}", "Nodes away from home.", unit="percentunit"),
    stat("Depth", f"job:subord_depth:max{{{JOB}}}", "Edges between the root and the lowest."),
    stat(
        "Versions",
        f"count(count by (version) (subord_build_info{{{JOB}}}))",
        "One, except while the cluster is upgraded.",
        2,
    ),
    stat("Refusals", f"sum(subord_refusals{{{JOB}}})", "Nodes that refuse others or are refused.", 1),
    stat(
        "Alerts",
        'count(ALERTS{alertstate="firing", alertname=~"Subord.+", job=~"$job|"}) or vector(0)',
        "Firing now, including those without a cluster.",
        1,
    ),
)

TREE = (
    curves(
        "Nodes",
        "none",
        Query(f"job:subord_nodes:max{{{JOB}}}", "in the tree"),
        Query(f"job:subord_targets_up:sum{{{JOB}}}", "answer"),
        Query(f"job:subord_members:count{{{JOB}}}", "members, with those that vanished"),
        Query(f"max(subord_subtree_not_home_nodes{{{JOB}}})", "guests"),
    ),
    curves(
        "Changes of the leader",
        "ops",
        Query(f"job:subord_leader_changes:rate5m{{{JOB}}}", "all nodes"),
        about="None in a stable tree.",
    ),
    curves("Roots", "none", Query(f"job:subord_roots:sum{{{JOB}}}", "roots")),
    curves(
        "Depth",
        "none",
        Query(f"job:subord_depth:max{{{JOB}}}", "deepest"),
        Query(f"avg(subord_real_level{{{JOB}}})", "mean"),
    ),
)

HEALING = (
    durations("From giving up a leader to having the next", "healing"),
    durations("From the last sign of life of a leader to giving it up", "detection"),
    curves(
        "Healing and detection, 99 % of the last hour",
        "s",
        Query(f"job:subord_healing_seconds:p99_1h{{{JOB}}}", "healing"),
        Query(f"job:subord_detection_seconds:p99_1h{{{JOB}}}", "detection"),
    ),
    curves("Round trip to the leader", "s", *_quantiles("round_trip")),
)

TRAFFIC = (
    curves(
        "Sent by type, mean of a node",
        "Bps",
        Query(
            f'sum by (type) (rate(subord_bytes_total{{{NODE}, direction="sent"}}{RATE}))'
            f" / scalar(count(subord_is_root{{{NODE}}}))",
            "{{type}}",
        ),
    ),
    curves(
        "Sent and received, the ten busiest nodes",
        "Bps",
        Query(f"topk(10, instance:subord_bytes:rate5m{{{NODE}}})", "{{instance}} {{direction}}"),
    ),
    curves(
        "Datagrams by type, all nodes",
        "pps",
        Query(f"sum by (type, direction) (rate(subord_messages_total{{{NODE}}}{RATE}))", "{{type}} {{direction}}"),
    ),
    curves(
        "Dropped input, by reason",
        "pps",
        Query(f"sum by (reason) (rate(subord_input_dropped_total{{{NODE}}}{RATE}))", "{{reason}}"),
        about="After a restart some `first_contact` and `replay` are normal.",
    ),
)

DAEMONS = (
    curves(
        "Event loop late, 99 %, the ten worst nodes",
        "s",
        Query(f"topk(10, instance:subord_event_loop_lag_seconds:p99_5m{{{NODE}}})", "{{instance}}"),
    ),
    curves(
        "Processor, the ten busiest nodes",
        "percentunit",
        Query(f"topk(10, rate(process_cpu_seconds_total{{{NODE}}}{RATE}))", "{{instance}}"),
    ),
    curves(
        "Resident memory",
        "bytes",
        Query(f"max(process_resident_memory_bytes{{{NODE}}})", "largest"),
        Query(f"quantile(0.5, process_resident_memory_bytes{{{NODE}}})", "median"),
    ),
    curves(
        "Largest tables",
        "none",
        Query(f"max by (table) (subord_table_entries{{{NODE}}})", "{{table}}"),
        about="All are bounded.",
    ),
    curves(
        "Log lines by fate",
        "ops",
        Query(f"sum by (fate) (rate(subord_log_lines_total{{{NODE}}}{RATE}))", "{{fate}}"),
    ),
    curves(
        "Refusals",
        "none",
        Query(f"topk(10, sum by (instance, by) (subord_refusals{{{NODE}}}))", "{{instance}}, by {{by}}"),
        about="Nodes whose settings differ from those of others.",
    ),
)

_ROOT = f" and on (instance) subord_is_root{{{JOB}}} == 1"
NO_SHARES = "or on (job) vector(0)"
SHARES = (
    curves(
        "Shares of the classes of work, at the root",
        "percentunit",
        *(
            Query(f"max by (class) (subord_shares_{what}_ratio{{{JOB}}}{_ROOT}) {NO_SHARES}", f"{{{{class}}}} {what}")
            for what in ("wanted", "got", "used")
        ),
        about="Of a node, the mean; 0 without a name: no plan is in force. A class with work left that uses less than"
        " it should has the wrong weights, or its work on few nodes.",
    ),
    curves(
        "Nodes in the decisions, and how nodes follow",
        "none",
        Query(f"max(subord_shares_nodes_asked{{{JOB}}}{_ROOT}) {NO_SHARES}", "asked"),
        Query(f"max(subord_shares_nodes_told{{{JOB}}}{_ROOT}) {NO_SHARES}", "told"),
        Query(f"sum by (word) (subord_shares_state{{{JOB}}}) > 0 {NO_SHARES}", "{{word}}"),
        about="`subord shares status` names the missing nodes and the cause.",
    ),
)

NO_QUEUE = "or on (job) vector(0)"
ELASTIC = (
    curves(
        "Nodes of elastic clusters",
        "none",
        *(
            Query(f"sum(subord_elastic_{name}{{{JOB}}}) {NO_QUEUE}", legend)
            for name, legend in (
                ("size", "there, or paid for soon"),
                ("size_needed", "the queue needs"),
                ("size_min", "least"),
                ("size_max", "most"),
            )
        ),
        Query(f'sum by (stage) (subord_elastic_nodes{{{JOB}, stage!="serving"}}) > 0 {NO_QUEUE}', "{{stage}}"),
        about="0 without a name: no node has a queue. A stage is drawn while a node is in it.",
    ),
    curves(
        "Jobs and slots of their queues",
        "none",
        Query(f"sum by (state) (subord_elastic_jobs{{{JOB}}}) {NO_QUEUE}", "jobs {{state}}"),
        Query(f"sum(subord_elastic_slots{{{JOB}}}) {NO_QUEUE}", "slots"),
        Query(f"sum(subord_elastic_slots_free{{{JOB}}}) {NO_QUEUE}", "slots free"),
        about="`subord elastic why` tells why nodes are added or not.",
    ),
)

NO_MACHINES = "or on (job) vector(0)"
MACHINES = (
    curves(
        "Virtual machines by type",
        "none",
        Query(f'sum by (type) (subord_machines{{{JOB}, state="on"}}) {NO_MACHINES}', "{{type}} on"),
        Query(f'sum by (type) (subord_machines{{{JOB}, state="busy"}}) {NO_MACHINES}', "{{type}} with jobs"),
        Query(f'sum by (type) (subord_machines{{{JOB}, state="coming"}}) > 0 {NO_MACHINES}', "{{type}} coming"),
        about="0 without a name: no node has queues with machines.",
    ),
    curves(
        "Jobs for virtual machines",
        "none",
        Query(f"sum by (state) (subord_machines_jobs{{{JOB}}}) {NO_MACHINES}", "{{state}}"),
        about="`subord machines why JOB` tells what a job that waits gets, or why it gets nothing.",
    ),
    curves(
        "Cores of servers",
        "none",
        Query(f"sum by (what) (subord_machines_cores{{{JOB}}}) {NO_MACHINES}", "{{what}}"),
        about="What machines may have, what they have, and what is to stay free.",
    ),
    curves(
        "Memory of servers",
        "bytes",
        Query(f"sum by (what) (subord_machines_memory_bytes{{{JOB}}}) {NO_MACHINES}", "{{what}}"),
        about="Less the reserves of servers.",
    ),
    curves(
        "Actions with machines, in a minute",
        "none",
        Query(
            f"60 * sum by (action) (rate(subord_machines_actions_total{{{JOB}}}{RATE})) {NO_MACHINES}", "{{action}}"
        ),
        Query(
            f"60 * sum by (result) (rate(subord_machines_actions_failed_total{{{JOB}}}{RATE})) {NO_MACHINES}",
            "{{result}}",
        ),
        about="Those that came to nothing are refused, lost or expired: `subord machines status` has the reasons.",
    ),
    curves(
        "Servers in need",
        "none",
        Query(f'sum by (state) (subord_machines_servers{{{JOB}, state!="all"}}) {NO_MACHINES}', "{{state}}"),
        Query(f"sum(subord_machines_server_faults{{{JOB}}}) {NO_MACHINES}", "machines that could not be changed"),
        about="`subord machines list` names them.",
    ),
)

NO_TRANSFER = "or on (job) vector(0)"
TRANSFER = (
    curves(
        "Jobs that leave for another cluster",
        "none",
        Query(f"sum by (state) (subord_transfer_leaving{{{JOB}}}) {NO_TRANSFER}", "{{state}}"),
        about="`subord transfer jobs` lists them. 0 without a name: no node is a transfer host.",
    ),
    curves(
        "Jobs that come from another cluster",
        "none",
        Query(f"sum by (state) (subord_transfer_coming{{{JOB}}}) {NO_TRANSFER}", "{{state}}"),
        Query(f"sum(subord_transfer_coming_max{{{JOB}}}) {NO_TRANSFER}", "limit"),
    ),
    curves(
        "Jobs that have crossed, in a minute",
        "none",
        Query(
            f"60 * sum by (result) (rate(subord_transfer_left_total{{{JOB}}}{RATE})) {NO_TRANSFER}", "ours {{result}}"
        ),
        Query(
            f"60 * sum by (result) (rate(subord_transfer_taken_total{{{JOB}}}{RATE})) {NO_TRANSFER}",
            "theirs {{result}}",
        ),
    ),
    curves(
        "Link between clusters",
        "s",
        Query(f"max(subord_transfer_answer_age_seconds{{{JOB}}}) {NO_TRANSFER}", "since the last answer"),
        Query(
            f"max(subord_transfer_poll_age_seconds{{{JOB}}}) {NO_TRANSFER}", "since the last look at the batch system"
        ),
        about="`subord transfer status` names what is wrong.",
    ),
)

COLUMNS = (
    ("answers", f"max by (instance) (up{{{NODE}}})"),
    ("root", f"max by (instance) (subord_is_root{{{NODE}}})"),
    ("level", f"max by (instance) (subord_real_level{{{NODE}}})"),
    ("nodes below, itself included", f"max by (instance) (subord_subtree_nodes{{{NODE}}})"),
    ("subordinates", f"sum by (instance) (subord_subordinates{{{NODE}}})"),
    ("changes of the leader in an hour", f"max by (instance) (increase(subord_leader_changes_total{{{NODE}}}[1h]))"),
    ("leader", f"max by (instance, leader) (subord_leader_info{{{NODE}}})"),
    ("version", f"max by (instance, version) (subord_build_info{{{NODE}}})"),
)
"""The columns of the table of nodes; the last two show a label instead of their value."""

ROWS = (
    ("Cluster", CLUSTERS),
    ("Shares", SHARES),
    ("Elastic growth", ELASTIC),
    ("Virtual machines", MACHINES),
    ("Transfer queues", TRANSFER),
    ("Tree", TREE),
    ("Healing", HEALING),
    ("Traffic", TRAFFIC),
    ("Daemons", DAEMONS),
)


def dashboard() -> str:
    """The text of deploy/grafana/subord.json."""
    found = {
        "uid": "subord",
        "title": "subord",
        "description": "A cluster arranged by subord. Needs the rules of deploy/prometheus/subord.rules.yml.",
        "tags": ["subord"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_panels()),
    }
    return json.dumps(found, indent=1) + "\n"


def _variables() -> list[Json]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
    job = _variable("job", "Cluster", "label_values(subord_is_root, job)")
    instance = _variable("instance", "Node", 'label_values(subord_is_root{job="$job"}, instance)')
    instance |= {"multi": True, "includeAll": True, "allValue": ".+", "current": {"text": "All", "value": "$__all"}}
    return [source, job, instance]


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes: nodes come and go
        "sort": 1,
        "hide": 0,
    }


def _panels() -> Iterator[Json]:
    ids = count(1)
    width = WIDTH // len(NUMBERS)
    for number, spec in enumerate(NUMBERS):
        yield _panel(next(ids), spec, (number * width, 0, width, 4))
    y = 4
    for title, specs in ROWS:
        yield _row(next(ids), title, y)
        y += 1
        for number, spec in enumerate(specs):
            yield _panel(next(ids), spec, (number % 2 * WIDTH // 2, y + number // 2 * 8, WIDTH // 2, 8))
        y += (len(specs) + 1) // 2 * 8
    yield _row(next(ids), "Nodes", y)
    yield _table(next(ids), y + 1)


def _row(number: int, title: str, y: int) -> Json:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": _at(0, y, WIDTH, 1),
        "panels": [],
    }


def _at(x: int, y: int, width: int, height: int) -> Json:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(number: int, spec: PanelSpec, place: tuple[int, int, int, int]) -> Json:
    form = "heatmap" if spec.kind == "heatmap" else "time_series"
    defaults = {"unit": spec.unit, "min": 0, "thresholds": _thresholds(spec.red_from)}
    return {
        "id": number,
        "type": spec.kind,
        "title": spec.title,
        "description": spec.about,
        "gridPos": _at(*place),
        "datasource": SOURCE,
        "targets": [
            _target(chr(ord("A") + each), query.expr, legendFormat=query.legend or "__auto", format=form)
            for each, query in enumerate(spec.queries)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(spec.kind),
    }


def _target(letter: str, expr: str, **more: Any) -> Json:
    return {"refId": letter, "datasource": SOURCE, "expr": expr, **more}


def _thresholds(red_from: float | None) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if red_from is not None:
        steps.append({"color": "red", "value": red_from})
    return {"mode": "absolute", "steps": steps}


def _options(kind: str) -> Json:
    if kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "graphMode": "area"}
    if kind == "heatmap":
        return {"calculate": False, "yAxis": {"unit": "s"}, "color": {"mode": "scheme", "scheme": "Blues"}}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _table(number: int, y: int) -> Json:
    """One line per node: the answers of all queries, joined by `instance`."""
    letters = [chr(ord("A") + each) for each in range(len(COLUMNS))]
    values = {f"Value #{letter}": title for letter, (title, _) in zip(letters, COLUMNS, strict=True)}
    labels = {"leader", "version"}
    hidden = {column: True for column, title in values.items() if title in labels} | {"Time": True}
    return {
        "id": number,
        "type": "table",
        "title": "Nodes",
        "description": "A click on the head of a column sorts or filters it.",
        "gridPos": _at(0, y, WIDTH, 12),
        "datasource": SOURCE,
        "targets": [
            _target(letter, expr, format="table", instant=True)
            for letter, (_, expr) in zip(letters, COLUMNS, strict=True)
        ],
        "transformations": [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": hidden,
                    "renameByName": {column: title for column, title in values.items() if title not in labels},
                },
            },
        ],
        "fieldConfig": {"defaults": {"custom": {"filterable": True}}, "overrides": []},
        "options": {"showHeader": True, "sortBy": [{"displayName": "instance", "desc": False}]},
    }
