"""A cluster under attack by somebody without its key: is anything understood, is anybody moved, is anything too dear?

Intuition: a castle for whose gate nobody outside has the key. First a spy listens at the wall; then old letters are
thrown over it, forged ones, everybody rings at all gates at once, and before the main one stands a man with a crown
of tin. Meanwhile a captain falls. What counts is whether the others close the ranks as quickly as in peace.

Position 1 is the intruder's, so that it claims the root's place; all others run. The same disaster happens twice, in
peace, while everything is recorded, and under attack: an interior node is killed, and started again.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netlab.attack import intruder, recorder
from netlab.attack.intruder import Assault
from netlab.common import measure
from netlab.common.results import Record
from netlab.errors import LabError
from netlab.eventlog import leader_changes
from netlab.eventlog.events import Cluster, Event
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run
from netlab.experiments.figures import spread_text
from netlab.experiments.healing import FIRST_EDGES_S
from netlab.lab import Condition, Lab, LabTimeout
from netlab.processes.enter import WIRE
from netlab.processes.launch import Progress
from netlab.processes.node_command import Envoy
from subord.sealing.keys import parse
from subord.sim.seen import percentile

INTRUDER = 1
NODES_MIN = 12  # two interior nodes besides the root
STABLE_S_MAX = 120.0
HEAL_S_MAX = 30.0
HOME_S_MAX = 60.0
HEARD_S_MAX = 20.0
ANSWER_S_MAX = 15.0  # of a daemon on a busy machine
SHARES = {"replay": 0.5, "forge": 0.5}  # of `per_s`
KNOCKS_PER_S = 50.0
ATTACK_S_MAX = 300.0  # longer than all that is waited for in a disaster
SENT_LEAST = 0.5  # of what was wanted: else the siege was none
ORPHAN_MOVES_MAX = 2  # to another leader, and back home
FINDINGS_MAX = 20
REASONS = (
    *("replay", "bad_tag", "no_key", "unsealed", "oversized", "too_short", "stale_boot", "not_subord"),
    *("tls_refused", "tls_too_slow"),
)
"""Why daemons throw away what this intruder sends, all of them."""


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`nodes` run, and one more address is the intruder's. `per_s`: datagrams, of all kinds together."""

    fanout: int = 8
    per_s: float = 2000.0
    seconds: float = 20.0  # or longer, until all are back in their places
    rest_s: float = 6.0  # how long processor time is measured, in peace and under attack
    events: Path | None = None  # a directory for the event log of each run

    def runs(self, progress: Progress) -> Iterator[Run]:
        """Raises LabError for sizes that are too small, and when the event logs cannot be kept."""
        if self.events is not None and not self.events.is_dir():
            raise LabError(f"{self.events} is no directory: make it, or correct --events. Nothing was done.")
        if min(self.nodes) < NODES_MIN:
            raise LabError(f"A siege takes {NODES_MIN} nodes or more: correct --nodes. Nothing was done.")
        for nodes in self.nodes:
            for number in range(self.repeat):
                yield Run(
                    f"{nodes} nodes, run {number + 1} of {self.repeat}",
                    {"nodes": nodes, "fanout": self.fanout, "per_s": self.per_s, "repeat": number},
                    partial(measure_one, self, nodes, number, progress),
                )


def measure_one(plan: Plan, nodes: int, number: int, progress: Progress) -> Record:
    """One castle. Raises LabError."""
    with Lab(
        nodes + 1, plan.fanout, seed=1 + number, announce=True, rootless=plan.rootless, progress=progress
    ) as lab:
        lab.touch_memory()
        progress("starting daemons, waiting for a stable tree", 0, 0)
        lab.events = []
        lab.start(*(position for position in lab.positions if position != INTRUDER))
        lab.wait_stable(STABLE_S_MAX)
        time.sleep(FIRST_EDGES_S)
        peace, siege = victims_of(lab.look())
        progress("recording", 0, 0)
        found = listen(lab, lab.directory.path / "tape", peace)
        lab.wait_stable(STABLE_S_MAX)
        progress(f"attacking for {plan.seconds:g} s or more", 0, 0)
        try:
            found |= attack(lab, lab.directory.path / "tape", plan, siege, seed=f"{number}")
            return {**found, "faults": faults_of(found)}
        finally:
            if plan.events is not None:
                shutil.copy(lab.directory.events, plan.events / f"siege-{nodes}-{plan.fanout}-{number}.jsonl")


