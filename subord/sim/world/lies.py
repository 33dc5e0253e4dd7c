"""Members that make false statements: the messages that one sends in place of those of its core.

The core of such a member is unchanged: it proposes, beats and answers in time, and only the contents are false: ages,
boot numbers, the rows of its branch, or the proofs of rows. A false message always fits into a datagram.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from subord.core.identity import contents
from subord.core.messages import AGE_S_MAX, Beat, Change, Message, bare
from subord.core.view import Position
from subord.sim.scenario.lasting import LieName
from subord.sim.world.identities import Identities
from subord.wire.codec import CODECS, VERSION, Codec, Wire

AGES_S = (0, AGE_S_MAX, AGE_S_MAX + 1, (1 << 32) - 1)  # the last two are out of bounds
BOOTS = 1 << 40  # beyond the boot numbers of a clock of this century
INVENTED = 8  # rows of one beat, instead of those of its core
FORGED, SEEN_MAX = 4, 256

Lie = Callable[[Message], Message]


def wire_of(
    name: LieName,
    position: Position,
    cast: Sequence[Position],
    chance: Random,
    identities: Identities | None = None,
) -> Wire:
    """What the member at `position` writes; it reads as before. Where nodes have identities, it can sign as well."""
    lie = _forges(position, cast, chance, identities) if name == "forges" else _LIES[name](position, cast, chance)
    plain = CODECS[VERSION]
    return Wire({VERSION: Codec(lambda message: plain.encode(lie(message)), plain.decode)})


def _ages(_position: Position, _cast: Sequence[Position], chance: Random) -> Lie:
    """Every row claims age zero, or an impossible one."""

    def lie(message: Message) -> Message:
        if not isinstance(message, Beat):
            return message
        rows = tuple(msgspec.structs.replace(row, age_s=chance.choice(AGES_S)) for row in message.changes)
        return msgspec.structs.replace(message, changes=rows)

    return lie


def _rows(position: Position, cast: Sequence[Position], chance: Random) -> Lie:
    """Lists nodes that do not stand below it, including lower positions."""

    def lie(message: Message) -> Message:
        if not isinstance(message, Beat):
            return message
        named = chance.sample(cast, min(len(cast), INVENTED))
        rows = tuple(Change(each, position, 2, 1 + chance.randrange(BOOTS), 0, 0) for each in named)
        return msgspec.structs.replace(message, changes=rows, rows=0, digest=0)

    return lie


def _hides(position: Position, _cast: Sequence[Position], _chance: Random) -> Lie:
    """Reports itself without its branch."""

    def lie(message: Message) -> Message:
        if not isinstance(message, Beat):
            return message
        own = tuple(row for row in message.changes if row.position == position)
        return msgspec.structs.replace(message, changes=own, gone=(), rows=1, digest=0)

    return lie


def _boots(position: Position, _cast: Sequence[Position], chance: Random) -> Lie:
    """Raises its boot number with every message."""
    ahead = 0

    def lie(message: Message) -> Message:
        nonlocal ahead
        ahead += chance.randrange(2)
        own = getattr(message, "incarnation", None)
        if own is None:
            return message
        changed: dict[str, Any] = {"incarnation": own + ahead}
        if isinstance(message, Beat):
            changed["changes"] = tuple(
                msgspec.structs.replace(row, incarnation=row.incarnation + ahead) if row.position == position else row
                for row in message.changes
            )
        return msgspec.structs.replace(message, **changed)

    return lie


def _forges(position: Position, cast: Sequence[Position], chance: Random, identities: Identities | None) -> Lie:
    """Rows of other nodes: without proof, under a key of its own, with the proof of another row, or earlier ones."""
    seen: list[Change] = []

    def forged(row: Change) -> Change:
        later = msgspec.structs.replace(row, leader=position, incarnation=row.incarnation + chance.randrange(2))
        match chance.choice(("bare", "own key", "altered", "moved", "earlier")):
            case "own key" if identities is not None and identities.are_on:
                signer = identities.intruder(row.position)
                own = msgspec.structs.replace(later, key=signer.key, exchange=0)
                return msgspec.structs.replace(own, proof=signer.sign(contents.of_row(identities.cluster, own)))
            case "altered":
                return later
            case "moved":
                return msgspec.structs.replace(row, moves=row.moves + 1)
            case "earlier":
                return chance.choice([row, *(each for each in seen if each.position == row.position)])
            case _:
                return bare(later)

    def lie(message: Message) -> Message:
        if not isinstance(message, Beat):
            return message
        seen.extend(message.changes[: SEEN_MAX - len(seen)])
        own = tuple(row for row in message.changes if row.position == position)
        named = [Change(each, position, 2, 1 + chance.randrange(BOOTS), 0, 0) for each in chance.sample(cast, 1)]
        some = chance.sample(seen, min(len(seen), FORGED)) + named
        rows = tuple(forged(row) for row in some if row.position != position)
        return msgspec.structs.replace(message, changes=(*own[:1], *rows), gone=(), rows=0, digest=0)

    return lie


_LIES: dict[LieName, Callable[[Position, Sequence[Position], Random], Lie]] = {
    "ages": _ages,
    "rows": _rows,
    "hides": _hides,
    "boots": _boots,
}
