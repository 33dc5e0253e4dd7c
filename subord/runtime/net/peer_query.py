"""Questions that a node may ask another over a stream, and the reasons why one fails.

A daemon that does not know a topic answers with its version, so that the caller can report it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeGuard, get_args

import msgspec

from subord import __version__
from subord.core.decoding import UNREADABLE

Topic = Literal["roster", "why", "status", "keys", "rotate", "members", "changes", "problems"]
TOPICS: Final[frozenset[str]] = frozenset(get_args(Topic))
TOPICS_OF_0_1: Final = frozenset(("roster", "why", "status", "keys", "rotate"))
"""Topics of release 0.1, which closes the stream on any other."""
Words = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=32)], ...], msgspec.Meta(max_length=4)]
TimeBudget = Annotated[float, msgspec.Meta(ge=0, le=60)]


class Question(msgspec.Struct, frozen=True):
    """`words` are the arguments of the topic. A node may take `budget_s` to ask further nodes; 0: it asks none."""

    topic: Topic
    words: Words = ()
    budget_s: TimeBudget = 0.0


class AskFailure(msgspec.Struct, frozen=True):
    """Another node gave no usable answer. `reason` follows its address in a message: "does not answer".

    `kind`: no answer at all; the stream ended before it; the node does not know the topic; the answer is malformed.
    """

    reason: str
    kind: Literal["silent", "broken_off", "older", "unreadable"] = "silent"


class UnknownTopic(msgspec.Struct, frozen=True):
    """The answer of a daemon that does not know the topic, in place of the document."""

    unknown_topic: Annotated[str, msgspec.Meta(max_length=32)]
    version: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9A-Za-z.+-]+\Z")]


_UNKNOWN_BEGINS: Final = b'{"unknown_topic":'


def is_topic(text: str) -> TypeGuard[Topic]:
    """Whether this release knows the topic."""
    return text in TOPICS


def unknown_topic(topic: str) -> bytes:
    """The encoded answer to an unknown topic."""
    return msgspec.json.encode(UnknownTopic(topic, __version__))


def understood(question: Question, answer: bytes | None) -> bytes | AskFailure:
    """The document, or the reason why there is none. `answer` None: the stream ended before it."""
    if answer is None:
        older = "" if question.topic in TOPICS_OF_0_1 else f": subord 0.1 does not know {question.topic}"
        return AskFailure(f"broke off its answer{older}", "broken_off")
    if answer.startswith(_UNKNOWN_BEGINS):
        try:
            told = msgspec.json.decode(answer, type=UnknownTopic)
        except UNREADABLE:
            return AskFailure("broke off its answer", "broken_off")
        return AskFailure(f"runs subord {told.version}, which does not know {question.topic}", "older")
    return answer
