"""How a tree heals: end a daemon, start it again, and read from the event log which nodes moved, and when.

`kill` ends the process (kill -9): its host still answers. `cut` also pulls the cable: nothing answers. The clock
starts with the signal, as the event log has it.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from netlab.common.measure import machine
from netlab.common.results import Record, write_json
from netlab.common.tables import aligned, cell, groups
from netlab.eventlog.events import Cluster
from netlab.lab import Lab
from subord.sim.checkers.metrics import percentile

HEAL_S_MAX = 30.0
STABLE_S_MAX = 60.0
MARKS = ("lab_signalled", "lab_forked")
EDGES_S = 3.0  # after a change of place, until the streams along the edges are open again
FIRST_EDGES_S = 7.0  # after a first start that has been stable for 3 s


@dataclass(frozen=True, kw_only=True)
class Healing:
    """One fault and its end. Times in seconds from the signal; None: it did not happen."""

    victim: str
    role: str  # root, interior or leaf
    way: str  # kill, cut or restart
    orphans: int  # subordinates of the victim, for a restart: guests that belong to it
    attached_s: tuple[float, ...]  # when each of them had a leader again, or was root
    roster_s: float  # when one root knew every live node and no node moved any more
    moves: int  # changes of place, the victim's own not counted
    others: int  # nodes that changed places though they were not among those `orphans`


def role_of(cluster: Cluster, address: str) -> str:
    """The node's part in the tree: "root", "interior" or "leaf"."""
    if cluster.nodes[address].place == "root":
        return "root"
    return "interior" if cluster.subordinates().get(address) else "leaf"


def strike(lab: Lab, position: int, way: str) -> Healing:
    """Kill or cut the node at `position` and wait until the rest is one settled tree. Raises LabTimeout."""
    cluster = lab.look()
    address = lab.address(position)
    role = role_of(cluster, address)
    orphans = cluster.subordinates().get(address, [])

    def act() -> None:
        if way == "cut":
            lab.cut(position)  # first the cable, so that no node learns of the death
        lab.kill(position)

    return _observe(lab, act, victim=address, role=role, way=way, concerned=orphans)


def revive(lab: Lab, position: int, struck: Healing, guests: Iterable[str]) -> Healing:
    """Start the node again that was `struck`; `guests` belong to it and should go home. Raises LabTimeout."""
    address = lab.address(position)

    def act() -> None:
        if struck.way == "cut":
            lab.cut(position, connected=True)
        lab.start_and_wait(position)

    return _observe(lab, act, victim=address, role=struck.role, way="restart", concerned=list(guests))


def _observe(lab: Lab, act: Callable[[], None], *, victim: str, role: str, way: str, concerned: list[str]) -> Healing:
    lab.look()
    mark = len(lab.events)
    act()
    stable = lab.wait_stable(HEAL_S_MAX)
    events = lab.events[mark:]
    at = next(float(e["mono"]) for e in events if e["node"] == victim and e["event"] in MARKS)
    moved = [e for e in events if e["event"] == "place" and float(e["mono"]) >= at]
    back = {e["node"]: float(e["mono"]) - at for e in moved if e["node"] in concerned}
    return Healing(
        victim=victim,
        role=role,
        way=way,
        orphans=len(concerned),
        attached_s=tuple(sorted(back.values())),
        roster_s=max(0.0, stable.at - at),
        moves=sum(e["node"] != victim for e in moved),
        others=len({e["node"] for e in moved} - {victim, *concerned}),
    )


def measure(lab: Lab, *, ways: Iterable[str], times: int, seed: int, say: Callable[[str], None]) -> list[Healing]:
    """Start all nodes, then kill (or cut) and revive: `times` interior nodes, the root and a leaf, each way."""
    lab.start_all()
    lab.wait_stable(STABLE_S_MAX)
    time.sleep(FIRST_EDGES_S)
    chance = random.Random(seed)
    found = []
    for way in ways:
        cluster = lab.look()
        by_role: dict[str, list[int]] = {"root": [], "interior": [], "leaf": []}
        for position in lab.positions:
            by_role[role_of(cluster, lab.address(position))].append(position)
        victims = [
            *chance.sample(by_role["interior"], min(times, len(by_role["interior"]))),
            *by_role["root"],
            chance.choice(by_role["leaf"]),
        ]
        for position in victims:
            time.sleep(EDGES_S)  # until the streams along the edges are open again
            guests = lab.look().subordinates().get(lab.address(position), [])
            struck = strike(lab, position, way)
            revived = revive(lab, position, struck, guests)
            found += [struck, revived]
            times_s = f"healed in {struck.roster_s:.2f} s, back in {revived.roster_s:.2f} s"
            say(f"  {way} {struck.role} {struck.victim}: {times_s}")
    return found


def rows_of(healings: Iterable[Healing]) -> list[Record]:
    return [_row(way, role, some) for (way, role), some in groups(map(asdict, healings), ("way", "role")).items()]


def _row(way: str, role: str, some: list[Record]) -> Record:
    times = sorted(each_s for each in some for each_s in each["attached_s"])
    rosters_s = [each["roster_s"] for each in some]
    return {
        "what": way,
        "role": role,
        "times": len(some),
        "orphans": sum(each["orphans"] for each in some),
        "attached": len(times),
        "attached_p50_s": percentile(times, 0.5),
        "attached_p99_s": percentile(times, 0.99),
        "roster_s_median": statistics.median(rosters_s),
        "roster_s_max": max(rosters_s),
        "moves_mean": statistics.mean(each["moves"] for each in some),
        "others": sum(each["others"] for each in some),
    }


TITLES = {
    "what": "what",
    "role": "victim",
    "times": "times",
    "orphans": "orphans",
    "attached": "attached",
    "attached_p50_s": "p50 s",
    "attached_p99_s": "p99 s",
    "roster_s_median": "whole, median s",
    "roster_s_max": "max s",
    "moves_mean": "moves",
    "others": "others moved",
}


def table(healings: Iterable[Healing]) -> str:
    """For people: one line a way and role."""
    return aligned([list(TITLES.values()), *([cell(row[key]) for key in TITLES] for row in rows_of(healings))])


def write(path: Path, healings: Sequence[Healing], *, nodes: int, fanout: int) -> None:
    about = {"nodes": nodes, "fanout": fanout, "machine": machine()}
    write_json(path, {**about, "rows": rows_of(healings), "healings": list(map(asdict, healings))})
