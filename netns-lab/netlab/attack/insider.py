"""`evaluate insider`: a cluster under siege by one of its members, which has the key and lies (lying_member.py).

Positions 1 and N + 2 are hosts that are replaced before the siege: the accomplices' hosts, which claim the addresses
and whose former keys are pinned. N nodes run, and one of them, a leaf or an interior node, goes through all lies in
turns. Inputs are counters, `subord errors` and the event log. No node may change its leader but the liar and, of an
interior liar, the nodes below it, whose leader it is; each lie is refused, bounded or named as its line in LIES says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from netlab.attack import genuine_orders
from netlab.common.results import Record
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.eventlog import changes as log_changes
from netlab.eventlog.events import Cluster
from netlab.eventlog.tree import level
from netlab.experiments.evaluate import Evaluation, Run
from netlab.experiments.verdicts import faults_of_turns, of_measured, table_of_turns
from netlab.lab import Lab
from subord.core.carriage.verdicts import SENTENCES

LYING_MEMBER = Path(__file__).with_name("lying_member.py")
PLACES = ("leaf", "interior")
LOWEST = 1
NODES_MIN = 14  # so that an interior node has nodes on two levels below it, with fan-out 2
STABLE_S_MAX = 120.0
KNOWN_S_MAX = 120.0
BACK_S_MAX = 30.0
ERRORS_S = 30.0
BUDGET_S = 8.0  # for all nodes to tell their problems, on a busy machine
QUIET_S = 12.0  # no node has moved for so long before the siege
SHOWN_S_MAX = 15.0
SHOWN_MAX = 4  # words of one lie in the table
SENTENCE_BEGIN = 40  # characters; `subord errors` cuts long lines


@dataclass(frozen=True)
class Siege:
    """One lab, and the addresses of its parts. `below`: the nodes below the liar when the siege begins. `lowest` and
    `former` are the addresses of the accomplices."""

    lab: Lab
    liar: str
    below: tuple[str, ...]
    root: str
    lowest: str
    former: str

    def tell(self, address: str, *words: str) -> None:
        (self.lab.directory.node(self.lab.position(address)) / "lie").write_text(" ".join(words))

    @property
    def honest(self) -> list[int]:
        """Positions of the nodes that run and tell the truth."""
        running = {node.address for node in self.lab.look().live()} - {self.liar, self.lowest, self.former}
        return sorted(map(self.lab.position, running))


@dataclass(frozen=True)
class Lie:
    """One turn. `words` are those of lying_member.py, with the addresses of a siege in the place of {names}.

    `host`: which address lies; `named`: what `subord errors` says of that address, in one of these lines, None: it
    does not name it; `refused`: the words by which the lie is dropped, at least one of them. `restarts`: this node is
    killed and started again during the lie. `starts`: the accomplice is started. `orders`: an operator gives orders
    of `subord exec` meanwhile.
    """

    name: str
    words: str
    host: str = "liar"
    named: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()
    restarts: str = ""
    orders: bool = False
    places: tuple[str, ...] = PLACES

    @property
    def starts(self) -> bool:
        return self.host != "liar"


FOREIGN = ("another key is pinned",)
REFUSED = ("refused: altered", "refused: unsigned", "refused: unknown_principal")
EXECUTED = "executed"
# In this order: while phantoms fill the room of the liar, its other rows are dropped for that reason.
LIES = (
    Lie("hidden branch", "alone", named=("more nodes answer for its branch",), places=("interior",)),
    Lie("rows out of range", "age", named=("malformed",), refused=("malformed",)),
    Lie("later incarnation", "newer {leader}", named=("boot_leap",), refused=("boot_leap",)),
    Lie("rows of others", "claims {root}", named=("row_not_below",), refused=("row_not_below",)),
    Lie("false signatures", "claims {later}", named=("row_bad_proof",), refused=("row_bad_proof",)),
    Lie("phantom rows", "phantoms", named=("rows_absent",), refused=("rows_absent", "rows_untried")),
    Lie("row flood", "flood", named=("rows_absent",), refused=("rows_absent", "rows_untried")),
    Lie("replayed row", "replay {liar}", restarts="liar", places=("leaf",)),
    Lie("replayed row", "replay {subordinate}", restarts="subordinate", places=("interior",)),
    Lie("black hole", "mute {root}", named=("silent",)),
    Lie("ring push", "ring", named=("passed on by",), refused=("unknown_principal", "unsigned")),
    Lie("exec orders", "orders {executed}", refused=REFUSED, orders=True),
    Lie("foreign goodbye", "goodbye {root} {other}", refused=("first_contact", "stale_boot")),
    Lie("takeover", "goodbye {former} {root}", host="former", named=FOREIGN, refused=("foreign_key", "no_identity")),
    Lie("lowest address", "goodbye {lowest} {root}", host="lowest", named=FOREIGN, refused=("foreign_key",)),
)
NAMES = tuple(dict.fromkeys(lie.name for lie in LIES))


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`nodes` run; two more addresses are those of the accomplices. `place`: where the liar stands."""

    fanout: int = 2
    place: tuple[str, ...] = PLACES
    seconds: float = 300.0  # all lies together
    lies: tuple[str, ...] = NAMES
    timing: str = "lan"
    quiet_s: float = QUIET_S

    def runs(self) -> Iterator[Run]:
        self.check_nodes(NODES_MIN, "An insider")
        yield from self.by_turns(measure_one, about={"fanout": self.fanout}, place=self.place)


