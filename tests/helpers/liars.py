"""A lying member: a node of the simulator whose messages are altered before they are encoded.

Its core is unchanged, so it beats, proposes and answers in time; only the content is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from small_world import SmallWorld

from subord.core.messages import CHANGES_MAX, Beat, Change, Message
from subord.core.state.roster import GUEST
from subord.core.view import Position
from subord.wire.codec import CODECS, VERSION, Codec, Fault, Wire

Lie = Callable[[Message], Message]


def lies(world: SmallWorld, position: Position, lie: Lie) -> None:
    """`position` sends `lie(message)` in place of each message from now on."""
    read = CODECS[VERSION].decode
    world.wires[position] = Wire({VERSION: Codec(lambda message: msgspec.msgpack.encode(lie(message)), read)})


def accused(world: SmallWorld) -> Counter[Position]:
    """Number of invalid datagrams by sender; filled while the world runs."""
    found: Counter[Position] = Counter()
    deliver = world.deliver

    def watched(source: Position, target: Position, data: bytes, by_multicast: bool = False) -> None:
        if target in world.nodes and isinstance(world.wires[target].decode(data), Fault):
            found[source] += 1
        deliver(source, target, data, by_multicast)

    world.deliver = watched  # type: ignore[method-assign]
    return found


def says_rows(world: SmallWorld, liar: Position, rows: Sequence[Change], gone: Sequence[Position] = ()) -> None:
    """The liar reports these rows at once, in as many beats as needed, before its own beats."""
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
    """(live, missing) nodes that the leader lists because of the liar."""
    roster = world.nodes[world.leader_of(liar)].roster
    return roster.living_of(liar), roster.missing_of[liar]
