"""`evaluate siege`: a cluster under attack by a host without its key.

Position 1 is the intruder's, so that it claims the root's place; all others run. An interior node is killed and
started again twice: without an attack, while everything is recorded, and under attack. Nothing recorded may be
readable, no node may move but the orphans, and they have to find a leader as quickly as before.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from netlab.attack import intruder, plaintext, recorder
from netlab.common.results import Record
from netlab.common.tables import aligned, groups, spread
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.eventlog import changes as log_changes
from netlab.eventlog.events import Cluster
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.figures import cpu_used
from netlab.experiments.healing import FIRST_EDGES_S
from netlab.experiments.verdicts import of_measured
from netlab.lab import Lab
from netlab.processes.enter import WIRE, NodeCommand
from subord.sealing.keys import parse
from subord.sim.checkers.metrics import percentile

INTRUDER = 1
NODES_MIN = 12  # two interior nodes besides the root
STABLE_S_MAX = 120.0
HEAL_S_MAX = 30.0
HOME_S_MAX = 60.0
RECORDED_S_MAX = 20.0
SHARES = {"replay": 0.5, "forge": 0.5}  # of `per_s`
CONNECTIONS_PER_S = 50.0
ATTACK_S_MAX = 300.0  # longer than all waiting for the healing
SENT_LEAST = 0.5  # of what was wanted: else it was no attack
ORPHAN_MOVES_MAX = 2  # to another leader, and back home
FINDINGS_MAX = 20
REASONS = (
    *("replay", "bad_tag", "no_key", "unsealed", "oversized", "too_short", "stale_boot", "not_subord"),
    *("tls_refused", "tls_too_slow"),
)
"""Why daemons drop what this intruder sends, all of them."""


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`nodes` run, and one more address is the intruder's. `per_s`: datagrams, of all kinds together."""

    fanout: int = 8
    per_s: float = 2000.0
    seconds: float = 20.0  # or longer, until all are back in their places
    rest_s: float = 6.0  # how long processor time is measured, without and under attack

    def runs(self) -> Iterator[Run]:
        self.check_nodes(NODES_MIN, "A siege")
        yield from self.by_turns(measure_one, about={"fanout": self.fanout, "per_s": self.per_s})


def measure_one(plan: Plan, nodes: int, number: int) -> Record:
    log = f"siege-{nodes}-{plan.fanout}-{number}"
    with plan.raised(nodes + 1, plan.fanout, log=log, seed=1 + number, announce=True) as lab:
        lab.touch_memory()
        lab.progress("starting daemons, waiting for a stable tree")
        lab.start(*(position for position in lab.positions if position != INTRUDER))
        lab.wait_stable(STABLE_S_MAX)
        time.sleep(FIRST_EDGES_S)
        first, second = victims_of(lab.look())
        recording = lab.directory.path / "recording"
        lab.progress("recording")
        found = record(lab, recording, first)
        lab.wait_stable(STABLE_S_MAX)
        lab.progress(f"attacking for {plan.seconds:g} s or more")
        found |= attack(lab, recording, plan, second, seed=f"{number}")
        return {**found, "faults": faults_of(found)}


def victims_of(cluster: Cluster) -> tuple[str, str]:
    """Two interior nodes, first those below their computed leader, with many subordinates. Raises LabError."""
    subordinates = cluster.subordinates()
    interior = [node for node in cluster.live() if node.leader is not None and node.address in subordinates]
    if len(interior) < 2:
        raise LabError("Fewer than two nodes lead others besides the root: take more --nodes, or a lower --fanout.")
    interior.sort(key=lambda node: (node.place != "home", -len(subordinates[node.address])))
    return interior[0].address, interior[1].address


def record(lab: Lab, recording: Path, victim: str) -> Record:
    """Record while a node dies and comes back, and a node asks for the whole tree; what of it can be read."""
    order = recorder.Order(path=str(recording))
    with NodeCommand(lab.options.name, WIRE, "record", vars(order), order.seconds_max) as command:
        command.await_begin()
        found = _named("peace", kill_and_restart(lab, victim))
        lab.document(lab.positions[-1], "/v1/tree")
        # The node that is back opens the stream to its leader after some seconds.
        wait_until(lambda: is_complete(lab, recorder.read(recording)), RECORDED_S_MAX, 0.5)
        recorded = command.finish()
    frames = recorder.read(recording)
    secret = secret_of(lab)
    findings = plaintext.findings(frames, plaintext.known_words(lab.options.addresses, secret), secret)
    return {
        **found,
        **_named("recorded", recorded),
        "recorded_handshakes": plaintext.handshakes(frames),
        "recorded_unheard": sorted(unrecorded(lab, frames)),
        "plain": len(findings),
        "plain_findings": list(map(str, findings[:FINDINGS_MAX])),
    }


def is_complete(lab: Lab, frames: list[bytes]) -> bool:
    """Whether it has a datagram of every node, and the beginning of two streams."""
    return not unrecorded(lab, frames) and plaintext.handshakes(frames) >= 2


