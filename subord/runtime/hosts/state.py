"""Whether this node has applied the table of hosts that counts: one word, and why not.

Invariant: a text names neither the node nor a time, so equal states of many nodes travel as one answer.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.decoding import UNREADABLE

NONE: Final = "none"
OFF: Final = "off"
STARTING: Final = "starting"
APPLIED: Final = "applied"
NO_AGENT: Final = "no agent"
REFUSED: Final = "refused"
FAILED: Final = "failed"
WORDS: Final = (FAILED, REFUSED, NO_AGENT, STARTING, OFF, NONE, APPLIED)
"""Those that need an operator first."""
SENTENCES: Final = {
    NONE: "no table is published",
    OFF: "elastic.hosts_file of the node is empty, so it follows no table",
    STARTING: "the agent has not written the table yet",
    APPLIED: "the names of the table are in the file",
    NO_AGENT: "there is no agent on the node, or it cannot be reached: start subord-agent.socket",
    REFUSED: "the agent refuses the table",
    FAILED: "the agent cannot write the table; its file is unchanged",
}
DETAIL_CHARS_MAX: Final = 400
NOTES_MAX: Final = 8
MARK_CHARS: Final = 16
_Text = Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)]


class State(NamedTuple):
    """`word`: of WORDS. `version`, `mark`: of the table that the state is about; 0 and "": there is none. `detail`:
    why, without a full stop; "": the word says it. `notes`: what is odd but hinders nothing."""

    word: str
    version: int = 0
    mark: str = ""
    detail: str = ""
    notes: tuple[str, ...] = ()


class Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """What the agent says once it has the document. `word`: APPLIED, OFF or FAILED."""

    word: Annotated[str, msgspec.Meta(pattern=rf"^({APPLIED}|{OFF}|{FAILED})\Z")]
    detail: _Text = ""
    notes: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=NOTES_MAX)] = ()


_said: Final = msgspec.msgpack.Decoder(Said)


def decode_said(data: bytes) -> Said | None:
    """None: it is the end, or cannot be read."""
    try:
        return _said.decode(data)
    except UNREADABLE:
        return None


def encode_said(said: Said) -> bytes:
    """Without its length."""
    return msgspec.msgpack.encode(said)


def mark_of(body: bytes) -> str:
    """Tells two tables apart, whatever their versions are."""
    return blake2b(body, digest_size=MARK_CHARS // 2).hexdigest()
