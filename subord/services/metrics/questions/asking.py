"""The root and its subordinates are asked by two orders: first the root, which says what stands below it.

Inputs are a question and a budget of time; output is what each has answered, or why it has not. Invariant: no more
than these nodes are asked, however large the cluster is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic

import trio

from subord.api.models import nodes
from subord.api.models.coverage import Coverage, MissingDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered, asked
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.coverage import SENTENCES, UNREADABLE
from subord.core.view import Position
from subord.services.folds import root_of
from subord.services.metrics.questions.words import SERVICE, Ask, SaidKind, decode_said, encode

ROOT_SHARE: Final = 0.5
"""Of the time, when others are asked after the root."""


@dataclass(frozen=True)
class Heard(Generic[SaidKind]):
    """`root`: the answer to the first order; `said`: what it says; None: nothing that can be read. `below`: the same
    of each subordinate, by position; `second`: the answer to their order."""

    root: Answered
    said: SaidKind | None
    below: Mapping[Position, SaidKind | None]
    second: Answered | None = None

    @property
    def answered(self) -> Iterator[Answered]:
        yield self.root
        if self.second is not None:
            yield self.second

    @property
    def root_position(self) -> Position:
        return next(iter(self.root.answer.targets))

    def cause_of(self, position: Position) -> str:
        """Why a node has told nothing."""
        for each in self.answered:
            for cause, positions in each.answer.missing:
                if position in positions:
                    return cause
        return UNREADABLE

    @property
    def coverage(self) -> Coverage:
        """Of the nodes that were asked. Those with answers that cannot be read have told nothing."""
        node, found = self.root.node, [each.coverage for each in self.answered]
        everyone = {self.root_position: self.said, **self.below}
        unread = [p for p, said in everyone.items() if said is None and self.cause_of(p) == UNREADABLE]
        missing = [each for coverage in found for each in coverage.missing]
        if unread:
            named = nodes.addresses(node.settings, unread)
            text = SENTENCES[UNREADABLE]
            missing.append(MissingDocument(cause=UNREADABLE, text=text, count=len(unread), addresses=named))
        return Coverage(
            asked=sum(each.asked for each in found),
            told=sum(each.told for each in found) - len(unread),
            complete=all(each.complete for each in found) and not unread,
            missing=tuple(missing),
            oldest_ms=sum(each.oldest_ms for each in found),
            note=next((each.note for each in found if each.note), None),
        )


async def heard(
    node: NodeApi, ask: Ask, kind: type[SaidKind], budget_s: float, *, with_below: bool
) -> Heard[SaidKind]:
    """What the root says, and with `with_below` its subordinates. Takes at most `budget_s`."""
    payload, began = encode(ask), trio.current_time()
    first_s = budget_s * ROOT_SHARE if with_below else budget_s
    root = await asked(node, SERVICE, first_s, payload=payload, targets=root_of(node))
    said = next(iter(_said(root, kind).values()), None)
    if said is None or not with_below:
        return Heard(root, said, {})
    below = Ranges.of(said.below) & Ranges(((1, node.settings.network.size),))
    if not below:
        return Heard(root, said, {})
    left_s = budget_s - (trio.current_time() - began)
    second = await asked(node, SERVICE, left_s, payload=payload, targets=below)
    told = _said(second, kind)
    return Heard(root, said, {each: told.get(each) for each in below}, second)


def _said(answered: Answered, kind: type[SaidKind]) -> dict[Position, SaidKind]:
    """By node. Those that say the same have one result."""
    found = dict[Position, SaidKind]()
    for result, positions in answered.answer.groups:
        said = decode_said(result, kind)
        if said is not None:
            found.update(dict.fromkeys(positions, said))
    return found
