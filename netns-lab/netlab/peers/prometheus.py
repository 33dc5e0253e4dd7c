"""The real Prometheus in a lab, with the files of deploy/prometheus: does it find everybody, does it raise the alarm?

Intuition: a fire drill. The alarm is the one that hangs in the house, the fire is real, and with a watch in the hand
we note when it rings, and when it stops after the fire is out.

Prometheus runs on the last node, which leads nobody, beside its daemon.
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
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run
from netlab.experiments.figures import spread_text
from netlab.lab import Lab
from netlab.peers.page_reader import Reader
from netlab.peers.programs import Visitors, version_of
from netlab.processes.launch import Progress

PROGRAM = "prometheus"
FILES = measure.REPOSITORY / "deploy" / "prometheus"
DASHBOARD = measure.REPOSITORY / "deploy" / "grafana" / "subord.json"
INSTALL = "Debian: apt-get install prometheus"
DURATION = re.compile(r"\b((?:\w+_interval|scrape_timeout|for): )(\d+)([smhd])\b")
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
PAGE = "http://127.0.0.1:9090"
STABLE_S_MAX = 60.0
LISTED_S_MAX = 30.0
READY_S_MAX = 60.0
FOUND_S_MAX = 180.0
RUNG_S_MAX = 300.0
LOOK_S = 0.1  # so late may be what Prometheus says
NODES_MIN = 8  # the root, two more that are asked for the list, an interior node that is not, and the last


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`shorten`: all durations of the files are divided by it, for the impatient; 1: they are used as they are."""

    fanout: int = 8
    shorten: float = 1.0
    rest_s: float = 60.0
    scrapes: int = 1000  # of one page, one after the other

    def missing(self) -> list[str]:
        return [] if shutil.which(PROGRAM) else [f"{PROGRAM} is not installed here ({INSTALL})."]

    def runs(self, progress: Progress) -> Iterator[Run]:
        if self.missing():
            raise LabError(f"{self.missing()[0]} Nothing was done.")
        if min(self.nodes) < NODES_MIN:
            raise LabError(f"It takes {NODES_MIN} nodes or more: correct --nodes. Nothing was done.")
        for nodes in self.nodes:
            for number in range(self.repeat):
                yield Run(
                    f"{nodes} nodes, run {number + 1} of {self.repeat}",
                    {"nodes": nodes, "fanout": self.fanout, "shorten": self.shorten, "repeat": number},
                    partial(measure_one, self, nodes, progress),
                )


def shortened(text: str, times: float) -> str:
    """A configuration or rules with all their durations divided, and nothing else changed."""

    def shorter(found: re.Match[str]) -> str:
        key, number, unit = found.groups()
        return f"{key}{round(1000 * int(number) * UNIT_S[unit] / times)}ms"

    return text if times == 1 else DURATION.sub(shorter, text)


