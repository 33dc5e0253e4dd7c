"""`evaluate machines`: virtual machines for a batch queue, on libvirt's test driver.

- `waits`: 12 servers with 216 cores and a real Grid Engine: the table of waiting times of the text.
- `order`: the same with all cores in use: jobs start by their priorities.
- `window`: the same with a type whose queue is never empty: how long a job that comes first waits for its window.
- `sizes`: --nodes servers with 20 machines each, and five jobs for each server, with the lab's own batch system: what
  a round takes.
- `deaths`: the same on the most servers, while the root and three nodes that lead others are killed.
- `head`: the same, while the agent of the queue's node is killed.

An observer reads libvirt of each server in all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from netlab.common.results import Record
from netlab.common.tables import aligned
from netlab.elastic import gridengine
from netlab.elastic.hosted import HEAD, ROOT, check_hosts
from netlab.errors import LabError
from netlab.experiments import figures
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.figures import Reading
from netlab.experiments.verdicts import of_measured
from netlab.machines import cluster, filling, journal, serving, waits
from netlab.machines.cluster import Kind, MachinesLab

REAL: Final = ("waits", "order", "window")
"""With a real Grid Engine."""
PARTS: Final = (*REAL, "sizes", "deaths", "head")
SERVERS: Final = 12
BOOT_S, COPY_S = 5.0, 20.0
PERIOD_S: Final = 10
WAITS: Final = {"order_s": 15, "answer_s": 25}
WINDOWS_S: Final = (30, 60, 0)
"""0: none."""
ORDER_JOBS: Final = 60
JOBS_A_SERVER: Final = 5
JOB_S: Final = 30.0
BIG_BOOT_S: Final = 2.0
BIG_PERIOD_S: Final = 5
SECONDS_MAX: Final = 900.0


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`nodes`: servers of the parts with the lab's own batch system. `times`: jobs of each row of the table."""

    nodes: tuple[int, ...] = (25, 50, 100)
    fanout: int = 8
    repeat: int = 3
    timing: str = "lab"
    times: int = 10
    only: tuple[str, ...] = PARTS

    def runs(self) -> Iterator[Run]:
        if unknown := [each for each in self.only if each not in PARTS]:
            raise LabError(f"--only: {unknown[0]} is none of {', '.join(PARTS)}. Nothing was done.")
        self.check_nodes(serving.INTERIOR + 2, "A cluster whose leaders die")
        packages = cluster.missing()
        if set(self.only) & set(REAL):
            packages += gridengine.missing()
        check_hosts(self.rootless, packages)
        return self._each()

    def _each(self) -> Iterator[Run]:
        for part in self.only:
            for number in range(self.repeat):
                for about in self._about(part):
                    words = ", ".join(f"{value} {name}" for name, value in about.items())
                    record = {"part": part, "repeat": number, **about, "fanout": self.fanout, "timing": self.timing}
                    title = f"{part}, {words}, run {number + 1} of {self.repeat}"
                    yield Run(title, record, partial(MEASURE[part], self, number, **about))

    def _about(self, part: str) -> list[Record]:
        match part:
            case "window":
                return [{"servers": SERVERS, "window_s": window_s} for window_s in WINDOWS_S]
            case "sizes":
                return [{"servers": servers} for servers in self.nodes]
            case "deaths" | "head":
                return [{"servers": max(self.nodes)}]
        return [{"servers": SERVERS}]

    @property
    def options(self) -> dict[str, Any]:
        """Of labs."""
        return {"fanout": self.fanout, "timing": self.timing, "progress": self.progress}


# -- with a real Grid Engine -----------------------------------------------------------------------------------------


def measure_waits(plan: Plan, number: int, servers: int) -> Record:  # noqa: ARG001 - those of the text
    guests = waits.guests(plan.times)
    with MachinesLab(
        waits.servers(), waits.STATES, guests=guests, boot_s=BOOT_S, copy_s=COPY_S, **plan.options
    ) as lab:
        waits.prepare(lab)
        lab.publish(period_s=PERIOD_S, waits=WAITS, always_on=[waits.FREE.machine(1).name])
        lab.await_deciding()
        found = waits.of_waits(waits.measure(lab, plan.times, PERIOD_S, number), PERIOD_S)
        return {"period_s": PERIOD_S, **found, "faults": [*seen(lab), *waits.faults(found)]}


def measure_order(plan: Plan, number: int, servers: int) -> Record:
    kinds = (filling.RED, filling.BLUE)
    with MachinesLab(
        filling.servers(servers), kinds, guests=filling.guests(servers), boot_s=BOOT_S, **plan.options
    ) as lab:
        lab.publish(period_s=PERIOD_S, waits=WAITS)
        lab.await_deciding()
        jobs = filling.in_order(lab, ORDER_JOBS, number)
        return {"period_s": PERIOD_S, **filling.of_order(jobs, lab), "faults": seen(lab)}


