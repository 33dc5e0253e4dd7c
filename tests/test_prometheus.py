"""The files for Prometheus and Grafana: valid by promtool, and about existing metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from loops import over

from subord.api.handlers.control import control_app
from subord.api.handlers.metrics import node_registry, page
from subord.api.handlers.targets import MEMBERS_HEAD
from subord.api.handlers.web import web_app
from subord.api.http.server import Response
from subord.api.models.coverage import MissingDocument
from subord.api.models.metrics import MetricsDocument
from subord.services.metrics import kernel
from subord.services.metrics.exposition import page as cluster_page
from subord.services.metrics.rates import name_of_rate
from subord.services.metrics.record import figures, record_of
from subord.services.metrics.wanted import USUAL, chosen
from subord.services.serving import service_app
from tests.api.fake_node_api import World
from tests.test_docs import anchors, build

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]
DEPLOY = REPOSITORY / "deploy" / "prometheus"
RULES = yaml.load((DEPLOY / "subord.rules.yml").read_text(encoding="utf-8"), yaml.CSafeLoader)
FILES = ("subord.rules.test.yml", "subord.rules.days.test.yml")
TESTS, DAYS = (yaml.load((DEPLOY / each).read_text(encoding="utf-8"), yaml.CSafeLoader) for each in FILES)
DASHBOARD = json.loads((REPOSITORY / "deploy" / "grafana" / "subord.json").read_text(encoding="utf-8"))
OF_PROMETHEUS = {"up", "ALERTS"}
TEXTS = {
    "/proc/loadavg": "0.50 1.25 2.00 3/456 789",
    "/proc/meminfo": "MemTotal: 4 kB\nMemAvailable: 2 kB\nSwapFree: 1 kB",
    "/proc/stat": "cpu 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8",
    "/proc/diskstats": "8 0 sda 10 0 200 5 20 0 400 7 0 1500 12 0 0 0 0",
    "/proc/net/dev": "\n\neth0: 100 10 1 2 0 0 0 0 50 5 3 4 0 0 0 0",
    **dict.fromkeys(
        ("/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io"), "some total=5\nfull total=1"
    ),
}
"""What the kernel tells the metrics of the cluster."""
LABELS_OF_PROMETHEUS = {"job", "instance", "le", "alertname", "alertstate"}
VARIABLES = {"$__rate_interval": "5m", "$job": "subord", "$instance": ".+"}

GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
MATCHERS = re.compile(r"\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
NAME = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])")
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def rules() -> Iterator[dict[str, Any]]:
    for group in RULES["groups"]:
        yield from group["rules"]


def plain(expr: str) -> str:
    """With the variables of the dashboard replaced."""
    for variable, value in VARIABLES.items():
        expr = expr.replace(variable, value)
    return expr


def drawn() -> list[str]:
    """The queries of the dashboard."""
    return [plain(target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def names(expr: str) -> set[str]:
    """The metrics that an expression reads."""
    bare = re.sub(r"\[[^\]]*\]", "", MATCHERS.sub("", GROUPING.sub("", re.sub(r'"[^"]*"', '""', expr))))
    return {found for found in NAME.findall(bare) if found not in WORDS}


def labels(expr: str) -> set[str]:
    """The labels by which it selects or groups."""
    unquoted = re.sub(r'"[^"]*"', '""', expr)
    chosen = [label for part in MATCHERS.findall(unquoted) for label in LABEL.findall(part)]
    grouped = [label.strip() for part in GROUPING.findall(unquoted) for label in part.split(",")]
    return {*chosen, *grouped}


def of_cluster() -> str:
    """`/metrics/cluster` of nodes that carry the usual metrics."""
    told = {name: value for file in kernel.FILES for name, value in file.parse(TEXTS[file.path]).items()}
    told |= kernel.network(TEXTS["/proc/net/dev"], kernel.interfaces(TEXTS["/proc/net/dev"]))
    known = {name.partition("{" + kernel.DEVICE)[0]: value for name, value in told.items()}
    known |= {f'node_filesystem_{what}_bytes{{mountpoint="/"}}': 1.0 for what in ("avail", "size")}
    carried, _ = chosen({name_of_rate(name): value for name, value in known.items()}, USUAL)
    found = tuple(figures(record_of(carried, 1), lambda _: "10.0.0.1"))
    missing = (MissingDocument(cause="stale", text="is stale", count=1, addresses=("10.0.0.2",)),)
    about = {"asked": 2, "told": 1, "complete": False, "missing": missing, "oldest_ms": 5.0, "left_out": 0}
    return cluster_page(MetricsDocument(metrics=found, **about)).decode()


@cache
def exported() -> tuple[set[str], set[str]]:
    """(names, labels) of everything that a daemon exports or the recording rules compute."""
    text = page(node_registry(build.build_prometheus.build_tables.build_stories.scraped())).decode() + MEMBERS_HEAD
    text += of_cluster()
    found: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        parts = {f"{name}_{part}" for part in ("sum", "count")}
        more = {"histogram": {*parts, f"{name}_bucket"}, "summary": {*parts, name}}
        found |= more.get(kind, {name})
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    return found | recorded | OF_PROMETHEUS, {*re.findall(r'[{,](\w+)="', text), "address"} | LABELS_OF_PROMETHEUS


@over(
    ("expr", "metrics", "by"),
    [
        ("count by (job) (up)", {"up"}, {"job"}),
        ('a{x="b c", y!~"d"} / on (job, z) group_left e:f:g', {"a", "e:f:g", "group_left"}, {"x", "y", "job", "z"}),
        ("histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m]))) > 1e3", {"h_bucket"}, {"le"}),
        ("x offset 1d - max_over_time(y[1d]) and z", {"x", "y", "z"}, set()),
        ("sum(rate(subord_bytes_total[5m])) or vector(0)", {"subord_bytes_total"}, set()),
    ],
)
def test_names_and_labels_are_found(expr: str, metrics: set[str], by: set[str]) -> None:
    assert names(expr) == metrics
    assert labels(expr) == by


@over("expr", [*(rule["expr"] for rule in rules()), *drawn()])
def test_only_metrics_are_read_that_exist(expr: str) -> None:
    known, known_labels = exported()
    assert names(expr), expr
    assert names(expr) <= known
    assert labels(expr) <= known_labels


def test_a_metric_that_does_not_exist_is_noticed() -> None:
    known, known_labels = exported()
    assert not names("rate(subord_children_total[5m])") <= known
    assert not names("subord_healing_seconds") <= known  # a histogram has only its parts
    assert not names("subord_cluster_node_load5") <= known  # a metric that nodes do not carry
    assert not labels('up{position="1"}') <= known_labels


def test_variables_read_metrics_that_exist() -> None:
    queries = [each["definition"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    assert len(queries) == 2
    for query in queries:
        assert names(plain(re.sub(r"label_values\((.*), \w+\)", r"\1", query))) <= exported()[0]


# -- by promtool -----------------------------------------------------------------------------------------------------


@pytest.fixture
def promtool() -> str:
    """Its path; skips if it is not installed."""
    found = shutil.which("promtool")
    return found or pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")


def checked(promtool: str, *words: str | Path) -> str:
    """Its output; fails on an error."""
    command = [promtool, *map(str, words)]
    ran = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_configuration_and_rules_are_right(promtool: str) -> None:
    output = checked(promtool, "check", "config", "prometheus.yml")
    assert f"{len(list(rules()))} rules found" in output


def test_every_alert_fires_when_it_should(promtool: str) -> None:
    assert "SUCCESS" in checked(promtool, "test", "rules", *FILES)


def test_a_rule_that_never_fires_is_noticed(promtool: str, tmp_path: Path) -> None:
    text = (
        (DEPLOY / "subord.rules.yml").read_text().replace("subord_key_ring_saved == 0", "subord_key_ring_saved == 2")
    )
    (tmp_path / "subord.rules.yml").write_text(text)
    few = {**TESTS, "tests": [each for each in TESTS["tests"] if each["name"] == "keys are not on the disk"]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(few))
    ran = subprocess.run([promtool, "test", "rules", tmp_path / "test.yml"], capture_output=True, check=False)
    assert len(few["tests"]) == 1
    assert ran.returncode == 1


def test_the_queries_of_the_dashboard_are_valid(promtool: str, tmp_path: Path) -> None:
    found = [{"record": f"drawn:{number}", "expr": expr} for number, expr in enumerate(drawn())]
    file = tmp_path / "drawn.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "drawn", "rules": found}]}))
    assert len(found) > 30
    assert f"{len(found)} rules found" in checked(promtool, "check", "rules", file)


# -- completeness ----------------------------------------------------------------------------------------------------


def test_every_alert_is_tested_firing_and_silent() -> None:
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    tried: dict[bool, set[str]] = {True: set(), False: set()}
    for each in (each for test in (*TESTS["tests"], *DAYS["tests"]) for each in test["promql_expr_test"]):
        assert 'alertstate="firing"' in each["expr"]
        (chosen,) = re.findall(r'alertname=~?"([^"]+)"', each["expr"])
        tried[bool(each["exp_samples"])] |= set(chosen.split("|"))
    assert tried == {True: alerts, False: alerts}


async def test_every_alert_has_a_command_and_leads_to_its_heading() -> None:
    node = World().node(1)
    response = await web_app(node, {**control_app(node), **service_app(node)})["/runbook"]({})
    assert isinstance(response, Response)
    runbook = response.body.decode()
    headings = anchors((REPOSITORY / "docs" / "prometheus.md").read_text(encoding="utf-8"))
    for rule in (rule for rule in rules() if "alert" in rule):
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description", "command", "runbook_url"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert "/runbook{{ else }}file:///usr/share/doc/subord/docs/prometheus.md{{ end }}" in page
        assert anchor == rule["alert"].lower()
        assert anchor in headings
        assert f'<h2 id="{anchor}">{rule["alert"]}</h2>' in runbook


async def test_relabelling_uses_existing_labels() -> None:
    text = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    response = await control_app(World().node(1))["/sd"]({})
    assert isinstance(response, Response)
    given = set(json.loads(response.body)[0]["labels"])
    used = set(re.findall(r"__meta_\w+", text))
    assert used
    assert used <= given
    shown = set(re.findall(r"__meta_\w+", (REPOSITORY / "docs" / "prometheus.md").read_text(encoding="utf-8")))
    assert shown == given


def test_the_cost_of_a_list_is_measured_with_vanished_nodes(tmp_path: Path) -> None:
    file = tmp_path / "sd.json"
    words = ["--nodes", "200", "--times", "1", "--json", str(file)]
    subprocess.run([sys.executable, REPOSITORY / "docs" / "measure_sd.py", *words], check=True, timeout=120)
    (found,) = json.loads(file.read_text())
    assert (found["live"], found["listed"]) == (198, 200)
    assert found["sd_bytes"] > 200 * 100


def test_panels_do_not_overlap_and_have_unique_ids() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)
    for panel in panels:
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)
