"""What a node is asked in the payload of an order of `metrics`: one kind of question for each tag.

Input is the payload of another node; output is the answer of the module that knows the question. Invariant: a payload
that this release cannot read is answered with NOT_READ, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.decoding import UNREADABLE
from subord.services.metrics import classes

NOT_READ: Final = msgspec.msgpack.encode("question not read")
ANSWERS: Final[Mapping[type, Callable[[NodeApi, Any], bytes]]] = {classes.ClassQuestion: classes.answer}
"""By the type of the question."""
_decoder: Final = msgspec.msgpack.Decoder(classes.ClassQuestion)


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The answer of this node to a payload."""
    await trio.lowlevel.checkpoint()
    try:
        question = _decoder.decode(payload)
    except UNREADABLE:
        return NOT_READ
    return ANSWERS[type(question)](node, question)