def unrecorded(lab: Lab, frames: Iterable[bytes]) -> set[str]:
    """Nodes that run, and of which there is no datagram."""
    return {node.address for node in lab.look().live()} - plaintext.senders(frames)


def secret_of(lab: Lab) -> bytes:
    """The 32 bytes of the key of the cluster."""
    return parse(lab.directory.key.read_text()).primary.secret


def kill_and_restart(lab: Lab, victim: str) -> Record:
    """Kill a leader, wait until its orphans have another one; start it again, wait until all are back.

    Seconds from the kill, or from the start; None: not in time. `lab.events` holds what has happened.
    """
    position, cluster, events = lab.position(victim), lab.look(), lab.events
    leader, orphans, mark = cluster.nodes[victim].leader, cluster.subordinates().get(victim, []), len(events)
    losses = log_changes.Losses()
    lab.kill(position)
    lab.look()
    struck = (float(e["mono"]) for e in events[mark:] if (e["node"], e["event"]) == (victim, "lab_signalled"))
    struck_at = next(struck)
    losses.leader_fell(victim, orphans, struck_at)
    lab.holds(lambda _: not losses.attached_s(events[mark:])[1], HEAL_S_MAX)
    attached, never = losses.attached_s(events[mark:])
    lab.holds(lambda cluster: cluster.settled_at() is not None, HEAL_S_MAX)
    lab.start_and_wait(position)
    home = lab.holds(lambda cluster: cluster.nodes[victim].leader == leader, HOME_S_MAX)
    node = lab.look().nodes[victim]
    back = lab.holds(lambda cluster: set(orphans) <= set(cluster.subordinates().get(victim, ())), HOME_S_MAX)
    last = max((lab.look().nodes[orphan].placed_at for orphan in orphans), default=0.0)
    lab.holds(lambda cluster: cluster.settled_at() is not None, HEAL_S_MAX)
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


def _named(phase: str, found: Record) -> Record:
    return {f"{phase}_{name}": value for name, value in found.items()}


def attack(lab: Lab, recording: Path, plan: Plan, victim: str, seed: str) -> Record:
    """All kinds at once, and a death in the midst of it. Raises LabError."""
    before = _figures(lab, victim)
    calm = _cpu_percent(lab, plan.rest_s)
    cluster, mark = lab.look(), len(lab.events)
    since, roots = log_changes.baseline(cluster), {root.address for root in cluster.roots()}
    per_s = {kind: plan.per_s * SHARES[kind] if kind in SHARES else CONNECTIONS_PER_S for kind in intruder.KINDS}
    with ExitStack() as ending:
        commands = {
            kind: ending.enter_context(_command(lab, recording, kind, rate, f"{seed}/{kind}"))
            for kind, rate in per_s.items()
        }
        for command in commands.values():
            command.await_begin()
        until = time.monotonic() + plan.seconds
        attacked = _cpu_percent(lab, plan.rest_s)
        moved_before = sum(log_changes.moves(lab.look(), since).values())
        killed = kill_and_restart(lab, victim)
        time.sleep(max(0.0, until - time.monotonic()))
        done = {kind: command.finish() for kind, command in commands.items()}
    cluster = lab.look()
    moved = log_changes.moves(cluster, since)
    places = [event for event in lab.events[mark:] if event["event"] == "place"]
    roots |= {event["node"] for event in places if event["place"] == "root"}
    after = _figures(lab, victim)
    return {
        "attacked_s": min(each["lasted_s"] for each in done.values()),
        **_named("siege", killed),
        "moved_before_kill": moved_before,
        "orphan_moves_max": max((moved.get(node, 0) for node in killed["concerned"][1:]), default=0),
        "others_moved": sum(times for node, times in moved.items() if node not in killed["concerned"]),
        "roots": len(roots),
        "root_addresses": sorted(roots),
        "led_by_intruder": sum(event.get("leader") == lab.address(INTRUDER) for event in places),
        "ended": sum(not node.alive for node in cluster.nodes.values()),
        "sent": {kind: each["sent"] for kind, each in done.items()},
        "forged": done["forge"]["ways"],
        "knocked": done["knock"]["ways"],
        "knocks_skipped": done["knock"]["skipped"],
        "knocks_ended": done["knock"]["ends"],
        "knocks_answered": done["knock"]["answered"],
        "pretender_tree_nodes": done["pretend"]["tree_nodes"],
        "pretender_led": done["pretend"]["led"],
        "wanted": {kind: rate * done[kind]["lasted_s"] for kind, rate in per_s.items() if kind != "pretend"},
        "dropped": {name: after.dropped[name] - before.dropped[name] for name in sorted(after.dropped)},
        "dropped_before": dict(before.dropped),
        "cpu_percent_peace": statistics.mean(calm),
        "cpu_percent_peace_max": max(calm),
        "cpu_percent_siege": statistics.mean(attacked),
        "cpu_percent_siege_max": max(attacked),
        "resident_mib_max_before": before.resident_mib_max,
        "resident_mib_max_after": after.resident_mib_max,
        "log_lines_max": max(after.log_lines[node] - before.log_lines[node] for node in after.log_lines),
    }


