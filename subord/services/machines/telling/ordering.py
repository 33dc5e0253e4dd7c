"""What the asking node makes of signed orders, and of the question which nodes are servers.

Input is the answer of the engine; outputs are documents. Invariant: what cannot be read is counted and passed over.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from subord.api.models import nodes
from subord.api.models.coverage import CoverageDocument
from subord.api.query.orders import Answered
from subord.core.carriage.engine.ranges import Ranges
from subord.services.answers import heard
from subord.services.machines.task import Results, decode_said
from subord.services.machines.telling.documents import OrderedDocument, ResultDocument, WhereDocument
from subord.services.machines.telling.words import decode_told
from subord.services.serving import of_coverage


def ordered(answered: Answered) -> CoverageDocument:
    """Of a signed order: of the queue's node to servers, or of an operator, to drain some."""
    results = tuple(_results(answered))
    unread = answered.answer.told - sum(each.nodes for each in results)
    return of_coverage(OrderedDocument, answered, results=results, unread=unread)


def where(answered: Answered) -> WhereDocument:
    """By the configuration of their daemons, so also where there is no agent."""
    told, _ = heard(answered, decode_told)
    servers = Ranges.of_pairs(pair for each in told if each.told.is_server for pair in each.nodes.pairs)
    silent = Ranges.of_pairs(pair for _, positions in answered.answer.missing for pair in positions.pairs)
    return of_coverage(WhereDocument, answered, servers=str(servers), silent=str(silent))


def _results(answered: Answered) -> Iterator[ResultDocument]:
    for result, told in answered.answer.groups:
        found = decode_said(result)
        if found is not None:
            plain = found if isinstance(found, Results) else Results()
            yield ResultDocument(
                fault=plain.fault,
                changed=plain.is_changed,
                nodes=len(told),
                addresses=nodes.addresses(answered.node.settings, told),
                said=b64encode(result).decode("ascii"),
            )