def measure_one(plan: Plan, nodes: int, number: int, place: str) -> Record:
    log = f"insider-{nodes}-{place}-{number}"
    options: dict[str, Any] = {"daemon": str(LYING_MEMBER), "agents": True, "timing": plan.timing, "seed": 1 + number}
    with plan.raised(nodes + 2, plan.fanout, log=log, **options) as lab:
        lab.touch_memory()
        lab.progress("starting daemons, waiting for a stable tree")
        lab.start_all()
        return besiege(lab, plan, place)


def besiege(lab: Lab, plan: Plan, place: str) -> Record:
    """The siege of a lab of lying members, all of which have been started. Raises LabError."""
    siege = begin(lab, place, plan.quiet_s)
    lies = [lie for lie in LIES if place in lie.places and lie.name in plan.lies]
    mark, ended = len(lab.events), _ended(lab)
    turns = []
    for lie in lies:
        lab.progress(f"{siege.liar} ({place}): {lie.name}")
        turns.append(turn(siege, lie, plan.seconds / len(lies)))
    lab.kill(lab.position(siege.liar))  # phantoms that are within the bound stay as long as its session
    lab.start_and_wait(lab.position(siege.liar))
    whole = lab.holds(lambda cluster: cluster.settled_at() is not None, STABLE_S_MAX)
    strangers = {siege.liar, siege.lowest, siege.former}
    roots = {event["node"] for event in lab.events[mark:] if event.get("place") == "root"}
    found: Record = {
        "liar": siege.liar,
        "below": len(siege.below),
        "turns": turns,
        "other_roots": sorted(roots - strangers - set(siege.below)),
        "others_ended": sorted(_ended(lab) - ended - strangers),
        "whole": whole,
    }
    return {**found, "faults": faults_of(found)}


def _ended(lab: Lab) -> set[str]:
    return {node.address for node in lab.look().nodes.values() if not node.alive}


# -- before the siege ---------------------------------------------------------------------------------------------


def begin(lab: Lab, place: str, quiet_s: float) -> Siege:
    """A strict cluster at rest whose nodes know all keys; the first and the last host are replaced.

    Raises LabError.
    """
    lab.wait_stable(STABLE_S_MAX, quiet_s=1.0)
    lab.progress("waiting until all nodes know all keys")
    unsure = list(lab.positions)

    def is_known() -> bool:
        unsure[:] = [position for position in unsure if not knows_all(lab, position)]
        return not unsure

    if not wait_until(is_known, KNOWN_S_MAX, 0.5):
        raise LabError(f"{len(unsure)} nodes did not learn the keys of all others within {KNOWN_S_MAX:g} s.")
    accomplices = LOWEST, lab.positions[-1]
    order_strict(lab, lab.positions[1])
    for position in accomplices:
        lab.replace(position)
    lab.progress("waiting for rest")
    lab.wait_stable(STABLE_S_MAX, quiet_s=quiet_s)
    cluster = lab.look()
    (root,) = cluster.roots()
    liar = liar_of(lab, cluster, place)
    lowest, former = map(lab.address, accomplices)
    return Siege(lab, liar, tuple(below(cluster, liar)), root.address, lowest, former)


def order_strict(lab: Lab, position: int) -> None:
    """As an operator, with a command on this node; until all nodes refuse what is not signed. Raises LabError."""
    done = lab.run(position, "subord", "operator", "strict", "on")
    if done.returncode:
        raise LabError(f"`subord operator strict on` failed: {done.stderr}")

    def is_everywhere() -> bool:
        logs = (lab.directory.node(each) / "log" for each in lab.positions)
        return all("order strict/on of operator accepted" in log.read_text() for log in logs)

    if not wait_until(is_everywhere, KNOWN_S_MAX, 0.2):
        raise LabError(f"Not all nodes were strict within {KNOWN_S_MAX:g} s.")