def victims_of(cluster: Cluster) -> tuple[str, str]:
    """Two leaders of others, not the root: first those whose own home lives, then who lead many. Raises LabError."""
    leading = cluster.subordinates()
    interior = [node for node in cluster.live() if node.leader is not None and node.address in leading]
    if len(interior) < 2:
        raise LabError("Fewer than two nodes lead others besides the root: take more --nodes, or a lower --fanout.")
    interior.sort(key=lambda node: (node.place != "home", -len(leading[node.address])))
    return interior[0].address, interior[1].address


# -- the spy -----------------------------------------------------------------------------------------------


def listen(lab: Lab, tape: Path, victim: str) -> Record:
    """Record while a node dies and comes back, and somebody asks for the whole tree; what of it can be understood."""
    order = recorder.Order(path=str(tape))
    spy = Envoy(lab, WIRE, "record", order.to_json(), order.seconds_max)
    try:
        spy.await_word(recorder.READY)
        found = _named("peace", disaster(lab, victim))
        ask_for_the_tree(lab)
        until = time.monotonic() + HEARD_S_MAX
        while not has_heard_all(lab, recorder.read(tape)) and time.monotonic() < until:
            time.sleep(0.5)  # the node that is back opens the stream to its leader after some seconds
        heard = spy.finish()
    finally:
        spy.end()
    frames = recorder.read(tape)
    secret = secret_of(lab)
    findings = recorder.plain(frames, recorder.known_words(lab.options.addresses, secret), secret)
    return {
        **found,
        **{f"recorded_{name}": value for name, value in heard.items()},
        "recorded_handshakes": recorder.handshakes(frames),
        "recorded_unheard": sorted(unheard(lab, frames)),
        "plain": len(findings),
        "plain_findings": list(map(str, findings[:FINDINGS_MAX])),
    }


def has_heard_all(lab: Lab, frames: list[bytes]) -> bool:
    """Whether somebody who listened that long knows how everybody speaks, and how two streams began."""
    return not unheard(lab, frames) and recorder.handshakes(frames) >= 2


def unheard(lab: Lab, frames: Iterable[bytes]) -> set[str]:
    """Nodes that run, and of which there is no datagram."""
    return {node.address for node in lab.look().live()} - recorder.speakers(frames)


def secret_of(lab: Lab) -> bytes:
    """The 32 bytes that everything is sealed with."""
    return parse(lab.directory.key.read_text()).primary.secret


