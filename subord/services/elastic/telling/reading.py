"""What the asking node makes of the answers of nodes about elastic growth.

Inputs are the answers and the plan that the asking node holds; output is an ElasticDocument. Invariants: what cannot
be read is passed over; only the queue's node, as the plan names it, tells what is seen and decided; each node that
has answered stands in one state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.runtime.elastic import state
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
from subord.services.elastic.options import HOUR_MIN
from subord.services.elastic.plan import Plan
from subord.services.elastic.telling.documents import (
    ElasticDocument,
    GrowthDocument,
    NodeDocument,
    QueueDocument,
)
from subord.services.elastic.telling.published import published
from subord.services.elastic.telling.words import Managing, Told, ToldNode, decode_told
from subord.services.serving import of_coverage

MINUTE_S: Final = 60.0


def document(answered: Answered) -> CoverageDocument:
    """The document of all answers."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_told)
    return of_coverage(
        ElasticDocument,
        answered,
        plan=shown,
        growth=_growth(node, plan, answers),
        states=states_of(node, answers, _followed(plan, shown.version), state.SENTENCES, state.WORDS),
        queues=tuple(_queues(node, answers)),
        unread=unread,
    )


# -- states ---------------------------------------------------------------------------------------------------------


def _followed(plan: Plan | None, version: int) -> Followed[Told]:
    def wanted(_: Told, is_acting: bool) -> str:
        if plan is None:
            return state.NONE
        if plan.is_off:
            return state.OFF
        return state.MANAGES if is_acting else state.OTHER_NODE

    return Followed(version, None if plan is None else plan.manager, wanted)


def _queues(node: NodeApi, answers: list[Heard[Told]]) -> Iterator[QueueDocument]:
    groups = united_by(((each.batch, each.kinds), told) for each, told in answers if each.batch)
    for (batch, kinds), told in sorted(groups.items()):
        yield QueueDocument(batch=batch, kinds=kinds, nodes=len(told), addresses=named(node, told))


# -- the queue's node -----------------------------------------------------------------------------------------------


def _growth(node: NodeApi, plan: Plan | None, answers: list[Heard[Told]]) -> GrowthDocument | None:
    if plan is None or plan.is_off:
        return None
    said = next((each.told for each in answers if plan.manager in each.nodes), None)
    if said is None or said.managing is None:
        return None
    found, now = said.managing, said.managing.now
    return GrowthDocument(
        address=node.settings.network.address_text_of(plan.manager),
        state=said.word,
        text=sentence_of(said.word, state.SENTENCES),
        detail=said.detail,
        version=said.version,
        batch=said.batch,
        queue=found.queue,
        master=found.master,
        trial=found.is_trial,
        poll=time_of(found.at),
        poll_age_s=age_of(found.at, now),
        next_poll_s=max(0.0, found.next_at - now) if found.next_at else None,
        fault=found.fault,
        why=found.why,
        why_left_out=found.why_left_out,
        needed=found.needed,
        queued=found.queued,
        running=found.running,
        slots=found.slots,
        free=found.free,
        oldest_s=found.oldest_s,
        size=found.size,
        min_nodes=found.min_nodes,
        max_nodes=found.max_nodes,
        changed=time_of(found.changed_at),
        blocked_s=age_of(found.blocked_since, now),
        added=found.added,
        removed=found.removed,
        undone=found.undone,
        nodes=tuple(_node(each, found) for each in found.nodes),
        left_out=found.left_out,
    )


def _node(said: ToldNode, found: Managing) -> NodeDocument:
    paid_s = age_of(said.paid_since, found.now)
    return NodeDocument(
        name=said.name,
        address=said.address,
        master=said.is_master,
        stage=said.stage,
        since=time_of(said.since),
        since_s=age_of(said.since, found.now),
        tries=said.tries,
        fault=said.fault,
        slots=said.slots,
        used=said.used,
        jobs=said.jobs,
        kind=said.kind,
        paid_since=time_of(said.paid_since),
        minute=None if paid_s is None else int(paid_s / MINUTE_S % HOUR_MIN),
        idle_since=time_of(said.idle_since),
        idle_s=age_of(said.idle_since, found.now),
    )