def knows_all(lab: Lab, position: int) -> bool:
    """Whether this node knows the key of each node of the lab."""
    known = {each["address"] for each in lab.document(position, "/v1/members")["members"] if each["identity"]}
    return known >= set(map(lab.address, lab.positions))


def liar_of(lab: Lab, cluster: Cluster, place: str) -> str:
    """The first leaf, or the interior node with the largest branch, two edges or more below the root, so that one
    leader at least stands between. Raises LabError."""
    leaders, subordinates = cluster.leaders(), cluster.subordinates()
    deep = sorted((each for each in leaders if level(leaders, each) >= 2), key=lab.position)
    if place == "leaf":
        fitting = [address for address in deep if address not in subordinates]
    else:
        interior = [address for address in deep if address in subordinates]
        fitting = sorted(interior, key=lambda address: -len(below(cluster, address)))
    if not fitting:
        raise LabError(f"No {place} stands two edges below the root: take more --nodes, or a lower --fanout.")
    return fitting[0]


def below(cluster: Cluster, address: str) -> list[str]:
    """All nodes below this one."""
    subordinates, found = cluster.subordinates(), [address]
    for each in found:
        found += subordinates.get(each, ())
    return found[1:]


# -- the siege ----------------------------------------------------------------------------------------------------


def turn(siege: Siege, lie: Lie, seconds: float) -> Record:
    """One lie for so long, and up to SHOWN_S_MAX more: what was refused, what is named, and which nodes moved."""
    lab, names, until = siege.lab, names_of(siege), time.monotonic() + seconds
    host = names[lie.host]
    before, told_before = seen(siege, host)
    mark, since = len(lab.events), log_changes.baseline(lab.look())
    if lie.starts:
        lab.start_and_wait(lab.position(host))
    if lie.orders:
        genuine_orders.wait_until_obeyed(lab, lab.position(names["later"]), map(lab.address, siege.honest))
    words = lie.words.format_map(names)
    siege.tell(host, *words.split())
    file = Path(names["executed"])
    told = genuine_orders.give(lab, lab.position(names["later"]), file, seconds) if lie.orders else []
    if lie.restarts:
        time.sleep(seconds / 3)
        lab.kill(lab.position(names[lie.restarts]))
        lab.start_and_wait(lab.position(names[lie.restarts]))
    time.sleep(max(0.0, until - time.monotonic()))
    refused: Counter[str] = Counter()
    named: list[str] = []

    def is_shown() -> bool:
        try:
            after, told = seen(siege, host)
        except LabError:  # a node that has just been started does not answer yet
            return False
        refused.clear()
        refused.update(after - before)
        named[:] = [line for line, ago_s in told.items() if line not in told_before or ago_s <= seconds]
        return not faults_of_lie(lie, refused, named)

    wait_until(is_shown, SHOWN_S_MAX, 0.5)
    misplaced = misplaced_in(siege)
    siege.tell(host)
    if lie.starts:
        lab.kill(lab.position(host))
    back = lab.holds(lambda cluster: cluster.nodes[siege.liar].place in ("home", "guest"), BACK_S_MAX)
    moved = log_changes.moves(lab.look(), since)
    concerned = siege.liar, *siege.below, siege.lowest, siege.former
    others = {address: times for address, times in moved.items() if address not in concerned}
    beside = set(map(lab.address, siege.honest)) - {*siege.below}
    return {
        "lie": lie.name,
        "words": words,
        "host": host,
        "refused": dict(refused),
        "named": named,
        "liar_moved": moved.get(siege.liar, 0),
        "below_moved": sum(moved.get(address, 0) for address in siege.below),
        "others_moved": others,
        "others_places": {address: log_changes.places_told(lab.events[mark:], address) for address in others},
        "misplaced": misplaced,
        "back": back,
        "executed": genuine_orders.wrong_in(file, beside, told) if lie.orders else [],
    }


def misplaced_in(siege: Siege) -> list[str]:
    """Honest nodes of other branches that the tree of the root does not show below their leader."""
    lab, leaders = siege.lab, siege.lab.look().leaders()
    shown: dict[str, str | None] = {}
    waiting = [(each, None) for each in lab.document(lab.position(siege.root), "/v1/tree")["roots"]]
    for node, leader in waiting:
        if node["standing"] not in ("missing", "gone"):
            shown[node["address"]] = leader
        waiting += [(each, node["address"]) for each in node["subordinates"]]
    honest = [lab.address(position) for position in siege.honest]
    return [each for each in honest if each not in siege.below and shown.get(each, "") != leaders.get(each)]


