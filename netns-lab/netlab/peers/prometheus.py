"""`evaluate prometheus`: the real Prometheus in a lab, with the files of deploy/prometheus.

It has to find and scrape all nodes, to raise the alert of an interior node that is killed and no other, and to end it
when the node is started again; and every query of the Grafana dashboard must have an answer. Prometheus runs on the
last node, which is a leaf, beside its daemon.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netlab.common import measure
from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.figures import cpu_used
from netlab.lab import Lab
from netlab.peers.page_reader import PageReader
from netlab.peers.programs import NodePrograms, version_of

PROGRAM = "prometheus"
FILES = measure.REPOSITORY / "deploy" / "prometheus"
DASHBOARD = measure.REPOSITORY / "deploy" / "grafana" / "subord.json"
INSTALL = "Debian: apt-get install prometheus"
DURATION = re.compile(r"(\b(?:\w+_interval|scrape_timeout|for): |member_live\[)(\d+)([smhd])\b")
"""Of ranges, that which is compared with the time for which an alert waits."""
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
PAGE = "http://127.0.0.1:9090"
STABLE_S_MAX = 60.0
LISTED_S_MAX = 30.0
READY_S_MAX = 60.0
FOUND_S_MAX = 180.0
ALERT_S_MAX = 300.0
PANELS_S_MAX = 60.0
PANELS_LOOK_S = 2.0
LOOK_S = 0.1  # times of Prometheus are late by at most this
NODES_MIN = 8  # the root, two more that are asked for the list, an interior node that is not, and the last


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`shorten`: all durations of the files are divided by it; 1: they are used as they are."""

    fanout: int = 8
    shorten: float = 1.0
    rest_s: float = 60.0
    scrapes: int = 1000  # of one page, one after the other

    def missing(self) -> list[str]:
        return [] if shutil.which(PROGRAM) else [f"{PROGRAM} is not installed here ({INSTALL})."]

    def runs(self) -> Iterator[Run]:
        if self.missing():
            raise LabError(f"{self.missing()[0]} Nothing was done.")
        self.check_nodes(NODES_MIN, "It")
        yield from self.by_turns(measure_one, about={"fanout": self.fanout, "shorten": self.shorten})


def shortened(text: str, times: float) -> str:
    """A configuration or rules with all their durations divided, and nothing else changed."""

    def shorter(found: re.Match[str]) -> str:
        key, number, unit = found.groups()
        return f"{key}{round(1000 * int(number) * UNIT_S[unit] / times)}ms"

    return text if times == 1 else DURATION.sub(shorter, text)


class Prometheus:
    """The program on one node, and what its HTTP API answers."""

    def __init__(self, programs: NodePrograms, reader: PageReader, position: int) -> None:
        self._programs, self._reader = programs, reader
        self._directory, self._position = programs.directory, position

    def start(self, shorten: float) -> float:
        """With the shipped files; seconds until it was ready. Raises LabError when it does not get ready."""
        for name in ("prometheus.yml", "subord.rules.yml"):
            (self._directory / name).write_text(shortened((FILES / name).read_text(), shorten))
        self._programs.start(
            self._position,
            PROGRAM,
            PROGRAM,
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={urllib.parse.urlsplit(PAGE).netloc}",
        )
        return self.wait(lambda: self._reader.get(f"{PAGE}/-/ready").status == 200, READY_S_MAX, "to be ready")

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        """Seconds until it comes true. Raises LabError when that is not in time, or Prometheus ends."""
        began = time.monotonic()

        def holds() -> bool:
            self._programs.live()
            return condition()

        if not wait_until(holds, seconds, LOOK_S):
            raise LabError(f"Waited {seconds:g} s for Prometheus {what}. {self._complaints()}")
        return time.monotonic() - began

    def _complaints(self) -> str:
        """The last warnings and errors that it printed."""
        lines = (self._directory / f"{PROGRAM}-{self._position}.log").read_text(errors="replace").splitlines()
        return " | ".join([line for line in lines if "level=warn" in line or "level=err" in line][-3:])

    def value(self, expr: str) -> float:
        """Of one series; 0 when there is none."""
        found = self.ask("query", query=expr)
        return float(found["result"][0]["value"][1]) if found and found["result"] else 0.0

    def firing(self) -> list[dict[str, str]]:
        found = self.ask("alerts") or {"alerts": []}
        return [alert["labels"] for alert in found["alerts"] if alert["state"] == "firing"]

    def ask(self, what: str, **words: str) -> Any:
        """`data` of its HTTP API; None when it does not answer."""
        answer = self._reader.json(f"{PAGE}/api/v1/{what}?{urllib.parse.urlencode(words)}")
        return None if answer is None else answer["data"]


