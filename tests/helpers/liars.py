"""A member that lies: a node of the simulator whose messages are altered before they are encoded.

Its own core is unchanged, so it beats, proposes and answers in time; only what it says is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from small_world import SmallWorld

from subord.core.messages import CHANGES_MAX, Beat, Change, Message
from subord.core.state.roster import GUEST
from subord.core.state.view import Position
from subord.wire.codec import CODECS, VERSION, Codec, Fault, Wire

Lie = Callable[[Message], Message]


def lies(world: SmallWorld, position: Position, lie: Lie) -> None:
    """From now on `position` says `lie(message)` in the place of each message."""
    read = CODECS[VERSION].decode
    world.wires[position] = Wire({VERSION: Codec(lambda message: msgspec.msgpack.encode(lie(message)), read)})


def accused(world: SmallWorld) -> Counter[Position]:
    """Whose datagrams are not understood, and how often; filled while the world runs."""
    found: Counter[Position] = Counter()
    deliver = world.deliver

    def watched(source: Position, target: Position, data: bytes, by_multicast: bool = False) -> None:
        if target in world.nodes and isinstance(world.wires[target].decode(data), Fault):
            found[source] += 1
        deliver(source, target, data, by_multicast)

    world.deliver = watched  # type: ignore[method-assign]
    return found


def says_rows(world: SmallWorld, liar: Position, rows: Sequence[Change], gone: Sequence[Position] = ()) -> None:
    """The liar reports these besides, at once, in as many beats as they need; its own beats come after them."""
    node = world.nodes[liar]
    leader = node.uplink.leader
    assert leader is not None
    for first in range(0, max(len(rows), len(gone)), CHANGES_MAX):
        some = slice(first, first + CHANGES_MAX)
        number = node.context.next_number()
        beat = Beat(
            node.context.incarnation, leader.incarnation, number, 5000, 0, tuple(rows[some]), tuple(gone[some])
        )
        world.tell(liar, leader.position, beat)


def phantoms(liar: Position, first: Position, count: int, *, missing: bool = False) -> list[Change]:
    """Nodes that do not exist, as a full tree of fan-out 2 below the liar."""
    tree = [liar, *range(first, first + count)]
    return [
        Change(tree[index], tree[(index - 1) // 2], GUEST, 1 << 40, 9, 0, missing) for index in range(1, count + 1)
    ]


def claimed(world: SmallWorld, liar: Position) -> tuple[int, int]:
    """How many living, and how many missing nodes its leader lists by the word of the liar."""
    roster = world.nodes[world.leader_of(liar)].roster
    return roster.living_of(liar), roster.missing_of[liar]
