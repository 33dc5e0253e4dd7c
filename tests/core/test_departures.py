"""Many nodes leave at once: nodes that are leaving get no new proposals."""

from __future__ import annotations

from collections import defaultdict

import pytest
from small_world import SmallWorld

from subord.core.messages import Message, No, Propose, Refuse, Wish
from subord.core.search.requests import PROPOSALS_MAX
from subord.core.settings import LAN
from subord.sim.checkers.liveness import complaint


@pytest.mark.slow
def test_a_node_that_said_it_is_leaving_is_not_proposed_to_again() -> None:
    """F1: `leave 1-9` of 72 nodes with one guest slot; refusals name nodes that are leaving.

    A home that is said to be alive is asked all the same: it may have restarted.
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
        world.run(0.01)  # longer than any datagram takes
        arrived |= told
    assert told
    assert again == []


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [72, 1000])
def test_a_mass_leave_where_only_a_chain_is_left_costs_a_bounded_number_of_proposals(nodes: int) -> None:
    """F1: the round trip alone paced proposals after a refusal, 50 for each of 63 nodes; 1,000 never finished."""
    world = SmallWorld.dense(nodes, 8, guest_slots=1)
    world.run(30)
    proposed: defaultdict[int, list[float]] = defaultdict(list)
    new: defaultdict[int, dict[int, float]] = defaultdict(dict)  # except to a home that is alive

    def on_message(source: int, _target: int, message: Message, _copies: int) -> None:
        if isinstance(message, Propose):
            proposed[source].append(world.now)
            if message.wish is not Wish.HOME:
                new[source].setdefault(message.exchange, world.now)

    world.on_message = on_message
    for position in range(1, 10):
        world.leave(position)
    world.run(25)
    assert complaint(world) is None
    times = [list(each.values()) for each in new.values()]
    assert max(sum(at <= later < at + 1 for later in each) for each in times for at in each) <= PROPOSALS_MAX
    # The nodes that lost their leader; the others keep their places.
    assert sum(map(len, proposed.values())) < 30 * 63
