"""What nodes tell of the table of hosts, and what the asking node makes of all answers.

Inputs are the state of a node, and the answers of nodes; outputs are the answer, and a HostsDocument. Invariants:
nodes that follow the table in the same way say the same; what cannot be read is passed over, because a member may
send anything; each node that has answered stands in one state.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import trio

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.core.carriage.documents import HOSTS
from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.hosts import state
from subord.runtime.hosts.state import DETAIL_CHARS_MAX, MARK_CHARS, NOTES_MAX, mark_of
from subord.services.answers import heard, named, place_of, sentence_of
from subord.services.decoding import Reader, reader
from subord.services.hosts.documents import EntryDocument, HostsDocument, StateDocument, TableDocument
from subord.services.hosts.table import Table, decode
from subord.services.serving import of_coverage

_Text = Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)]


class Told(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a node, in the fields of runtime/hosts/state.py."""

    word: Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
    version: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)] = 0
    mark: Annotated[str, msgspec.Meta(max_length=MARK_CHARS)] = ""
    detail: _Text = ""
    notes: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=NOTES_MAX)] = ()


decode_told: Reader[Told] = reader(Told)


async def answer(node: NodeApi, _: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    return msgspec.msgpack.encode(Told(*node.hosts.state))


def published(node: NodeApi) -> TableDocument:
    """The table that a node holds."""
    membership = node.tracker.membership
    held = membership.documents.by_name.get(HOSTS)
    table = Table() if held is None else decode(held.body)
    principal, _ = membership.signers.get(HOSTS, ("", ""))
    return TableDocument(
        version=0 if held is None else held.version,
        mark="" if held is None else mark_of(held.body),
        principal=principal or None,
        time=None if held is None else time_text(held.at_ms / 1000),
        readable=table is not None,
        conflict=HOSTS in membership.documents.conflicts,
        entries=() if table is None else tuple(EntryDocument(name=name, address=a) for name, a in table.entries),
    )


def document(answered: Answered) -> CoverageDocument:
    """The document of all answers."""
    node = answered.node
    held = node.tracker.membership.documents.by_name.get(HOSTS)
    version, mark = (0, "") if held is None else (held.version, mark_of(held.body))
    answers, unread = heard(answered, decode_told)
    states = [_state(node, told, nodes, mark) for told, nodes in answers]
    return of_coverage(
        HostsDocument,
        answered,
        version=version,
        mark=mark,
        states=tuple(sorted(states, key=_urgency)),
        unread=unread,
    )


def _state(node: NodeApi, said: Told, told: Ranges, mark: str) -> StateDocument:
    settled = (state.NONE, state.OFF) if not mark else (state.OFF,)
    return StateDocument(
        state=said.word,
        text=sentence_of(said.word, state.SENTENCES),
        detail=said.detail,
        notes=said.notes,
        version=said.version,
        mark=said.mark,
        applied=said.word in settled or (said.word, said.mark) == (state.APPLIED, mark),
        nodes=len(told),
        addresses=named(node, told),
    )


def _urgency(found: StateDocument) -> tuple[object, ...]:
    place = place_of(found.state, state.WORDS)
    return (found.applied, place, not found.notes, -found.nodes, found.detail, found.version)
