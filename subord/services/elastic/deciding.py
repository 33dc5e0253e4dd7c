"""Whether a cluster grows or shrinks, from what one poll sees. Pure.

Inputs are the options, what the poll sees, and when nodes were last added or removed; output is how many nodes are
added, which are removed, and a reason for whatever is not done. Rules: "Criteria for Adding a Node", "Criteria for
Removing a Node" and "Experimental Features" of the text. Invariants: the cluster is never above max_nodes or below
min_nodes by a decision; no node with a job is removed; the master is removed only with kill_cluster, and last.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf
from typing import NamedTuple

from subord.services.elastic.options import HOUR_MIN, Options
from subord.services.elastic.seen import Kind, Node, Seen

MINUTE_S = 60.0


class Start(NamedTuple):
    """A node of this name is started. `kind`: with the slots that it will have."""

    name: str
    kind: Kind


class Decision(NamedTuple):
    """`terminate`: the whole cluster, of which only the master is left. `needed`: nodes that the queue needs, also
    those that are not added now. `why`: sentences without a full stop about what was done and what was not. `kind`:
    of those that are added. `is_full`: nodes are needed, and the cluster must have no more. `starts`: those of which
    the batch system has said the names."""

    add: int = 0
    remove: tuple[str, ...] = ()
    terminate: bool = False
    needed: int = 0
    why: tuple[str, ...] = ()
    kind: Kind = Kind()
    is_full: bool = False
    starts: tuple[Start, ...] = ()


def decide(options: Options, seen: Seen, changed_at: float = -inf) -> Decision:
    """`changed_at`: when nodes were last added or removed, by the same clock as `seen`."""
    stable_in_s = changed_at + options.stabilization_time_s - seen.now
    growth = _growth(options, seen, stable_in_s)
    if growth.add or growth.needed or seen.waiting:
        return growth
    shrinkage = _shrinkage(options, seen, stable_in_s)
    return shrinkage._replace(why=(*growth.why, *shrinkage.why))


# -- adding ---------------------------------------------------------------------------------------------------------


def _growth(options: Options, seen: Seen, stable_in_s: float) -> Decision:
    room = options.max_nodes - seen.paid
    if seen.size < options.min_nodes:
        needed = options.min_nodes - seen.size
        return _added(options, seen, needed, room, f"{seen.size} of at least {options.min_nodes} nodes are there")
    if not seen.waiting:
        return Decision(why=("no node is added: no job waits",))
    if not seen.total_slots and not seen.coming:
        return _added(options, seen, 1, room, "no slot of the queue can be used")
    needed = _needed(seen)
    if not needed:
        return Decision(why=(f"no node is added: {_slots(seen)}",))
    if hindrance := _hindrance(options, seen, room, stable_in_s):
        return Decision(needed=needed, why=(f"{not_added(needed)}: {hindrance}",), is_full=room <= 0)
    oldest = f"the oldest job has waited {seen.oldest_s:.0f} s"
    return _added(options, seen, needed, room, f"{oldest}, and {_slots(seen)}")


def _hindrance(options: Options, seen: Seen, room: int, stable_in_s: float) -> str:
    """Why no node is added for the queue just now; "": nothing hinders."""
    if room <= 0:
        return _full(options, seen)
    if seen.oldest_s <= options.job_wait_time_s:
        return f"the oldest job has waited {max(0.0, seen.oldest_s):.0f} of {options.job_wait_time_s} s"
    if options.lasts_s is not None and seen.duration_s and seen.lasts_s < options.lasts_s:
        return f"the queue will be empty in {seen.lasts_s:.0f} s, sooner than in {options.lasts_s} s"
    return _looked_at(stable_in_s) if stable_in_s > 0 else ""


def _needed(seen: Seen) -> int:
    """Nodes for the jobs that do not fit into what is free or coming. A job that fits on no single node, though there
    are enough slots in all, needs one."""
    lacking = seen.waiting_slots - seen.free_slots - seen.coming_slots
    if lacking > 0:
        return ceil(lacking / max(1, seen.next_kind.slots))
    return int(not seen.coming and not all(map(seen.fits, seen.waiting)))


def _added(options: Options, seen: Seen, needed: int, room: int, reason: str) -> Decision:
    count = max(0, min(needed, options.add_nodes_per_iter, room))
    why = [f"{_nodes(count)} added: {reason}"] if count else []
    left = needed - count
    if left and room <= 0:
        why.append(f"{not_added(left)}: {_full(options, seen)}")
    elif left and count == room:
        why.append(f"{not_added(left)}: the cluster has its {options.max_nodes} nodes then")
    elif left:
        why.append(f"{not_added(left)} in this poll: at most {options.add_nodes_per_iter} at once")
    kind = seen.next_kind if count else Kind()
    return Decision(add=count, needed=needed, why=tuple(why), kind=kind, is_full=room <= 0)


def _full(options: Options, seen: Seen) -> str:
    going = f", {seen.going} of which {_are(seen.going)} being removed" if seen.going else ""
    return f"the cluster has its {options.max_nodes} nodes{going}"


def _slots(seen: Seen) -> str:
    wanted = f"the jobs that wait need {seen.waiting_slots} slots"
    coming = f", {seen.coming_slots} are coming" if seen.coming else ""
    return f"{wanted}, {seen.free_slots} are free{coming}"


# -- removing -------------------------------------------------------------------------------------------------------


def _shrinkage(options: Options, seen: Seen, stable_in_s: float) -> Decision:
    if stable_in_s > 0:
        return Decision(why=(f"no node is removed: {_looked_at(stable_in_s)}",))
    if seen.coming:
        return Decision(why=("no node is removed: nodes are just being added",))
    workers = [node for node in seen.nodes if not node.is_master]
    if not workers and not seen.going and options.kill_cluster:
        return _end(options, seen)
    reasons, removed = [], list[str]()
    most = len(seen.nodes) - options.min_nodes
    most_usable = sum(node.is_usable for node in seen.nodes) - options.min_nodes
    for node in sorted(workers, key=lambda each: each.is_usable):  # those that are of no use go first
        reason = _stays(options, node, seen.now)
        if not reason and (most <= 0 or (node.is_usable and most_usable <= 0)):
            reason = f"the cluster has at least {options.min_nodes} nodes"
        if reason:
            reasons.append(f"{node.name} stays: {reason}")
        else:
            removed.append(node.name)
            most, most_usable = most - 1, most_usable - node.is_usable
    return Decision(remove=tuple(removed), why=(*_removed(removed), *reasons))


def _end(options: Options, seen: Seen) -> Decision:
    """Only masters are left."""
    reasons = [reason for node in seen.nodes if (reason := _stays(options, node, seen.now))]
    if reasons or not seen.nodes:
        return Decision(why=tuple(f"the cluster stays: {each}" for each in reasons))
    return Decision(terminate=True, why=("the cluster ends: no job waits or runs, and only the master is left",))


def _stays(options: Options, node: Node, now: float) -> str:
    """Why a node is not removed; "": it may go."""
    if not node.is_idle:
        return "a job runs there" if node.jobs <= 1 else f"{node.jobs} jobs run there"
    if node.is_wanted:
        return "Slurm has it started and ended"
    if node.up_since is None:
        return "it was not added by this cluster"
    if options.idle_min is not None:
        idle_min = 0.0 if node.idle_since is None else (now - node.idle_since) / MINUTE_S
        left = idle_min < options.idle_min
        return f"it is idle for {idle_min:.0f} of {options.idle_min} minutes" if left else ""
    minute = (now - node.up_since) / MINUTE_S % HOUR_MIN
    left = minute < options.kill_after_min
    return f"it is paid for, and in minute {minute:.0f} of {options.kill_after_min} of its hour" if left else ""


# -- words ----------------------------------------------------------------------------------------------------------


def _removed(names: list[str]) -> Iterator[str]:
    if names:
        yield f"{_nodes(len(names))} removed: no job waits, and {', '.join(names)} {_are(len(names))} idle"


def _looked_at(left_s: float) -> str:
    return f"nodes were added or removed, and the effect is looked at for another {left_s:.0f} s"


def _nodes(count: int) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'} {_are(count)}"


def not_added(count: int) -> str:
    """The beginning of a sentence."""
    return f"{_nodes(count)} not added"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
