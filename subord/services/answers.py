"""What nodes have answered to an order that reads, for the document of its issuer.

Input is the answer in groups of equal results; output is what each group says, and how many nodes could not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from subord.api.models import nodes
from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX, Answered
from subord.core.carriage.engine.ranges import Ranges
from subord.services.decoding import Reader

Told = TypeVar("Told")


class Heard(NamedTuple, Generic[Told]):
    """An answer, and the nodes that have given it."""

    told: Told
    nodes: Ranges


def heard(answered: Answered, read: Reader[Told]) -> tuple[list[Heard[Told]], int]:
    """The answers that `read` understands, and the number of nodes with others: they are of another release."""
    decoded = ((read(result), nodes) for result, nodes in answered.answer.groups)
    found = [Heard(told, nodes) for told, nodes in decoded if told is not None]
    return found, answered.answer.told - sum(len(each.nodes) for each in found)


def united(several: Sequence[Ranges]) -> Ranges:
    """All nodes of several groups."""
    return Ranges.of_pairs([pair for each in several for pair in each.pairs])


def named(node: NodeApi, told: Ranges) -> tuple[str, ...]:
    """The addresses of the first ones."""
    return nodes.addresses(node.settings, islice(told, NAMED_MAX))


def time_of(seconds: float | None) -> str | None:
    """None: that has not happened."""
    return time_text(seconds) if seconds else None


def age_of(seconds: float | None, now: float) -> float | None:
    """None: that has not happened."""
    return round(max(0.0, now - seconds), 3) if seconds else None
