"""The parts of the documents on Prometheus, from the shipped files and from the measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import build_tables
import records
import yaml
from build_dashboard import dashboard
from records import Run, spread, values

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
RULES = DEPLOY / "prometheus" / "subord.rules.yml"
STEPS = (
    ("all nodes are targets, after Prometheus is ready, s", "found_s", 1),
    ("all nodes are scraped, s", "scraped_s", 1),
    ("Prometheus sees the death of an interior node, s", "down_s", 1),
    ("`SubordNodeDown` fires, s", "alert_s", 1),
    ("the alert ends after the node starts again, s", "clear_s", 1),
    ("mean duration of a scrape, ms", "scrape_ms_mean", 1),
    ("longest of the last scrapes, ms", "scrape_ms_max", 1),
    ("bytes of `/metrics`", "metrics_bytes", 0),
    ("samples", "samples_per_scrape", 0),
    ("CPU time of the daemon for the first scrape, ms", "metrics_first_cpu_ms", 1),
    ("for each of the next 1,000 without pauses, ms", "metrics_cpu_ms", 2),
    ("for one every 15 s (all nodes, less their use without scrapes), ms", "scrape_cpu_ms", 2),
)


def rules() -> Iterator[dict[str, Any]]:
    """All rules, in the order of the file."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def alerts() -> str:
    """A heading for each alert, to which its `runbook_url` leads: delay, severity, meaning, and what to do."""
    lines: list[str] = []
    for rule in rules():
        if "alert" in rule:
            labels, notes = rule["labels"], rule["annotations"]
            heading = f"### {rule['alert']}"
            lines += [] if heading in lines else ["", heading, ""]
            which = f" ({labels['standing']})" if "standing" in labels else ""
            after = f"after {rule['for']}" if "for" in rule else "at once"
            command = re.sub(r"{{ \$labels\.instance }}", "the node", notes["command"])
            lines.append(f"- `{labels['severity']}` {after}{which}: {_one_line(notes['description'])}")
            lines.append(f"  Do: {command}.")
    return "\n".join([*lines[1:], ""])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def run_of_100() -> str:
    """The behaviour of a real Prometheus in the lab."""
    runs: list[Run] = records.read("prometheus")
    sound = [run for run in runs if run["fault"] is None]
    whole = [run for run in sound if _is_whole(run)]
    (nodes,) = {run["nodes"] for run in runs}
    settings = "; ".join(sorted({run["settings"] for run in sound}))
    rows = [(what, spread(values(whole, key), digits)) for what, key, digits in STEPS]
    return (
        f"In {len(whole)} of {len(runs)} runs with {nodes} nodes, Prometheus found and scraped all,"
        " `SubordNodeDown` alone fired, for the killed node, and ended, and every panel of the dashboard had data."
        f"\n{settings}.\n{records.about(runs, 'nodes')}\n"
        + build_tables.table(("", "median (lowest..highest)"), rows)
    )


def _is_whole(run: Run) -> bool:
    return run["alerts"] == ["SubordNodeDown"] and run["standing"] == "interior" and not run["silent_panels"]


def lists() -> str:
    """The cost of the list of targets for a root."""
    runs: list[Run] = records.read("sd")
    rows = (
        (f"{run['nodes']:,}", f"{run['sd_bytes']:,}", f"{run['sd_ms']:.1f}", f"{run['metrics_bytes']:,}")
        for run in runs
    )
    return build_tables.table(("nodes", "bytes of `/sd`", "CPU time of the root, ms", "bytes of `/metrics`"), rows)


FILES = {"deploy/grafana/subord.json": dashboard}
PARTS = {"alerts": alerts, "prometheus-run": run_of_100, "prometheus-lists": lists}
