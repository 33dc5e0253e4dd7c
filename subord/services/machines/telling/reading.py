"""What the asking node makes of the answers of nodes about machines.

Inputs are the answers and the plan that the asking node holds; outputs are documents. Invariants: what cannot be read
is passed over, and counted; only the queue's node, as the plan names it, tells what is seen and decided; each node
that has answered stands in one state.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.core.view import Position
from subord.runtime.machines import state
from subord.services.answers import (
    Heard,
    Said,
    StateDocument,
    age_of,
    by_urgency,
    heard,
    named,
    state_of,
    time_of,
    united_by,
    with_acting,
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


def document(answered: Answered) -> CoverageDocument:
    """How all nodes take part, and what the queue's node decides."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_told)
    return of_coverage(
        MachinesDocument,
        answered,
        plan=shown,
        round=_round(node, plan, answers),
        states=_states(node, plan, shown.version, answers),
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


def _states(node: NodeApi, plan: Plan | None, version: int, answers: list[Heard[Told]]) -> tuple[StateDocument, ...]:
    """Those that need an operator first."""
    groups = united_by(
        ((_said(each), _follows(each, plan, version, is_acting=is_acting)), told)
        for each, told, is_acting in with_acting(answers, _acting(plan))
    )
    found = [state_of(node, said, told, state.SENTENCES, follows=follows) for (said, follows), told in groups.items()]
    return by_urgency(found, state.WORDS)


def _said(told: Told | ToldServer) -> Said:
    return Said(told.word, told.detail, told.version)


def _acting(plan: Plan | None) -> Position | None:
    return None if plan is None else plan.manager


def _follows(said: Told | ToldServer, plan: Plan | None, version: int, *, is_acting: bool) -> bool:
    """Whether a node with this state does what a plan says."""
    if said.version != version:
        return False
    if plan is None:
        return said.word == state.NONE
    if plan.is_off:
        return said.word == state.OFF
    if is_acting:
        return said.word == state.MANAGES
    return said.word == (state.SERVES if said.is_server else state.OTHER_NODE)


def _queues(node: NodeApi, answers: list[Heard[Told]]) -> Iterator[QueueDocument]:
    groups = united_by((each.batch, told) for each, told in answers if each.batch)
    for batch, told in sorted(groups.items()):
        yield QueueDocument(batch=batch, nodes=len(told), addresses=named(node, told))


# -- servers --------------------------------------------------------------------------------------------------------


def list_of(answered: Answered) -> ListDocument:
    """What nodes tell that were asked for what is on them."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_server)
    silent = united_by(
        ((replace(each, now=0.0), is_acting), told)
        for each, told, is_acting in with_acting(answers, _acting(plan))
        if each.is_server and each.server is None
    )
    return of_coverage(
        ListDocument,
        answered,
        plan=shown,
        servers=tuple(_servers(node, answers)),
        silent=tuple(
            state_of(
                node,
                _said(said),
                told,
                state.SENTENCES,
                follows=_follows(said, plan, shown.version, is_acting=is_acting),
            )
            for (said, is_acting), told in silent.items()
        ),
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
