"""The document of the page about elastic growth, field by field."""

from __future__ import annotations

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Count, Sentence


class StageDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes in one stage other than serving. `longest_s`: how long one of them has been there. `fault`: of the node
    whose work has failed most often; null: none has."""

    stage: str
    nodes: Count
    longest_s: Count
    fault: Sentence | None


class FiguresDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last poll that succeeded, `age_s` ago. `size`: nodes that are there, or paid for soon. `needed`: nodes
    that the queue needs. `blocked_s`: how long nodes have been wanted and none could be added; null: that is not
    so."""

    age_s: Count
    size: Count
    min_nodes: Count
    max_nodes: Count
    needed: Count
    queued: Count
    running: Count
    blocked_s: Count | None


class ElasticPastDocument(CoverageDocument, frozen=True, kw_only=True):
    """The node that has the queue, as it has answered; the coverage says whether it has. `version` null: no plan was
    published, and no node was asked; `off`: nor then. `address`: the queue's node. `state`: how it takes part, a
    word, `text`: the same as a sentence, `detail`: why; null: it has not answered. `figures` null: no poll has
    succeeded. `fault`: of the last poll; null: it succeeded. `why`: of the last decision. `trial`: nothing is done.
    Curves: `ages_s` of the polls, the oldest first, with `num_hosts`, `running`, and the most jobs `queued` since the
    one before."""

    version: Count | None
    off: bool
    address: Address | None = None
    state: str | None = None
    text: Sentence | None = None
    detail: Sentence | None = None
    trial: bool = False
    figures: FiguresDocument | None = None
    fault: Sentence | None = None
    why: tuple[Sentence, ...] = ()
    stages: tuple[StageDocument, ...] = ()
    ages_s: tuple[Count, ...] = ()
    num_hosts: tuple[Count, ...] = ()
    running: tuple[Count, ...] = ()
    queued: tuple[Count, ...] = ()
