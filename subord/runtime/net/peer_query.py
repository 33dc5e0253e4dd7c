"""What one node may ask of another over a stream, and what comes of it when that fails.

Intuition: a counter in an office that grows. Who asks for something new at an old branch is told what that branch is,
not merely sent away.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeGuard, get_args

import msgspec

from subord import __version__
from subord.wire.codec import UNREADABLE

Topic = Literal["roster", "why", "status", "keys", "rotate", "members", "changes", "problems"]
TOPICS: Final[frozenset[str]] = frozenset(get_args(Topic))
TOPICS_OF_0_1: Final = frozenset(("roster", "why", "status", "keys", "rotate"))
"""Of the release 0.1, which hangs up when it is asked for anything else."""
BROKE_OFF: Final = "broke off its answer"
RUNS: Final = "runs subord "
"""How the reasons begin of one that died, or was asked for what it does not know; of one that said the latter."""
Words = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=32)], ...], msgspec.Meta(max_length=4)]
Budget = Annotated[float, msgspec.Meta(ge=0, le=60)]


class Question(msgspec.Struct, frozen=True):
    """`words` belong to the topic; who passes it on has `budget_s` for that. 0: it is answered at once."""

    topic: Topic
    words: Words = ()
    budget_s: Budget = 0.0


class AskFailure(msgspec.Struct, frozen=True):
    """Another node gave no usable answer. `reason` goes after its address: "does not answer"."""

    reason: str


class UnknownTopic(msgspec.Struct, frozen=True):
    """The answer of a daemon that does not know what it is asked for, in the place of the document."""

    unknown_topic: Annotated[str, msgspec.Meta(max_length=32)]
    version: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9A-Za-z.+-]+\Z")]


_UNKNOWN_BEGINS: Final = b'{"unknown_topic":'


def is_topic(text: str) -> TypeGuard[Topic]:
    """Whether we know it; a newer daemon may ask for more."""
    return text in TOPICS


def unknown_topic(topic: str) -> bytes:
    """What we answer then."""
    return msgspec.json.encode(UnknownTopic(topic, __version__))


def understood(question: Question, answer: bytes | None) -> bytes | AskFailure:
    """The document, or why there is none. `answer` None: it was broken off."""
    if answer is None:
        older = question.topic not in TOPICS_OF_0_1
        return AskFailure(f"{BROKE_OFF}{f': subord 0.1 does not know {question.topic}' if older else ''}")
    if answer.startswith(_UNKNOWN_BEGINS):
        try:
            told = msgspec.json.decode(answer, type=UnknownTopic)
        except UNREADABLE:
            return AskFailure(BROKE_OFF)
        return AskFailure(f"{RUNS}{told.version}, which does not know {question.topic}")
    return answer
