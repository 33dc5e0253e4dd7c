"""`evaluate accounting`: is each record in a sink once, although daemons are killed all the time, and how late?

Writers on all nodes give records of jobs to their daemons. Meanwhile some daemons are killed every minute, the root
and the sinks at times of their own, all sinks at once, and the server of PostgreSQL (schedule.py). One sink is an
interior node with a file of SQLite, the other a leaf, with PostgreSQL where it is installed; neither is the first
root. When all records are accepted and all spools are empty, the databases are read row by row (counts.py).
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from netlab.accounting import postgresql
from netlab.accounting.counts import Counts, rows_of
from netlab.accounting.deaths import Deaths
from netlab.accounting.samples import Sampler, most
from netlab.accounting.schedule import counted, drawn
from netlab.accounting.writers import REQUEST_RECORDS, Task, Writers, Written
from netlab.common.results import Record
from netlab.common.tables import aligned
from netlab.errors import LabError
from netlab.eventlog.events import Cluster
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import of_measured, verdict
from netlab.lab import Lab
from netlab.peers.programs import high_priority
from netlab.processes.options import SINK_FILE
from netlab.services import ready
from netlab.services.console import SUBORD, Console
from netlab.topology.layout import layout

RECORDS = 10**6
PER_S = 1000.0
ROOT_KILLS = 10
NODES_MIN = 6
ROOT_EVERY_S_MIN = 10.0
"""Until a root that was killed has a successor which lists all nodes."""
SAMPLES = 200
SAMPLE_S_MIN = 1.0
TURN_S = 0.05
END_S_MAX = 900.0
"""From the last record that was due until all spools are empty."""
STATUS_S_MAX, STATUS_EVERY_S = 120.0, 1.0
KILLED = -9
LACKING = "sinks are both files of SQLite"


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`records`: of all writers; `per_s`: records that they give in a second; `percent_per_min`: nodes that are
    killed in a minute; `root_kills`: beside those; `seed`: draws who dies when."""

    repeat: int = 1
    fanout: int = 8
    records: int = RECORDS
    per_s: float = PER_S
    percent_per_min: float = 10.0
    root_kills: int = ROOT_KILLS
    seed: int = 1
    timing: str = "lan"

    @property
    def writes_s(self) -> float:
        return self.records / self.per_s

    def missing(self) -> list[str]:
        absent = postgresql.missing()
        return [] if absent is None else [f"PostgreSQL is left out, the {LACKING}: {absent}."]

    def runs(self) -> Iterator[Run]:
        self.check_nodes(NODES_MIN, "An evaluation of accounting")
        if self.writes_s < self.root_kills * ROOT_EVERY_S_MIN:
            raise LabError(
                f"The records are written within {self.writes_s:g} s, too short to kill the root {self.root_kills}"
                f" times, once in {ROOT_EVERY_S_MIN:g} s at most: give more --records, a lower --per-s, or fewer"
                " --root-kills. Nothing was done."
            )
        about = {
            "fanout": self.fanout,
            "layout": "dense",
            "timing": self.timing,
            "records": self.records,
            "per_s": self.per_s,
            "request_records": REQUEST_RECORDS,
            "percent_per_min": self.percent_per_min,
            "absent": {} if (absent := postgresql.missing()) is None else {"postgresql": absent},
        }
        yield from self.by_turns(measure_one, about)


def measure_one(plan: Plan, nodes: int, number: int) -> Record:
    addresses = layout("dense", nodes).addresses
    interior, leaf = addresses[2], addresses[-1]
    with ExitStack() as resources:
        server = None if postgresql.missing() else resources.enter_context(postgresql.Server())
        options = {"sinks": (interior, leaf), "sink_urls": {} if server is None else {leaf: server.url}}
        log = f"accounting-{nodes}-{number}"
        lab = resources.enter_context(plan.raised(nodes, plan.fanout, log=log, timing=plan.timing, **options))
        resources.enter_context(high_priority())
        ready.raise_tree(lab)
        found = campaign(plan, lab, server, random.Random(f"{plan.seed}/{number}"))
        return {**found, "faults": faults_of({"records": plan.records, **found})}


def places_of(lab: Lab) -> dict[int, str]:
    """Position -> database of each sink."""
    options = lab.options
    files = {each: str(lab.directory.node(lab.position(each)) / SINK_FILE) for each in options.sinks}
    return {lab.position(each): options.sink_urls.get(each, file) for each, file in files.items()}


# -- the campaign ----------------------------------------------------------------------------------------------------