def measure_one(plan: Plan, nodes: int, _number: int) -> Record:
    with (
        plan.raised(nodes, plan.fanout) as lab,
        tempfile.TemporaryDirectory(prefix="prometheus-") as directory,
        NodePrograms(lab, Path(directory)) as programs,
        PageReader(lab, lab.positions[-1]) as reader,
    ):
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        prometheus = Prometheus(programs, reader, lab.positions[-1])
        found: Record = {"settings": version_of(PROGRAM, "--version")}
        lab.progress("measuring pages")
        found |= _pages(lab, reader, plan.scrapes) | {"idle_cpu_ms_per_s": _cpu_ms_per_s(lab, plan.rest_s)}
        lab.progress("waiting until Prometheus has found all nodes")
        found |= _discovery(prometheus, nodes, plan.shorten)
        found |= _scrapes(lab, prometheus, plan.rest_s, found["idle_cpu_ms_per_s"])
        lab.progress("killing an interior node")
        found |= _alert(lab, prometheus)
        return found | {"silent_panels": _silent_panels(prometheus)}


def _silent_panels(prometheus: Prometheus) -> list[str]:
    """The queries without an answer. Nodes have rates after two rounds of their metrics."""

    def silent() -> list[str]:
        answers = {each: prometheus.ask("query", query=each) or {"result": ()} for each in queries()}
        return [each for each, answer in answers.items() if not answer["result"]]

    wait_until(lambda: not silent(), PANELS_S_MAX, PANELS_LOOK_S)
    return silent()


def _pages(lab: Lab, reader: PageReader, scrapes: int) -> Record:
    """Bytes, and milliseconds of the daemon's processor: the first time, and the mean of many."""
    leaf, root = (lab.positions[-2], lab.positions[0])
    found: Record = {}
    for name, position, path in (
        ("metrics", leaf, "/metrics"),
        ("root_metrics", root, "/metrics"),
        ("root_sd", root, "/sd"),
        ("leaf_sd", leaf, "/sd?of=cluster"),
    ):
        url = f"http://{lab.address(position)}:9717{path}"
        # A node that has only just come to its place gives no list yet (503).
        wait_until(partial(_is_answered, reader, url), LISTED_S_MAX, LOOK_S)
        for times, what in ((1, "first_cpu_ms"), (scrapes, "cpu_ms")):
            before = lab.processes("cpu_s")["cpu_s"][lab.address(position)]
            page = reader.get(url, times)
            if page.status != 200:
                raise LabError(f"{url} answers {page.status} {page.text[:200]}")
            spent_s = lab.processes("cpu_s")["cpu_s"][lab.address(position)] - before
            found |= {f"{name}_bytes": page.size, f"{name}_{what}": 1e3 * spent_s / times}
    return found


def _is_answered(reader: PageReader, url: str) -> bool:
    return reader.get(url).status == 200


def _cpu_ms_per_s(lab: Lab, seconds: float) -> float:
    """Of all daemons together."""
    used, passed_s = cpu_used(lab, seconds)
    return 1e3 * sum(used.values()) / passed_s


def _discovery(prometheus: Prometheus, nodes: int, shorten: float) -> Record:
    def has_found() -> bool:
        active = (prometheus.ask("targets", state="active") or {"activeTargets": ()})["activeTargets"]
        return [each["labels"]["job"] for each in active].count("subord") == nodes

    def has_scraped() -> bool:
        return prometheus.value('count(up{job="subord"} == 1)') == nodes

    ready_s = prometheus.start(shorten)
    found_s = prometheus.wait(has_found, FOUND_S_MAX, f"to find {nodes} targets")
    scraped_s = found_s + prometheus.wait(has_scraped, FOUND_S_MAX, f"to scrape {nodes} targets")
    return {"ready_s": ready_s, "found_s": found_s, "scraped_s": scraped_s}


