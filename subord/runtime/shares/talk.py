"""What the daemon and the agent of a node say to each other about shares, once the agent has the document.

The daemon sends Ask once in a round, and Give when the row of this node changes; the agent answers each Ask with
Said. The connection ends with the Done of a document (runtime/orders/agent.py). Numbers are thousandths of a ticket,
of which a node has 100; classes are in the order of the document. Invariant: what is decoded is within its bounds.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.shares.bounds import CLASSES_MAX, THOUSANDTHS
from subord.core.carriage.shares.interface import Branch
from subord.core.decoding import UNREADABLE
from subord.runtime.shares.state import DETAIL_CHARS_MAX, NOTES_MAX

_PERCENT: Final = 1_000
_Share = Annotated[int, msgspec.Meta(ge=0, le=THOUSANDTHS)]
_Row = Annotated[tuple[_Share, ...], msgspec.Meta(max_length=CLASSES_MAX)]
_Needy = Annotated[tuple[bool, ...], msgspec.Meta(max_length=CLASSES_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)]
_Notes = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=NOTES_MAX)]


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Say what each class was given and has used since the last Ask."""


class Give(msgspec.Struct, frozen=True, array_like=True, tag="give"):
    """From now on each class gets so much."""

    row: _Row


class Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """`allocation`, `usage`, `needy`: of each class since the last Said; empty: this is the first one, or `fault`
    says why the agent cannot measure or set. `notes`: what is odd but hinders nothing."""

    allocation: _Row = ()
    usage: _Row = ()
    needy: _Needy = ()
    fault: _Text = ""
    notes: _Notes = ()

    @property
    def branch(self) -> Branch | None:
        """The report of this node alone; None: there is nothing to report."""
        if self.fault or not self.allocation:
            return None
        return Branch(
            [each / _PERCENT for each in self.allocation], [each / _PERCENT for each in self.usage], self.needy, 1
        )


_asked: Final[msgspec.msgpack.Decoder[Ask | Give]] = msgspec.msgpack.Decoder(Ask | Give)
_said: Final = msgspec.msgpack.Decoder(Said)


def decode_asked(data: bytes) -> Ask | Give | None:
    """None: it cannot be read."""
    try:
        return _asked.decode(data)
    except UNREADABLE:
        return None


def decode_said(data: bytes) -> Said | None:
    """None: it is the end, or cannot be read."""
    try:
        return _said.decode(data)
    except UNREADABLE:
        return None


def encode_talk(message: Ask | Give | Said) -> bytes:
    """Without its length."""
    return msgspec.msgpack.encode(message)