def campaign(plan: Plan, lab: Lab, server: postgresql.Server | None, chance: random.Random) -> Record:
    """Records are written while daemons die; then everything is counted. The tree stands at the beginning."""
    places = places_of(lab)
    sinks = sinks_of(lab.look(), [lab.address(each) for each in places], server)
    schedule = drawn(
        chance,
        writes_s=plan.writes_s,
        nodes=len(lab.positions),
        percent_per_min=plan.percent_per_min,
        root_kills=plan.root_kills,
        sinks=len(places),
        has_server=server is not None,
    )
    deaths = Deaths(lab, schedule, chance, list(places), server)
    sockets = [str(lab.control_socket(each)) for each in lab.positions]
    with Writers(Task(sockets, plan.records, plan.per_s)) as writers:
        samples = watch(plan, lab, writers, deaths, Sampler(lab, places))
        written = writers.look()
        lasted_s = time.monotonic() - writers.began
        writes_s = written.ended_at - writers.began
    return {
        "sinks": sinks,
        "files": filesystem(lab.directory.path),
        "wanted": counted(schedule),
        "kills": {kind: deaths.kills[kind] for kind in counted(schedule)},
        "killed_percent_per_min": round(100 * deaths.kills["node"] / len(lab.positions) / writes_s * 60, 1),
        "accepted": written.accepted,
        "writes_s": round(writes_s, 1),
        "emptied_s": round(lasted_s - writes_s, 1),
        "requests_again": dict(written.refused),
        "unsure": len(written.unsure),
        "gave_up": list(written.failed),
        "ended": sorted({*deaths.ended, *ended_by_themselves(lab)}),
        **most(samples),
        **counts_of(plan, lab, places, written),
        "deaths": deaths.done,
        "samples": samples,
    }


def watch(plan: Plan, lab: Lab, writers: Writers, deaths: Deaths, sampler: Sampler) -> list[Record]:
    """Until all records are accepted, all nodes run and all spools are empty, or END_S_MAX is over: the samples."""
    every_s = max(SAMPLE_S_MIN, plan.writes_s / SAMPLES)
    due_s, samples = 0.0, list[Record]()
    while True:
        now_s = time.monotonic() - writers.began
        deaths.act(now_s)
        if now_s >= due_s:
            due_s, written = now_s + every_s, writers.look()
            samples.append(sampler.take(now_s, written.accepted, deaths.down))
            lab.progress(f"{written.accepted} of {plan.records} records, {samples[-1]['waiting']} wait")
            is_over = written.is_over and deaths.is_over and samples[-1]["waiting"] == 0
            if is_over or now_s > plan.writes_s + END_S_MAX:
                return samples
        time.sleep(TURN_S)


def counts_of(plan: Plan, lab: Lab, places: Mapping[int, str], written: Written) -> Record:
    """What is in the databases, and what the commands say."""
    lab.progress("the tree becomes whole")
    lab.wait_stable(ready.STABLE_S_MAX, ready.QUIET_S)
    console = Console(lab, lab.positions[-2])
    lab.progress("counting")
    found = Counts(plan.records)
    for position, place in places.items():
        found.add(lab.address(position), rows_of(place, plan.records))
    return {
        "counted": found.told(written.unsure),
        "status": status(console, len(places)),
        "report": report(console, list(places.values())),
        "dropped": dropped(lab),
    }


def status(console: Console, sinks: int) -> Record:
    """What `subord account status` says, once all nodes answer it and so many sinks store; the last answer after
    STATUS_S_MAX. A sink opens its database again some seconds after the server came back. Raises LabError."""
    until = time.monotonic() + STATUS_S_MAX
    while True:
        done = console.run(SUBORD, "account", "status", "--json")
        try:
            answer = json.loads(done.out)
        except ValueError:
            raise LabError(f"`subord account status` failed: {done.err.strip()}") from None
        found = {
            "asked": answer["asked"],
            "told": answer["told"],
            "waits_on": sum(each["nodes"] for each in answer["spools"] if each["records_max"]),
            "sinks": sum(each["nodes"] for each in answer["spools"] if each["sink"] == "stores"),
        }
        if (answer["complete"] and found["sinks"] == sinks) or time.monotonic() > until:
            return found
        time.sleep(STATUS_EVERY_S)


def report(console: Console, places: Sequence[str]) -> Record:
    """What `subord account report` says of all databases together. Raises LabError."""
    databases = [word for each in places for word in ("--database", each)]
    done = console.run(SUBORD, "account", "report", "--json", *databases)
    if done.code:
        raise LabError(f"`subord account report` failed: {done.err.strip()}")
    answer = json.loads(done.out)
    found = {name: answer[name] for name in ("records", "unreadable")}
    missing = answer.get("missing") or 0  # since a database was restored, which none was
    return {**found, "missing": missing, "jobs": answer["total"]["jobs"], "took_s": round(done.took_s, 1)}


def dropped(lab: Lab) -> Record:
    """What the daemons that run in the end have dropped of the ledger, by reason. Raises LabError."""
    found: Counter[str] = Counter()
    for position in lab.positions:
        reasons = lab.document(position, "/v1/counters")["dropped_by_reason"]
        found.update({reason: count for reason, count in reasons.items() if reason.startswith("ledger")})
    return dict(sorted(found.items()))


