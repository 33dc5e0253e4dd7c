"""What the asking node makes of the answers of nodes about machines.

Inputs are the answers and the plan that the asking node holds; outputs are documents. Invariants: what cannot be read
is passed over, and counted; only the queue's node, as the plan names it, tells what is seen and decided; each node
that has answered stands in one state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.runtime.machines import state
from subord.services.answers import (
    Followed,
    Heard,
    age_of,
    heard,
    named,
    states_of,
    time_of,
    united_by,
)
from subord.services.machines.plan import Plan
from subord.services.machines.telling import rows
from subord.services.machines.telling.documents import (
    ListDocument,
    MachinesDocument,
    QueueDocument,
    RoundDocument,
    ServerDocument,
    WaitingDocument,
    WhyDocument,
)
from subord.services.machines.telling.published import published
from subord.services.machines.telling.words import (
    Told,
    ToldJob,
    ToldServer,
    decode_job,
    decode_server,
    decode_told,
)
from subord.services.serving import of_coverage

Answer = TypeVar("Answer", Told, ToldServer)


def document(answered: Answered) -> CoverageDocument:
    """How all nodes take part, and what the queue's node decides."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_told)
    return of_coverage(
        MachinesDocument,
        answered,
        plan=shown,
        round=_round(node, plan, answers),
        states=states_of(node, answers, _followed(plan, shown.version), state.SENTENCES, state.WORDS),
        queues=tuple(_queues(node, answers)),
        servers=sum(len(each.nodes) for each in answers if each.told.is_server),
        unread=unread,
    )


def _round(node: NodeApi, plan: Plan | None, answers: list[Heard[Told]]) -> RoundDocument | None:
    if plan is None or plan.is_off:
        return None
    said = next((each.told for each in answers if plan.manager in each.nodes), None)
    if said is None or said.managing is None:
        return None
    address = node.settings.network.address_text_of(plan.manager)
    return rows.round_of(said.managing, said.now, address)


# -- states ---------------------------------------------------------------------------------------------------------


def _followed(plan: Plan | None, version: int) -> Followed[Answer]:
    def wanted(said: Answer, is_acting: bool) -> str:
        if plan is None:
            return state.NONE
        if plan.is_off:
            return state.OFF
        if is_acting:
            return state.MANAGES
        return state.SERVES if said.is_server else state.OTHER_NODE

    return Followed(version, None if plan is None else plan.manager, wanted)


def _queues(node: NodeApi, answers: list[Heard[Told]]) -> Iterator[QueueDocument]:
    groups = united_by((each.batch, told) for each, told in answers if each.batch)
    for batch, told in sorted(groups.items()):
        yield QueueDocument(batch=batch, nodes=len(told), addresses=named(node, told))


# -- servers --------------------------------------------------------------------------------------------------------


def list_of(answered: Answered) -> ListDocument:
    """What nodes tell that were asked for what is on them."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_server)
    silent = [each for each in answers if each.told.is_server and each.told.server is None]
    return of_coverage(
        ListDocument,
        answered,
        plan=shown,
        servers=tuple(_servers(node, answers)),
        silent=states_of(node, silent, _followed(plan, shown.version), state.SENTENCES, state.WORDS),
        others=sum(len(each.nodes) for each in answers if not each.told.is_server and each.told.server is None),
        unread=unread,
    )


def _servers(node: NodeApi, answers: list[Heard[ToldServer]]) -> Iterator[ServerDocument]:
    """In the order of their addresses. Of nodes that say the same each has machines of its own."""
    network = node.settings.network
    found = [(position, each.told) for each in answers for position in each.nodes]
    for position, told in sorted(found, key=lambda pair: pair[0]):
        if told.server is not None:
            yield rows.server(told, told.server, network.address_text_of(position))


# -- a job ----------------------------------------------------------------------------------------------------------


def why_of(answered: Answered, job: str) -> WhyDocument:
    """Why a job waits, as the queue's node tells it."""
    plan, shown = published(answered.node)
    answers, unread = heard(answered, decode_job)
    manager = 0 if plan is None or plan.is_off else plan.manager
    said = next((each.told for each in answers if manager in each.nodes), ToldJob(word=""))
    return of_coverage(
        WhyDocument,
        answered,
        plan=shown,
        job=job,
        known=said.is_managing,
        queues_read=said.is_managing and not said.is_unread,
        seen=time_of(said.at),
        seen_s=age_of(said.at, said.now),
        hindrance=said.hindrance,
        fault=said.fault,
        waiting=said.waiting,
        left_out=said.left_out,
        jobs=tuple(
            WaitingDocument(
                job=each.job.id,
                place=each.number,
                queue=each.job.queue,
                type=each.job.type,
                slots=each.job.slots,
                tasks=each.job.tasks,
                why=each.job.why,
            )
            for each in said.places
        ),
        actions=rows.actions(said.actions, said.now),
        unread=unread,
    )
