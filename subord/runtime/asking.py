"""What one node may ask of another over a stream, and what comes of it when that fails."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Topic = Literal["roster", "why", "status", "keys", "rotate"]
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