def sinks_of(cluster: Cluster, addresses: Sequence[str], server: postgresql.Server | None) -> list[Record]:
    """Where each sink is in the tree before the first death, and what it stores in."""
    below = cluster.subordinates()
    sqlite = f"SQLite {sqlite3.sqlite_version}"
    databases = [sqlite, sqlite if server is None else server.version]
    return [
        {
            "address": address,
            "database": database,
            "place": cluster.nodes[address].place,
            "subordinates": len(below.get(address, ())),
        }
        for address, database in zip(addresses, databases, strict=True)
    ]


def ended_by_themselves(lab: Lab) -> list[str]:
    """Addresses of daemons that ended without SIGKILL."""
    lab.look()
    return [each["node"] for each in lab.events if each["event"] == "lab_exited" and each["code"] != KILLED]


def filesystem(path: Path) -> str:
    """The kind of that on which spools and files of SQLite are, such as `tmpfs`; "": not known."""
    command = ["stat", "--file-system", "--format=%T", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


# -- what came of it -------------------------------------------------------------------------------------------------


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words. Records that were given again after a lost answer may be in the sinks twice: the
    ledger says so to writers. The report leaves the second one out."""
    counted, asked = record["counted"], record["status"]
    lacking = {kind: (record["kills"][kind], wanted) for kind, wanted in record["wanted"].items()}
    bad = {
        f"{counted['lost']} records are in no sink": counted["lost"],
        f"{counted['double']} records are in the sinks more than once": counted["double"],
        f"{counted['strangers']} rows are of no record that was given": counted["strangers"],
        f"{record['accepted']} of {record['records']} records were accepted": record["accepted"] != record["records"],
        f"the report counts {record['report']['jobs']} jobs": record["report"]["jobs"] != record["records"],
        f"{record['report']['unreadable']} records are unreadable": record["report"]["unreadable"],
        f"the report says that {record['report']['missing']} records are missing": record["report"]["missing"],
        f"records wait on {asked['waits_on']} nodes": asked["waits_on"],
        f"{asked['told']} of {asked['asked']} nodes told what waits": asked["told"] != asked["asked"],
        f"{asked['sinks']} of {len(record['sinks'])} sinks store": asked["sinks"] != len(record["sinks"]),
        f"ended without being killed: {', '.join(record['ended'])}": record["ended"],
        **{f"a writer gave up: {words}": True for words in record["gave_up"]},
        **{f"{done} of {wanted} deaths of `{kind}`": done != wanted for kind, (done, wanted) in lacking.items()},
    }
    return [words for words, is_so in bad.items() if is_so]


def is_whole(record: Record) -> bool:
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: what was done, what came of it, and what must not be."""
    lines = []
    for record in records:
        if is_measured(record):
            lines.append(aligned(_rows(record), left=2))
        lines.append(verdict(faults_of(record)))
    return "\n".join(lines)


def _rows(record: Record) -> list[list[str]]:
    counted, delay_s, kills = record["counted"], record["counted"]["delay_s"], record["kills"]
    sinks = [f"{each['address']} ({each['database']}, {each['place']})" for each in record["sinks"]]
    rows = [f"{each['records']:,}" for each in counted["databases"].values()]
    found = {
        "nodes, fan-out": f"{record['nodes']}, {record['fanout']}",
        "records given, a second": f"{record['accepted']:,}, {record['per_s']:g}",
        "killed, % of the nodes a minute": f"{record['killed_percent_per_min']:g} ({kills['node']} in all)",
        "killed: roots, sinks, all sinks, server": ", ".join(
            str(kills[each]) for each in ("root", "sink", "sinks", "server")
        ),
        "in a sink": f"{counted['stored']:,}",
        **{f"in {name}": count for name, count in zip(sinks, rows, strict=True)},
        "in several sinks, by one name": str(counted["in_several"]),
        "lost": str(counted["lost"]),
        "double": str(counted["double"]),
        "given again after a lost answer; stored twice": f"{record['unsure']}; {counted['given_again']}",
        "jobs of the report": f"{record['report']['jobs']:,} ({record['report']['took_s']} s)",
        "from end to sink, s: p50, p99, most": ", ".join(str(delay_s[each]) for each in ("p50", "p99", "p100")),
        "written in, emptied after, s": f"{record['writes_s']}, {record['emptied_s']}",
        "waiting at most": f"{record['waiting_most']:,}",
        "oldest, s: of all nodes, of those that run": f"{record['oldest_s_most']}, {record['oldest_live_s_most']}",
        "spools at most, bytes; of one node": f"{record['spool_bytes_most']:,}; {record['spool_bytes_of_one']:,}",
        "dropped on the way": ", ".join(f"{why} {count}" for why, count in record["dropped"].items()) or "nothing",
        "CPU of all daemons, % of a core": f"{record['cpu_percent_mean']:g}",
        "files on": record["files"],
    }
    return [[name, value] for name, value in found.items()]