def names_of(siege: Siege) -> dict[str, str]:
    """The addresses that the words of a lie name, as they are now. `later` and `other` stand in other branches."""
    lab, cluster = siege.lab, siege.lab.look()
    leader = cluster.nodes[siege.liar].leader or siege.root
    strangers = siege.root, leader, siege.liar, *siege.below
    beside = [address for address in map(lab.address, siege.honest) if address not in strangers]
    return {
        "liar": siege.liar,
        "root": siege.root,
        "leader": leader,
        "lowest": siege.lowest,
        "former": siege.former,
        "later": beside[-1],
        "other": next((address for address in beside if cluster.nodes[address].leader == siege.root), beside[0]),
        "executed": str(lab.directory.path / f"{EXECUTED}-{siege.liar}"),  # an order may still wait for its turn
        "subordinate": min(cluster.subordinates().get(siege.liar, ()), key=ip_address, default=siege.liar),
    }


def seen(siege: Siege, address: str) -> tuple[Counter[str], dict[str, float]]:
    """By word, what honest nodes have dropped and refused so far, and how many of them show a refused order; and the
    lines of `subord errors` that name the address, with how long ago each was noted last."""
    lab = siege.lab
    words: Counter[str] = Counter()
    for position in siege.honest:
        counted = lab.document(position, "/v1/counters")
        words.update(counted["dropped_by_reason"])
        words.update({f"refused: {word}": times for word, times in counted["orders_refused_by_reason"].items()})
    told = lab.document(lab.position(siege.root), f"/v1/errors?budget={BUDGET_S:g}", ERRORS_S)
    lines = {"silent": 0.0} if address in told["silent"] else {}
    for each in told["problems"]:
        if address in each["addresses"] or f" {address}," in each["text"]:
            lines[each["text"]] = each["ago_s"] or 0.0
        if each["kind"] == "order":
            begins = {word: text[:SENTENCE_BEGIN] for word, text in SENTENCES.items()}
            words.update({word: each["nodes"] for word, begin in begins.items() if begin in each["text"]})
    return words, lines


# -- what came of it ----------------------------------------------------------------------------------------------


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words; nothing when the cluster withstood."""
    found = faults_of_turns(record, "lie", faults_of_turn)
    whole = {
        f"other roots: {', '.join(record['other_roots'])}": record["other_roots"],
        f"daemons that ended: {', '.join(record['others_ended'])}": record["others_ended"],
        "the tree was not whole after the siege": not record["whole"],
    }
    return found + [words for words, holds in whole.items() if holds]


def faults_of_turn(turn: Record) -> list[str]:
    """Of one record of `turn`."""
    found = faults_of_lie(_lie_of(turn), turn["refused"], turn["named"])
    found += [f"{address} moved: {'; '.join(places)}" for address, places in turn["others_places"].items()]
    found += [f"{address} is shown elsewhere" for address in turn["misplaced"]]
    found += [f"executed: {words}" for words in turn["executed"]]
    return found + ([] if turn["back"] else ["the liar has no place any more"])


def faults_of_lie(lie: Lie, refused: Mapping[str, int], named: list[str]) -> list[str]:
    bad = {
        f"was not refused as {' or '.join(lie.refused)}": lie.refused and not any(map(refused.get, lie.refused)),
        "was not named": lie.named and not is_named(lie, named),
    }
    return [words for words, holds in bad.items() if holds]


def _lie_of(turn: Record) -> Lie:
    return next(lie for lie in LIES if lie.name == turn["lie"])


def is_named(lie: Lie, lines: list[str]) -> bool:
    return any(words in line for words in lie.named or () for line in lines)


def is_whole(record: Record) -> bool:
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: what came of each lie, and what went wrong."""
    head = ["lie", "refused or dropped", "named", "moves: liar", "below it", "others"]
    return table_of_turns(records, faults_of, title=_title, head=head, row=_row, left=3)


def _title(record: Record) -> str:
    about = f"the liar is {record['liar']} ({record['place']}, {record['below']} nodes below it)"
    return f"{record['nodes']} nodes, run {record['repeat'] + 1}: {about}"


def _row(turn: Record) -> list[str]:
    lie = _lie_of(turn)
    refused = Counter({word: turn["refused"].get(word, 0) for word in lie.refused}).most_common(SHOWN_MAX)
    moves = turn["liar_moved"], turn["below_moved"], sum(turn["others_moved"].values())
    dropped = ", ".join(f"{word} {count}" for word, count in refused if count) or "-"
    named = turn["host"] if is_named(lie, turn["named"]) else "no"
    return [turn["lie"], dropped, named if lie.named else "-", *map(str, moves)]
