"""A member that lies: a node of the simulator whose messages are altered before they are encoded.

Its own core is unchanged, so it beats, proposes and answers in time; only what it says is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from small_world import SmallWorld

from subord.core.messages import Message
from subord.core.view import Position
from subord.wire import CODECS, VERSION, Codec, Fault, Wire

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
