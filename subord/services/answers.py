"""What nodes have answered to an order that reads, for the document of its issuer.

Input is the answer in groups of equal results; outputs are what each group says, how many nodes could not be read,
and states: nodes that follow a plan in the same way. Invariant: a state of a later release is shown, and comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from subord.api.models import nodes
from subord.api.models.document import Addresses, Count, Sentence, time_text
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX, Answered
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.view import Position
from subord.services.decoding import Reader

Told = TypeVar("Told")
Key = TypeVar("Key", bound=Hashable)
Telling = TypeVar("Telling", bound="Saying")


class Heard(NamedTuple, Generic[Told]):
    """An answer, and the nodes that have given it."""

    told: Told
    nodes: Ranges


def heard(answered: Answered, read: Reader[Told]) -> tuple[list[Heard[Told]], int]:
    """The answers that `read` understands, and the number of nodes with others: they are of another release."""
    decoded = ((read(result), nodes) for result, nodes in answered.answer.groups)
    found = [Heard(told, nodes) for told, nodes in decoded if told is not None]
    return found, answered.answer.told - sum(len(each.nodes) for each in found)


def _with_acting(answers: Iterable[Heard[Told]], acting: Position | None) -> Iterator[tuple[Told, Ranges, bool]]:
    """The answers, each with its nodes, and whether these are the one that acts for a plan. It stands apart, also
    from nodes that say the same. None: no node acts."""
    own = NONE if acting is None else Ranges.of((acting,))
    for told, several in answers:
        for part, is_acting in ((several & own, True), (several - own, False)):
            if part:
                yield told, part, is_acting


def united(several: Sequence[Ranges]) -> Ranges:
    """All nodes of several groups."""
    return Ranges.of_pairs([pair for each in several for pair in each.pairs])


def united_by(pairs: Iterable[tuple[Key, Ranges]]) -> dict[Key, Ranges]:
    """All nodes of the groups with the same key, in the order of their first ones."""
    groups = defaultdict[Key, list[Ranges]](list)
    for key, told in pairs:
        groups[key].append(told)
    return {key: united(several) for key, several in groups.items()}


def named(node: NodeApi, told: Ranges) -> tuple[str, ...]:
    """The addresses of the first ones."""
    return nodes.addresses(node.settings, islice(told, NAMED_MAX))


def time_of(seconds: float | None) -> str | None:
    """None: that has not happened."""
    return time_text(seconds) if seconds else None


def age_of(seconds: float | None, now: float) -> float | None:
    """None: that has not happened."""
    return round(max(0.0, now - seconds), 3) if seconds else None


# -- states ---------------------------------------------------------------------------------------------------------


class StateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that take part in the same way. `state`: a word, `text`: the same as a sentence, `detail`: why.
    `follows`: as the plan of the asked node says."""

    state: str
    text: Sentence
    detail: Sentence
    version: Count
    follows: bool
    nodes: Count
    addresses: Addresses


class Said(NamedTuple):
    """How a node takes part. `version`: of the plan that it has."""

    word: str
    detail: str
    version: int


class Saying(Protocol):
    """What a node tells of its state, as in Said."""

    @property
    def word(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def version(self) -> int: ...


class Followed(NamedTuple, Generic[Telling]):
    """A plan of a service. `acting`: the node that acts for it, None: no node does. `wanted`: which word a node says
    that follows it, by what the node tells, and whether it is the acting one."""

    version: int
    acting: Position | None
    wanted: Callable[[Telling, bool], str]


def states_of(
    node: NodeApi,
    answers: Iterable[Heard[Telling]],
    plan: Followed[Telling],
    sentences: Mapping[str, str],
    words: Sequence[str],
) -> tuple[StateDocument, ...]:
    """Those that need an operator first. `words`: of the service, in this order."""
    groups = united_by(
        ((Said(each.word, each.detail, each.version), each.word == plan.wanted(each, is_acting)), told)
        for each, told, is_acting in _with_acting(answers, plan.acting)
    )
    found = [
        _state_of(node, said, told, sentences, follows=is_wanted and said.version == plan.version)
        for (said, is_wanted), told in groups.items()
    ]
    return _by_urgency(found, words)


def _state_of(
    node: NodeApi, said: Said, told: Ranges, sentences: Mapping[str, str], *, follows: bool
) -> StateDocument:
    """`told`: the nodes that have said so."""
    return StateDocument(
        state=said.word,
        text=sentence_of(said.word, sentences),
        detail=said.detail,
        version=said.version,
        follows=follows,
        nodes=len(told),
        addresses=named(node, told),
    )


def sentence_of(word: str, sentences: Mapping[str, str]) -> str:
    """Of a state, also of a later release."""
    return sentences.get(word, f"the node says: {word}")


def _by_urgency(found: Iterable[StateDocument], words: Sequence[str]) -> tuple[StateDocument, ...]:
    """Those that need an operator first. `words`: of the service, in this order."""

    def urgency(each: StateDocument) -> tuple[object, ...]:
        return (each.follows, place_of(each.state, words), -each.nodes, each.detail, each.version)

    return tuple(sorted(found, key=urgency))


def place_of(word: str, words: Sequence[str]) -> int:
    """Among words in the order of their urgency, from 0; -1: it is of a later release."""
    return words.index(word) if word in words else -1