class Prometheus:
    """The program on one node, and what it says."""

    def __init__(self, visitors: Visitors, reader: Reader, directory: Path, position: int) -> None:
        self._visitors, self._reader = visitors, reader
        self._directory, self._position = directory, position

    def start(self, shorten: float) -> None:
        """With the shipped files. Raises LabError when it does not get ready."""
        for name in ("prometheus.yml", "subord.rules.yml"):
            (self._directory / name).write_text(shortened((FILES / name).read_text(), shorten))
        self._visitors.start(
            self._position,
            PROGRAM,
            PROGRAM,
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={urllib.parse.urlsplit(PAGE).netloc}",
        )
        self.await_that(lambda: self._reader.get(f"{PAGE}/-/ready").status == 200, READY_S_MAX, "to be ready")

    def await_that(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Raises LabError when it does not come true in time, or Prometheus ends."""
        until = time.monotonic() + seconds
        while not condition():
            self._visitors.live()
            if time.monotonic() > until:
                raise LabError(f"Waited {seconds:g} s for Prometheus {what}. {self.last_words()}")
            time.sleep(LOOK_S)

    def last_words(self) -> str:
        """The complaints on its sheet."""
        sheet = (self._directory / f"{PROGRAM}-{self._position}.log").read_text(errors="replace").splitlines()
        return " | ".join([line for line in sheet if "level=warn" in line or "level=err" in line][-3:])

    def value(self, expr: str) -> float:
        """Of one series; 0 when there is none."""
        found = self.ask("query", query=expr)
        return float(found["result"][0]["value"][1]) if found and found["result"] else 0.0

    def firing(self) -> list[dict[str, str]]:
        """The labels of all alerts that fire."""
        found = self.ask("alerts") or {"alerts": []}
        return [alert["labels"] for alert in found["alerts"] if alert["state"] == "firing"]

    def ask(self, what: str, **words: str) -> Any:
        """`data` of its HTTP API; None when it does not answer."""
        answer = self._reader.json(f"{PAGE}/api/v1/{what}?{urllib.parse.urlencode(words)}")
        return None if answer is None else answer["data"]


def measure_one(plan: Plan, nodes: int, progress: Progress) -> Record:
    """One cluster, one Prometheus, one death. Raises LabError."""
    with (
        Lab(nodes, plan.fanout, rootless=plan.rootless, progress=progress) as lab,
        tempfile.TemporaryDirectory(prefix="prometheus-") as directory,
        Visitors(lab, Path(directory)) as visitors,
        Reader(lab, lab.positions[-1]) as reader,
    ):
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        prometheus = Prometheus(visitors, reader, Path(directory), lab.positions[-1])
        found: Record = {"settings": version_of(PROGRAM, "--version")}
        progress("measuring pages", 0, 0)
        found |= _pages(lab, reader, plan.scrapes) | {"idle_cpu_ms_per_s": _cpu_ms_per_s(lab, plan.rest_s)}
        progress("Prometheus looks for everybody", 0, 0)
        found |= _discovery(prometheus, nodes, plan.shorten)
        found |= _scrapes(lab, prometheus, plan.rest_s, found["idle_cpu_ms_per_s"])
        progress("killing an interior node", 0, 0)
        return found | _alarm(lab, prometheus) | {"silent_panels": _silent(prometheus)}


def _pages(lab: Lab, reader: Reader, scrapes: int) -> Record:
    """Bytes, and milliseconds of the daemon's processor: the first time, and the mean of many."""
    leaf, root = (lab.positions[-2], lab.positions[0])
    found: Record = {}
    _await_page(reader, f"http://{lab.address(root)}:9717/sd")
    for name, position, path in (
        ("metrics", leaf, "/metrics"),
        ("root_metrics", root, "/metrics"),
        ("root_sd", root, "/sd"),
        ("leaf_sd", leaf, "/sd?of=cluster"),
    ):
        url = f"http://{lab.address(position)}:9717{path}"
        for times, what in ((1, "first_cpu_ms"), (scrapes, "cpu_ms")):
            before = lab.processes("cpu_s")["cpu_s"][lab.address(position)]
            page = reader.get(url, times)
            if page.status != 200:
                raise LabError(f"{url} answers {page.status} {page.text[:200]}")
            spent_s = lab.processes("cpu_s")["cpu_s"][lab.address(position)] - before
            found |= {f"{name}_bytes": page.size, f"{name}_{what}": 1e3 * spent_s / times}
    return found


def _await_page(reader: Reader, url: str) -> None:
    """Whoever has only just come to its place gives no list yet (503). Raises LabError."""
    until = time.monotonic() + LISTED_S_MAX
    while (page := reader.get(url)).status != 200:
        if time.monotonic() > until:
            raise LabError(f"{url} answers {page.status} {page.text[:200]}")
        time.sleep(LOOK_S)


def _cpu_ms_per_s(lab: Lab, seconds: float) -> float:
    """Of all daemons together."""
    before = lab.processes("cpu_s")
    time.sleep(seconds)
    after = lab.processes("cpu_s")
    spent_s = sum(after["cpu_s"].values()) - sum(before["cpu_s"].values())
    return 1e3 * spent_s / (after["mono"] - before["mono"])


def _discovery(prometheus: Prometheus, nodes: int, shorten: float) -> Record:
    began = time.monotonic()
    prometheus.start(shorten)
    ready = time.monotonic()
    prometheus.await_that(
        lambda: len((prometheus.ask("targets", state="active") or {"activeTargets": ()})["activeTargets"]) == nodes,
        FOUND_S_MAX,
        f"to find {nodes} targets",
    )
    found = time.monotonic()
    prometheus.await_that(
        lambda: prometheus.value('count(up{job="subord"} == 1)') == nodes, FOUND_S_MAX, f"to scrape {nodes} targets"
    )
    scraped = time.monotonic()
    return {"ready_s": ready - began, "found_s": found - ready, "scraped_s": scraped - ready}


def _scrapes(lab: Lab, prometheus: Prometheus, seconds: float, idle_cpu_ms_per_s: float) -> Record:
    """What the scrapes of all nodes cost them, beyond what they spent before there was a Prometheus."""
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


def _alarm(lab: Lab, prometheus: Prometheus) -> Record:
    if quiet := prometheus.firing():
        raise LabError(f"Alerts fire before anything was done: {quiet}")
    victim = _interior(lab)
    address = lab.address(victim)

    def rings() -> bool:
        return any((each["alertname"], each.get("instance")) == ("SubordNodeDown", address) for each in alerts())

    def alerts() -> list[dict[str, str]]:
        seen.extend(found := prometheus.firing())
        return found

    seen: list[dict[str, str]] = []
    died = time.monotonic()
    lab.kill(victim)
    prometheus.await_that(
        lambda: prometheus.value(f'up{{instance="{address}"}} == bool 0') == 1, RUNG_S_MAX, "to see"
    )
    down = time.monotonic()
    prometheus.await_that(rings, RUNG_S_MAX, f"to raise the alarm for {address}")
    rang = time.monotonic()
    lab.start(victim)
    began = time.monotonic()
    prometheus.await_that(lambda: not alerts(), RUNG_S_MAX, "to end the alarm")
    ended = time.monotonic()
    (standing,) = {each["standing"] for each in seen if each.get("instance") == address and "standing" in each}
    return {
        "victim": address,
        "down_s": down - died,
        "alert_s": rang - died,
        "clear_s": ended - began,
        "standing": standing,
        "alerts": sorted({each["alertname"] for each in seen}),
    }


def drawn() -> list[str]:
    """Everything that the dashboard asks for, of all nodes of the lab."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for variable, value in (("$__rate_interval", "5m"), ("$job", "subord"), ("$instance", ".+")):
        asked = [expr.replace(variable, value) for expr in asked]
    return asked


def _silent(prometheus: Prometheus) -> list[str]:
    """What the dashboard asks for, and nothing answers."""
    return [expr for expr in drawn() if not (prometheus.ask("query", query=expr) or {"result": ()})["result"]]


def _interior(lab: Lab) -> int:
    """One that leads others, but not the root, and nobody who is asked for the list of targets."""
    leading = lab.look().subordinates()
    chosen = [position for position in lab.positions[3:] if lab.address(position) in leading]
    if not chosen:
        raise LabError("Only the first three nodes lead others: take more nodes, or a smaller fan-out.")
    return chosen[len(chosen) // 2]


def is_whole(record: Record) -> bool:
    """It rang as it should, for nothing else, and stopped; and the whole dashboard had something to draw."""
    if record["fault"] is not None or record["silent_panels"]:
        return False
    return (record["standing"], record["alerts"]) == ("interior", ["SubordNodeDown"])


COLUMNS = (
    ("found_s", "found, s", 1),
    ("scraped_s", "all scraped, s", 1),
    ("down_s", "seen down, s", 1),
    ("alert_s", "alert, s", 1),
    ("clear_s", "clear, s", 1),
    ("metrics_bytes", "page, B", 0),
    ("metrics_cpu_ms", "scrape, ms CPU", 2),
    ("scrape_ms_mean", "scrape, ms", 1),
    ("root_sd_bytes", "list, B", 0),
    ("root_sd_cpu_ms", "list, ms CPU", 2),
)


def table(records: list[Record]) -> str:
    """For people: medians and spread."""
    lines = ["nodes  whole runs  " + "  ".join(f"{title:>18}" for _, title, _ in COLUMNS)]
    for nodes in dict.fromkeys(record["nodes"] for record in records):
        some = [record for record in records if record["nodes"] == nodes]
        good = [record for record in some if is_whole(record)]
        cells = [spread_text([record[key] for record in good], digits) for key, _, digits in COLUMNS]
        lines.append(f"{nodes:5}  {len(good):>3} of {len(some)}    " + "  ".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)
