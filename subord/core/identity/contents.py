"""What a node signs (docs/protocol/identities.md).

Inputs are the fields of a statement, its signer, and the node that it is for; output is the content that the proof
covers. Invariant: a content names its kind, the cluster, and the signer, so a proof of one statement is none of
another. The format is part of the wire: a change needs another first word.
"""

from __future__ import annotations

from typing import Final

import msgspec

from subord.core.carriage.orders import Cluster
from subord.core.messages import Accept, Change, Propose, Signed
from subord.core.view import Position

PROPOSE: Final = "subord 1 propose"
_encode = msgspec.msgpack.Encoder().encode


def of_message(cluster: Cluster, position: Position, target: Position, message: Signed) -> bytes:
    """What `position` signs of a message to `target`."""
    match message:
        case Propose():
            said = message.incarnation, message.exchange, int(message.wish), message.standing
            return _encode((PROPOSE, cluster, position, target, *said))
        case Accept():
            given = message.incarnation, message.exchange, message.guidance.path
            return _encode(("subord 1 accept", cluster, position, target, *given))
        case _:
            why = int(message.why)
            return _encode(("subord 1 goodbye", cluster, position, target, message.incarnation, why))


def of_row(cluster: Cluster, change: Change) -> bytes:
    """What the node of a row signs: the row; or, of the row of a node that was just accepted, its proposal."""
    if change.exchange:
        said = change.incarnation, change.exchange, int(change.wish), change.standing
        return _encode((PROPOSE, cluster, change.position, change.leader, *said))
    place = change.leader, change.place, change.incarnation, change.moves
    return _encode(("subord 1 row", cluster, change.position, *place, change.standing, change.performance))
