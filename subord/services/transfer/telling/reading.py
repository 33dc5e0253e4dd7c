"""What the asking node makes of the answers of nodes about transfer queues.

Inputs are the answers and the plan that the asking node holds; output is a TransferDocument. Invariants: what cannot
be read is passed over; only the transfer host, as the plan names it, tells what is seen; each node that has answered
stands in one state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.runtime.transfer import state
from subord.runtime.transfer.state import JobState, State
from subord.services.answers import (
    Followed,
    Heard,
    age_of,
    heard,
    named,
    sentence_of,
    states_of,
    time_of,
    united_by,
)
from subord.services.serving import of_coverage
from subord.services.transfer.plan import Plan
from subord.services.transfer.telling.documents import (
    BatchDocument,
    FilesDocument,
    HostDocument,
    JobDocument,
    LinkDocument,
    TransferDocument,
)
from subord.services.transfer.telling.published import published
from subord.services.transfer.telling.words import Told, decode_told


def document(answered: Answered) -> CoverageDocument:
    """The document of all answers."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_told)
    host = _host_in(plan, answers)
    return of_coverage(
        TransferDocument,
        answered,
        plan=shown,
        host=None if host is None or plan is None else _host(node, plan, host),
        states=states_of(node, answers, _followed(plan, shown.version), state.SENTENCES, state.WORDS),
        batches=tuple(_batches(node, answers)),
        jobs=() if host is None else tuple(_job(each, host.now) for each in host.jobs),
        left_out=0 if host is None else host.seen.left_out,
        unread=unread,
    )


# -- states ---------------------------------------------------------------------------------------------------------


def _followed(plan: Plan | None, version: int) -> Followed[Told]:
    def wanted(_: Told, is_acting: bool) -> str:
        if plan is None:
            return state.NONE
        if plan.is_off:
            return state.OFF
        return state.TRANSFERS if is_acting else state.OTHER_NODE

    return Followed(version, None if plan is None else plan.host, wanted)


def _batches(node: NodeApi, answers: list[Heard[Told]]) -> Iterator[BatchDocument]:
    groups = united_by((each.batch, told) for each, told in answers if each.batch)
    for batch, told in sorted(groups.items()):
        yield BatchDocument(batch=batch, nodes=len(told), addresses=named(node, told))


# -- the transfer host ----------------------------------------------------------------------------------------------


class _Host(NamedTuple):
    told: Told
    seen: State
    now: float
    jobs: tuple[JobState, ...]


def _host_in(plan: Plan | None, answers: list[Heard[Told]]) -> _Host | None:
    if plan is None or plan.is_off:
        return None
    said = next((each.told for each in answers if plan.host in each.nodes), None)
    return None if said is None or said.host is None else _Host(said, said.host, said.now, said.jobs)


def _host(node: NodeApi, plan: Plan, host: _Host) -> HostDocument:
    told, seen, now = host.told, host.seen, host.now
    return HostDocument(
        address=node.settings.network.address_text_of(plan.host),
        state=told.word,
        text=sentence_of(told.word, state.SENTENCES),
        detail=told.detail,
        version=told.version,
        batch=told.batch,
        cluster=seen.cluster,
        peer=seen.peer,
        poll=time_of(seen.at),
        poll_age_s=age_of(seen.at, now),
        fault=seen.fault,
        sensor_fault=seen.sensor_fault,
        unit_fault=seen.unit_fault,
        link=_link(seen, now),
        peer_pending=seen.peer_pending,
        offer=seen.offer,
        pending=seen.pending,
        room=seen.room,
        slots_max=seen.slots_max,
        idle_pending_max=seen.idle_max,
        permits_given=seen.permits_given,
        permits_held=seen.permits_held,
        starters=seen.starters,
        leaving=seen.leaving,
        coming=seen.coming,
        left=seen.left,
        taken=seen.taken,
        full=seen.full,
        forged=seen.forged,
        looks=seen.looks,
        calls_failed=seen.calls_failed,
        files=_files(seen, now),
    )


def _files(seen: State, now: float) -> FilesDocument:
    waiting, spool = seen.waiting, seen.spool
    return FilesDocument(
        jobs_waiting=waiting.get("jobs", 0),
        files_waiting=waiting.get("files", 0),
        bytes_waiting=waiting.get("bytes", 0),
        results_waiting=waiting.get("results", 0),
        spool_bytes=spool.get("bytes"),
        spool_free_bytes=spool.get("free"),
        directories=seen.directories,
        sent=seen.files.get("sent", 0),
        received=seen.files.get("received", 0),
        failures=seen.file_failures,
        fault=seen.file_fault,
        fault_s=age_of(seen.file_fault_at, now),
    )


def _link(seen: State, now: float) -> LinkDocument:
    return LinkDocument(
        up=seen.is_up,
        fault=seen.link_fault,
        listening_fault=seen.listening_fault,
        key_fault=seen.key_fault,
        answered_s=age_of(seen.heard_at, now),
        asked_s=age_of(seen.asked_at, now),
        messages=seen.messages,
        bytes=seen.bytes,
        refusals=seen.refusals,
        failures=seen.failures,
        refused_last=seen.refused_last,
        refused_s=age_of(seen.refused_at, now),
    )


def _job(each: JobState, now: float) -> JobDocument:
    return JobDocument(
        way=each.way,
        job=each.job,
        task=each.task,
        user=each.user,
        state=each.state,
        id=each.id,
        being=each.being,
        wanted=each.wanted,
        since=time_of(each.since),
        since_s=age_of(each.since, now),
        reason=each.reason,
        end=each.end,
        host=each.host,
        wall_s=each.wall_s,
        cpu_s=each.cpu_s,
        memory_bytes=each.memory_bytes,
        over=each.is_over,
    )