def _command(lab: Lab, recording: Path, kind: intruder.Kind, per_s: float, seed: str) -> NodeCommand:
    order = intruder.Order(
        kind=kind,
        own=lab.address(INTRUDER),
        options=lab.options.to_json(),
        per_s=per_s,
        for_s=ATTACK_S_MAX,
        seed=seed,
        recording=str(recording),
    )
    return NodeCommand(lab.options.name, INTRUDER, "intrude", vars(order), ATTACK_S_MAX)


class _Figures(NamedTuple):
    """Of all nodes but the one that will be killed: drops by reason, the most memory, lines in each log."""

    dropped: Counter[str]
    resident_mib_max: float
    log_lines: dict[int, int]


def _figures(lab: Lab, victim: str) -> _Figures:
    dropped: Counter[str] = Counter()
    lines = {}
    for position in set(lab.positions) - {INTRUDER, lab.position(victim)}:
        dropped.update(lab.document(position, "/v1/counters")["dropped_by_reason"])
        lines[position] = (lab.directory.node(position) / "log").read_bytes().count(b"\n")
    resident = lab.processes("resident_mib")["resident_mib"]
    return _Figures(dropped, max(mib for node, mib in resident.items() if node != victim), lines)


def _cpu_percent(lab: Lab, seconds: float) -> list[float]:
    """Of one core, each node."""
    used, passed_s = cpu_used(lab, seconds)
    return [100 * spent_s / passed_s for spent_s in used.values()]


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words; nothing when the cluster withstood."""
    never = record["peace_orphans_never"] + record["siege_orphans_never"]
    wanted = {**record["wanted"], "pretend": 1 / SENT_LEAST}
    too_few = [kind for kind, least in wanted.items() if record["sent"][kind] < SENT_LEAST * least]
    uncounted = [reason for reason in REASONS if not record["dropped"].get(reason)]
    bad = {
        f"{record['plain']} findings in the clear": record["plain"],
        "no handshake was recorded": record["recorded_handshakes"] == 0,
        f"{len(record.get('recorded_unheard', ()))} nodes were not recorded": record.get("recorded_unheard"),
        f"{record['recorded_lost']} frames are not in the recording": record["recorded_lost"],
        "the recording was too short": record["recorded_cut"],
        **{f"only {record['sent'][kind]} sent of {kind}": True for kind in too_few},
        **{f"nothing was dropped as {reason}": True for reason in uncounted},
        f"{record['moved_before_kill']} moves before a node was killed": record["moved_before_kill"],
        f"an orphan moved {record['orphan_moves_max']} times": record["orphan_moves_max"] > ORPHAN_MOVES_MAX,
        f"{record['others_moved']} moves of others": record["others_moved"],
        f"{record['roots']} roots": record["roots"] != 1,
        f"{record['led_by_intruder']} were led by the intruder": record["led_by_intruder"],
        f"the intruder's tree had {record['pretender_tree_nodes']} nodes": record["pretender_tree_nodes"] != 1,
        "the intruder had a leader": record["pretender_led"],
        f"{record['knocks_answered']} connections were answered": record["knocks_answered"],
        f"{record['ended']} daemons ended": record["ended"],
        f"{never} orphans stayed without a leader": never,
        "the killed one did not come home": None in (record["peace_home_s"], record["siege_home_s"]),
        "its orphans did not come back": None in (record["peace_back_s"], record["siege_back_s"]),
    }
    return [words for words, holds in bad.items() if holds]


def is_whole(record: Record) -> bool:
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
    """For people: medians and spread without and under attack, what was sent and dropped, what went wrong."""
    lines = []
    for (nodes,), some in groups(records, ("nodes",)).items():
        good = list(filter(is_measured, some))
        lines.append(f"{nodes} nodes: {sum(map(is_whole, some))} of {len(some)} runs held")
        if good:
            rows = [
                [title, *(spread([record[key] for record in good], digits) for key in keys)]
                for title, *keys, digits in COLUMNS
            ]
            lines.append(aligned([["", "without attack", "under attack"], *rows], left=1))
            lines += [
                f"{title}, median: {_medians([record[key] for record in good])}"
                for title, key in (("sent", "sent"), ("dropped", "dropped"))
            ]
        lines += [f"run {record['repeat'] + 1}: {words}" for record in some for words in faults_of(record)]
    return "\n".join(lines)


def _medians(counts: list[dict[str, int]]) -> str:
    names = sorted({name for each in counts for name in each})
    middles = {name: statistics.median(each.get(name, 0) for each in counts) for name in names}
    return ", ".join(f"{name} {middle:.0f}" for name, middle in middles.items())