def measure_window(plan: Plan, number: int, servers: int, window_s: int) -> Record:  # noqa: ARG001
    wide = filling.wide(window_s)
    kinds = (filling.RED, wide)
    places = filling.wide_servers(servers, window_s)
    with MachinesLab(places, kinds, guests=filling.wide_guests(servers), boot_s=BOOT_S, **plan.options) as lab:
        lab.publish(period_s=PERIOD_S, waits=WAITS)
        lab.await_deciding()
        bound_s = bound_of(window_s)
        waited_s = filling.starved_s(lab, wide, servers, bound_s)
        found = {
            "period_s": PERIOD_S,
            "bound_s": bound_s,
            "waited_s": None if waited_s is None else round(waited_s, 1),
        }
        late = [f"it did not start within {bound_s:g} s"] if window_s and waited_s is None else []
        return {**found, "faults": [*seen(lab), *late]}


def bound_of(window_s: int) -> float:
    """The window, the last jobs, two boots, and eight periods for closing, stopping and starting. Without a window
    it is looked at for as long as the longest one takes."""
    return (window_s or max(WINDOWS_S)) + filling.JOB_S + 2 * BOOT_S + 8 * PERIOD_S


def seen(lab: MachinesLab) -> list[str]:
    """What the observer found wrong."""
    lab.watch.settle()
    return [*journal.faults(lab.watch.changes, lab.have), *lab.hosts.faults]


# -- with the lab's own batch system ---------------------------------------------------------------------------------


def measure_served(plan: Plan, number: int, servers: int, do: serving.Do | None = None) -> Record:
    kinds: tuple[Kind, ...] = (serving.RED, serving.BLUE)
    with MachinesLab(serving.servers(servers), kinds, boot_s=BIG_BOOT_S, **plan.options) as lab:
        before = figures.read(lab.lab)
        lab.publish(period_s=BIG_PERIOD_S, waits=WAITS)
        lab.await_deciding()
        began = figures.read(lab.lab)
        wanted = serving.jobs(JOBS_A_SERVER * servers, JOB_S, number)
        found = serving.serve(lab, wanted, SECONDS_MAX, do)
        after = figures.read(lab.lab)
        traffic = {**of_traffic(lab, before, began, "idle"), **of_traffic(lab, began, after, "busy")}
        return {"period_s": BIG_PERIOD_S, **serving.of_served(lab, found, WAITS["order_s"]), **traffic}


def of_traffic(lab: MachinesLab, before: Reading, after: Reading, name: str) -> Record:
    """A second: bytes and packets that leave and enter the root, the queue's node, and all nodes together; and
    processor time of daemons. All packets are counted twice there, at both of their ends."""
    seconds = after.mono - before.mono

    def passed(nodes: list[str], place: int) -> float:
        ways = ((before.sent, after.sent), (before.brought, after.brought))
        return sum(new[node][place] - old[node][place] for old, new in ways for node in nodes) / seconds

    whose = {"root": [lab.lab.address(ROOT)], "head": [lab.lab.address(HEAD)], "all": list(before.sent)}
    found: Record = {f"{name}_s": round(seconds, 1)}
    for who, nodes in whose.items():
        found[f"{name}_{who}_bytes_per_s"] = round(passed(nodes, 0))
        found[f"{name}_{who}_packets_per_s"] = round(passed(nodes, 1), 1)
    return found


MEASURE: Final[dict[str, Callable[..., Record]]] = {
    "waits": measure_waits,
    "order": measure_order,
    "window": measure_window,
    "sizes": measure_served,
    "deaths": partial(measure_served, do=serving.kill_leaders),
    "head": partial(measure_served, do=serving.kill_head_agent),
}


# -- for people ------------------------------------------------------------------------------------------------------


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    found: list[str] = record["faults"]
    return found


def is_whole(record: Record) -> bool:
    return not faults_of(record)


SHOWN: Final = {
    "waits": tuple(f"{kind.name}.{what}" for kind in waits.STATES for what in ("wait_s", "periods")),
    "order": ("jobs", "starts", "on_most", "overtaken_s", "overtaken_s_max"),
    "window": ("window_s", "waited_s", "bound_s"),
    "sizes": ("jobs", "starts", "surplus", "overtaken_s_max", "decide_ms", "round_messages", "round_bytes"),
    "deaths": ("jobs", "starts", "surplus", "overtaken_s_max", "served_s", "dead"),
    "head": ("jobs", "starts", "surplus", "overtaken_s_max", "served_s", "dead"),
}


def table(records: list[Record]) -> str:
    """A line for each run."""
    rows = [["part", "servers", "run", "figures"]]
    for each in records:
        if not is_measured(each):
            told = each["fault"]
        else:
            told = ", ".join(f"{name} {_value(each, name)}" for name in SHOWN[each["part"]])
        rows.append([each["part"], str(each["servers"]), str(each["repeat"] + 1), told])
    wrong = [f"{each['part']}: {words}" for each in records for words in faults_of(each)]
    return "\n".join([aligned(rows), *wrong])


def _value(record: Record, name: str) -> Any:
    outer, _, inner = name.partition(".")
    found = record.get(outer)
    if not inner or not isinstance(found, dict):
        return found
    spread = found[inner]
    return f"{spread['median']} ({spread['lowest']}..{spread['highest']})"