def ask_for_the_tree(lab: Lab) -> None:
    """Of the last node, so that the root's roster goes over the wire. Raises LabError."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(ANSWER_S_MAX)
        connection = http.client.HTTPConnection("localhost", timeout=ANSWER_S_MAX)
        connection.sock = stream
        try:
            stream.connect(str(lab.control_socket(lab.positions[-1])))
            connection.request("GET", "/v1/tree", headers={"Connection": "close"})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as reason:
            raise LabError(f"Node {lab.positions[-1]} does not show the tree: {reason}.") from None
    if status != http.HTTPStatus.OK:
        raise LabError(f"Node {lab.positions[-1]} does not show the tree: HTTP status {status}.")


# -- a captain falls ---------------------------------------------------------------------------------------


def disaster(lab: Lab, victim: str) -> Record:
    """Kill a leader of others, wait until its orphans have another one; start it again, wait until all are back.

    Seconds from the kill, or from the start; None: not in time. `lab.events` holds what has happened.
    """
    position = next(each for each in lab.positions if lab.address(each) == victim)
    cluster, events = lab.look(), lab.events
    assert events is not None
    leader, orphans, mark = cluster.nodes[victim].leader, cluster.subordinates().get(victim, []), len(events)
    losses = leader_changes.Losses()
    lab.kill(position)
    lab.look()
    struck_at = _at(events[mark:], victim, "lab_signalled")
    losses.leader_fell(victim, orphans, struck_at)
    _holds(lab, lambda _: not losses.attached_s(events[mark:])[1], HEAL_S_MAX)
    attached, never = losses.attached_s(events[mark:])
    _holds(lab, lambda cluster: cluster.settled_at() is not None, HEAL_S_MAX)
    lab.start(position)
    # A start returns before the copy has written its first line: until then the picture is that of the life before.
    _holds(lab, lambda cluster: (cluster.nodes[victim].forked_at or 0.0) > struck_at, HOME_S_MAX)
    home = _holds(lab, lambda cluster: cluster.nodes[victim].leader == leader, HOME_S_MAX)
    node = lab.look().nodes[victim]
    back = _holds(lab, lambda cluster: set(orphans) <= set(cluster.subordinates().get(victim, ())), HOME_S_MAX)
    last = max((lab.look().nodes[orphan].placed_at for orphan in orphans), default=0.0)
    _holds(lab, lambda cluster: cluster.settled_at() is not None, HEAL_S_MAX)
    return {
        "victim": victim,
        "concerned": [victim, *orphans],
        "orphans": len(orphans),
        "orphans_never": len(never),
        "orphans_p50_s": percentile(attached, 0.5),
        "orphans_max_s": max(attached, default=None),
        "home_s": node.placed_at - (node.forked_at or 0.0) if home else None,
        "back_s": last - (node.forked_at or 0.0) if back else None,
    }


def _at(events: Iterable[Event], node: str, what: str) -> float:
    return next(float(event["mono"]) for event in events if (event["node"], event["event"]) == (node, what))


def _holds(lab: Lab, condition: Condition, seconds: float) -> bool:
    try:
        lab.wait(condition, seconds)
    except LabTimeout:
        return False
    return True


def _named(phase: str, found: Record) -> Record:
    return {f"{phase}_{name}": value for name, value in found.items()}


# -- the attack --------------------------------------------------------------------------------------------


def attack(lab: Lab, tape: Path, plan: Plan, victim: str, seed: str) -> Record:
    """All kinds at once, and the disaster in the midst of it. Raises LabError."""
    before = _figures(lab, victim)
    peace = _cpu_percent(lab, plan.rest_s)
    cluster, events = lab.look(), lab.events
    assert events is not None
    since, roots, mark = leader_changes.baseline(cluster), {root.address for root in cluster.roots()}, len(events)
    army = _army(lab, tape, plan, seed)
    try:
        for envoy in army.values():
            envoy.await_word(intruder.READY)
        until = time.monotonic() + plan.seconds
        siege = _cpu_percent(lab, plan.rest_s)
        moved_before = sum(leader_changes.moves(lab.look(), since).values())
        fallen = disaster(lab, victim)
        over = time.monotonic()
        time.sleep(max(0.0, until - over))
        brought = {kind: envoy.finish() for kind, envoy in army.items()}
    finally:
        for envoy in army.values():
            envoy.end()
    cluster = lab.look()
    moved = leader_changes.moves(cluster, since)
    after = _figures(lab, victim)
    ended = [node.address for node in cluster.nodes.values() if not node.alive]
    return {
        "attacked_s": min(each["lasted_s"] for each in brought.values()),
        **_named("siege", fallen),
        "moved_before_kill": moved_before,
        "orphan_moves_max": max((moved.get(node, 0) for node in fallen["concerned"][1:]), default=0),
        "others_moved": sum(times for node, times in moved.items() if node not in fallen["concerned"]),
        **_power(events[mark:], roots, lab.address(INTRUDER)),
        "ended": len(ended),
        **_of_intruders(brought),
        "wanted": {kind: _per_s(plan, kind) * brought[kind]["lasted_s"] for kind in (*SHARES, "knock")},
        "dropped": {name: after.dropped[name] - before.dropped[name] for name in sorted(after.dropped)},
        "dropped_before": dict(before.dropped),
        "cpu_percent_peace": statistics.mean(peace),
        "cpu_percent_peace_max": max(peace),
        "cpu_percent_siege": statistics.mean(siege),
        "cpu_percent_siege_max": max(siege),
        "resident_mib_max_before": before.resident_mib_max,
        "resident_mib_max_after": after.resident_mib_max,
        "log_lines_max": max(after.log_lines[node] - before.log_lines[node] for node in after.log_lines),
    }


def _army(lab: Lab, tape: Path, plan: Plan, seed: str) -> dict[str, Envoy]:
    """All on their way; what one needs to begin, the others need too."""
    options, own = lab.options.to_json(), lab.address(INTRUDER)
    army: dict[str, Envoy] = {}
    for kind in intruder.KINDS:
        assault = Assault(
            kind=kind,
            own=own,
            options=options,
            per_s=_per_s(plan, kind),
            for_s=ATTACK_S_MAX,
            seed=f"{seed}/{kind}",
            tape=str(tape),
        )
        army[kind] = Envoy(lab, INTRUDER, "intrude", assault.to_json(), ATTACK_S_MAX)
    return army


def _per_s(plan: Plan, kind: str) -> float:
    return plan.per_s * SHARES[kind] if kind in SHARES else KNOCKS_PER_S


def _power(events: Iterable[Event], roots: set[str], own: str) -> Record:
    """Who was root meanwhile, and who followed the intruder."""
    places = [event for event in events if event["event"] == "place"]
    ruled = roots | {event["node"] for event in places if event["place"] == "root"}
    return {
        "roots": len(ruled),
        "root_addresses": sorted(ruled),
        "led_by_intruder": sum(event.get("leader") == own for event in places),
    }


def _of_intruders(brought: dict[str, dict[str, Any]]) -> Record:
    return {
        "sent": {kind: told["sent"] for kind, told in brought.items()},
        "forged": brought["forge"]["ways"],
        "knocked": brought["knock"]["ways"],
        "knocks_skipped": brought["knock"]["skipped"],
        "knocks_ended": brought["knock"]["ends"],
        "knocks_answered": brought["knock"]["answered"],
        "pretender_tree_nodes": brought["pretend"]["tree_nodes"],
        "pretender_led": brought["pretend"]["led"],
    }


@dataclass(frozen=True)
class _Figures:
    dropped: Counter[str]  # by reason, of all nodes but the one that will be killed
    resident_mib_max: float
    log_lines: dict[int, int]


def _figures(lab: Lab, victim: str) -> _Figures:
    """Raises LabError when a daemon does not tell."""
    dropped: Counter[str] = Counter()
    lines = {}
    for position in lab.positions:
        if position == INTRUDER or lab.address(position) == victim:
            continue
        counted = measure.counters_of(lab.control_socket(position), ANSWER_S_MAX)
        if counted is None:
            raise LabError(f"The daemon of node {position} does not tell what it counted: see its log.")
        dropped.update(counted["dropped_by_reason"])
        lines[position] = (lab.directory.node(position) / "log").read_bytes().count(b"\n")
    resident = lab.processes("resident_mib")["resident_mib"]
    return _Figures(dropped, max(mib for node, mib in resident.items() if node != victim), lines)


def _cpu_percent(lab: Lab, seconds: float) -> list[float]:
    """Of one core, each node."""
    before = lab.processes("cpu_s")
    time.sleep(seconds)
    after = lab.processes("cpu_s")
    passed = after["mono"] - before["mono"]
    used = {node: after["cpu_s"][node] - spent for node, spent in before["cpu_s"].items() if node in after["cpu_s"]}
    return [100 * spent / passed for spent in used.values()]


# -- for people --------------------------------------------------------------------------------------------


def faults_of(record: Record) -> list[str]:
    """What must not be, in words; nothing when the castle held."""
    if record.get("fault") is not None:
        return [str(record["fault"])]
    never = record["peace_orphans_never"] + record["siege_orphans_never"]
    bad = {
        f"{record['plain']} findings in the clear": record["plain"],
        "no handshake was recorded": record["recorded_handshakes"] == 0,
        f"{len(record.get('recorded_unheard', ()))} nodes were not heard": record.get("recorded_unheard"),
        f"{record['recorded_lost']} frames are not on the tape": record["recorded_lost"],
        "the tape was too short": record["recorded_cut"],
        **{f"only {record['sent'][kind]} sent of {kind}": True for kind in _too_few(record)},
        **{f"nothing was thrown away as {reason}": True for reason in _not_counted(record)},
        f"{record['moved_before_kill']} moves before anybody was killed": record["moved_before_kill"],
        f"an orphan moved {record['orphan_moves_max']} times": record["orphan_moves_max"] > ORPHAN_MOVES_MAX,
        f"{record['others_moved']} moves of others": record["others_moved"],
        f"{record['roots']} roots": record["roots"] != 1,
        f"{record['led_by_intruder']} were led by the intruder": record["led_by_intruder"],
        f"the intruder's tree had {record['pretender_tree_nodes']} nodes": record["pretender_tree_nodes"] != 1,
        "the intruder had a leader": record["pretender_led"],
        f"{record['knocks_answered']} knocks were answered": record["knocks_answered"],
        f"{record['ended']} daemons ended": record["ended"],
        f"{never} orphans stayed without a leader": never,
        "the killed one did not come home": None in (record["peace_home_s"], record["siege_home_s"]),
        "its orphans did not come back": None in (record["peace_back_s"], record["siege_back_s"]),
    }
    return [words for words, holds in bad.items() if holds]


def _too_few(record: Record) -> list[str]:
    wanted = {**record["wanted"], "pretend": 1 / SENT_LEAST}
    return [kind for kind, least in wanted.items() if record["sent"][kind] < SENT_LEAST * least]


def _not_counted(record: Record) -> list[str]:
    """Reasons for which nothing was thrown away, though the intruder gave cause."""
    return [reason for reason in REASONS if not record["dropped"].get(reason)]


def is_whole(record: Record) -> bool:
    """Nothing was understood, nobody moved who need not, and everything healed."""
    return not faults_of(record)


COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("orphans, p50 s", "peace_orphans_p50_s", "siege_orphans_p50_s", 2),
    ("orphans, max s", "peace_orphans_max_s", "siege_orphans_max_s", 2),
    ("restarted one home, s", "peace_home_s", "siege_home_s", 2),
    ("its orphans back, s", "peace_back_s", "siege_back_s", 2),
    ("CPU of a node, %", "cpu_percent_peace", "cpu_percent_siege", 2),
    ("CPU of the busiest, %", "cpu_percent_peace_max", "cpu_percent_siege_max", 1),
    ("resident MiB, max", "resident_mib_max_before", "resident_mib_max_after", 1),
)


def table(records: list[Record]) -> str:
    """For people: medians and spread in peace and under attack, what was sent and thrown away, what went wrong."""
    lines = []
    for nodes in dict.fromkeys(record["nodes"] for record in records):
        some = [record for record in records if record["nodes"] == nodes]
        good = [record for record in some if record["fault"] is None]
        lines += [f"{nodes} nodes: {sum(map(is_whole, some))} of {len(some)} runs held"]
        lines += [f"{'':24}{'in peace':>22}{'under attack':>22}"] if good else []
        for title, peace, siege, digits in COLUMNS if good else ():
            cells = [spread_text([record[key] for record in good], digits) for key in (peace, siege)]
            lines.append(f"{title:24}{cells[0]:>22}{cells[1]:>22}")
        for title, key in (("sent", "sent"), ("thrown away", "dropped")) if good else ():
            lines.append(f"{title}, median: {_medians([record[key] for record in good])}")
        lines += [f"run {record['repeat'] + 1}: {words}" for record in some for words in faults_of(record)]
    return "\n".join(lines)


def _medians(counts: list[dict[str, int]]) -> str:
    names = sorted({name for each in counts for name in each})
    middle: Callable[[str], float] = lambda name: statistics.median(each.get(name, 0) for each in counts)  # noqa: E731
    return ", ".join(f"{name} {middle(name):.0f}" for name in names)
