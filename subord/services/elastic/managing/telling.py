"""What the manager tells: one State from records, what a poll saw, and what was decided. Pure.

Invariant: it is within the bounds of runtime/elastic/state.py; of many nodes those with a fault come first, then
those that are added or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from subord.runtime.elastic.state import NODES_MAX, TEXT_CHARS_MAX, UNKNOWN, WHY_MAX, NodeState, Poll, State
from subord.services.batch.records import Host, JobState, Queue, tasks_of
from subord.services.elastic.managing.advancing import Failing
from subord.services.elastic.managing.sighting import Sight
from subord.services.elastic.seen import Seen
from subord.services.elastic.stages import Record, Stage


class Table(NamedTuple):
    """`left_out`: of the nodes."""

    nodes: tuple[NodeState, ...]
    left_out: int


def table(
    records: Mapping[str, Record], hosts: Iterable[Host], seen: Seen | None, master: str, unknown: Iterable[NodeState]
) -> Table:
    """All nodes, as far as they fit. `hosts`: those that the last poll saw. `unknown`: those without a record."""
    by_name = {host.name: host for host in hosts if host.slots or host.name in records}
    idle = {node.name: node.idle_since for node in seen.nodes} if seen is not None else {}
    found = [
        _node(name, records.get(name), by_name.get(name), idle.get(name), master)
        for name in sorted({*records, *by_name})
    ]
    found += [each for each in unknown if each.name not in records]
    found.sort(key=lambda node: (not node.fault, node.stage in ("", Stage.SERVING)))
    return Table(tuple(found[:NODES_MAX]), max(0, len(found) - NODES_MAX))


def _node(name: str, record: Record | None, host: Host | None, idle_since: float | None, master: str) -> NodeState:
    slots, used, jobs = (host.slots, host.used, host.busy) if host is not None else (0, 0, 0)
    if record is None:
        return NodeState(
            name=cut(name), slots=slots, used=used, jobs=jobs, idle_since=idle_since, is_master=name == master
        )
    return NodeState(
        name=cut(name),
        address=cut(record.address),
        stage=record.stage,
        since=record.entered_at,
        tries=record.tries,
        fault=cut(record.fault),
        slots=slots or record.slots,
        used=used,
        jobs=jobs,
        paid_since=record.paid_since,
        idle_since=idle_since,
        kind=record.kind,
    )


def unknown_in(sight: Sight | None) -> list[NodeState]:
    """Nodes that the supplier lists, and that have neither a record nor a host."""
    if sight is None:
        return []
    listed = sight.listed or {}
    return [NodeState(name=cut(name), address=cut(listed.get(name, "")), stage=UNKNOWN) for name in sight.unknown]


def notes(sight: Sight, failing: Failing) -> Iterator[str]:
    """What a person should look at."""
    for name in sight.unknown:
        yield (
            f"{name} ({(sight.listed or {}).get(name, 'address not told')}) is paid for and unknown: the supplier "
            "lists it, and there is no record of it; end it by hand, or it counts as a node for ever"
        )
    if sight.unrecorded:
        first, more = sight.unrecorded[0], len(sight.unrecorded) - 1
        some = f"{first} and {more} more, without records, are hosts"
        hosts = some if more else f"{first}, without a record, is a host"
        yield (
            f"{hosts} of the queue that the supplier lists: no node without a record is removed; end by hand what "
            "you do not want to pay for"
        )
    if failing.rounds:
        yield f"the last node was not added: {failing.reason}"


def with_sight(state: State, seen: Seen | None, sight: Sight | None) -> State:
    """With what the last poll that succeeded saw; None: none has."""
    if seen is None or sight is None:
        return state
    return replace(
        state,
        queued=sum(each.tasks for each in seen.waiting),
        running=running_in(sight.queue, state.queue),
        slots=seen.total_slots,
        free=seen.free_slots,
        oldest_s=max(0.0, seen.oldest_s),
        size=seen.size,
    )


def poll_of(seen: Seen, queue: Queue, hosts: Iterable[Host], name: str, means: tuple[float, float]) -> Poll:
    """The statistics of one poll. `name`: of the queue that counts. `means`: of the durations and waits of jobs."""
    known = [host for host in hosts if host.slots]
    loads = [host.load for host in known if host.load is not None]
    return Poll(
        time=seen.now,
        num_hosts=len(known),
        running=running_in(queue, name),
        queued=sum(each.tasks for each in seen.waiting),
        slots=seen.total_slots,
        avg_duration=means[0],
        avg_wait=means[1],
        avg_load=sum(loads) / len(loads) if loads else 0.0,
    )


def running_in(queue: Queue, name: str) -> int:
    return tasks_of(job for job in queue.jobs if job.state == JobState.RUNNING and job.may_use(name))


def sentences(*groups: Iterable[str]) -> tuple[str, ...]:
    """As many as fit, and how many there are more."""
    found = [cut(each) for group in groups for each in group]
    if len(found) <= WHY_MAX:
        return tuple(found)
    return (*found[: WHY_MAX - 1], f"and {len(found) - WHY_MAX + 1} more reasons")


def cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 3]}..."
