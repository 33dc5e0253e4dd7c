"""Many nodes leave at once: those that said so are not proposed to again."""

from __future__ import annotations

from small_world import SmallWorld

from subord.core.messages import Message, No, Propose, Refuse, Wish
from subord.core.settings import LAN


def test_a_node_that_said_it_is_leaving_is_not_proposed_to_again() -> None:
    """F1: `leave 1-9` of 72 nodes with one guest slot; refusals hint at nodes that are leaving.

    A home that is said to be back is asked all the same: it may have restarted.
    """
    world = SmallWorld.dense(72, 8, guest_slots=1)
    world.run(30)
    told: set[tuple[int, int]] = set()
    again: list[tuple[int, int]] = []

    def on_message(source: int, target: int, message: Message, _copies: int) -> None:
        if isinstance(message, Refuse) and message.no is No.LEAVING:
            told.add((target, source))
        if isinstance(message, Propose) and message.wish is not Wish.HOME and (source, target) in arrived:
            again.append((source, target))

    arrived: set[tuple[int, int]] = set()
    world.on_message = on_message
    for position in range(1, 10):
        world.leave(position)
    for _ in range(int(LAN.patience_s / 0.01)):
        world.run(0.01)  # longer than any datagram travels
        arrived |= told
    assert told
    assert again == []