def _scrapes(lab: Lab, prometheus: Prometheus, seconds: float, idle_cpu_ms_per_s: float) -> Record:
    """What the scrapes of all nodes cost them, beyond what they spent without Prometheus."""
    busy = _cpu_ms_per_s(lab, seconds)
    window = f"[{max(1, round(seconds))}s]"
    scrapes = prometheus.value(f'sum(count_over_time(up{{job="subord"}}{window}))')
    return {
        "scraped_cpu_ms_per_s": busy,
        "scrape_cpu_ms": (busy - idle_cpu_ms_per_s) * seconds / scrapes if scrapes else None,
        "scrape_ms_mean": 1e3 * prometheus.value('avg(scrape_duration_seconds{job="subord"})'),
        "scrape_ms_max": 1e3 * prometheus.value('max(scrape_duration_seconds{job="subord"})'),
        "samples_per_scrape": prometheus.value('avg(scrape_samples_scraped{job="subord"})'),
    }


def _alert(lab: Lab, prometheus: Prometheus) -> Record:
    if quiet := prometheus.firing():
        raise LabError(f"Alerts fire before anything was done: {quiet}")
    victim = _interior(lab)
    address = lab.address(victim)
    seen: list[dict[str, str]] = []

    def alerts() -> list[dict[str, str]]:
        seen.extend(found := prometheus.firing())
        return found

    def fires() -> bool:
        return any((each["alertname"], each.get("instance")) == ("SubordNodeDown", address) for each in alerts())

    def is_down() -> bool:
        return prometheus.value(f'up{{instance="{address}"}} == bool 0') == 1

    lab.kill(victim)
    down_s = prometheus.wait(is_down, ALERT_S_MAX, f"to see that {address} is down")
    alert_s = down_s + prometheus.wait(fires, ALERT_S_MAX, f"to raise the alert of {address}")
    lab.start(victim)
    clear_s = prometheus.wait(lambda: not alerts(), ALERT_S_MAX, "to end the alert")
    (standing,) = {each["standing"] for each in seen if each.get("instance") == address and "standing" in each}
    return {
        "victim": address,
        "down_s": down_s,
        "alert_s": alert_s,
        "clear_s": clear_s,
        "standing": standing,
        "alerts": sorted({each["alertname"] for each in seen}),
    }


def queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for variable, value in (("$__rate_interval", "5m"), ("$job", "subord"), ("$instance", ".+")):
        asked = [expr.replace(variable, value) for expr in asked]
    return asked


def _interior(lab: Lab) -> int:
    """An interior node that is not asked for the list of targets."""
    subordinates = lab.look().subordinates()
    chosen = [position for position in lab.positions[3:] if lab.address(position) in subordinates]
    if not chosen:
        raise LabError("Only the first three nodes lead others: take more nodes, or a smaller fan-out.")
    return chosen[len(chosen) // 2]


def is_whole(record: Record) -> bool:
    """The right alert fired, no other one, and ended; and every panel of the dashboard had data."""
    if not is_measured(record) or record["silent_panels"]:
        return False
    return (record["standing"], record["alerts"]) == ("interior", ["SubordNodeDown"])


COLUMNS = (
    Column("found_s", "found, s", 1),
    Column("scraped_s", "all scraped, s", 1),
    Column("down_s", "seen down, s", 1),
    Column("alert_s", "alert, s", 1),
    Column("clear_s", "clear, s", 1),
    Column("metrics_bytes", "page, B", 0),
    Column("metrics_cpu_ms", "scrape, ms CPU", 2),
    Column("scrape_ms_mean", "scrape, ms", 1),
    Column("root_sd_bytes", "list, B", 0),
    Column("root_sd_cpu_ms", "list, ms CPU", 2),
)


table = partial(comparison, keys=("nodes",), columns=COLUMNS, is_whole=is_whole)
