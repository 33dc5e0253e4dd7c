"""Well-formed but false messages break nothing (S5, S6).

A node with a leader, subordinates and guests receives random messages of all of them and of strangers. It raises
nothing, sends only to positions of its network and only what fits a datagram, and follows only a lower rank.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_world import SmallWorld

from subord.core.messages import (
    AGE_S_MAX,
    Accept,
    Advice,
    Back,
    Beat,
    Change,
    Echo,
    Goodbye,
    Guidance,
    Guide,
    Message,
    No,
    Propose,
    Refuse,
    Stranger,
    Terms,
    Why,
    Wish,
)

TARGET = 3
SIZE = 254
NEIGHBOURS = (1, 3, 6, 7, 12, 60, 90)
TOP = (1 << 64) - 1
COUNT_TOP = (1 << 32) - 1
POSITION = st.sampled_from([1, 2, 3, 4, 6, 7, 12, 60, SIZE, SIZE + 1, 300, 600, TOP])
POSITION_OR_NONE = st.just(0) | POSITION
LIST = st.lists(POSITION, max_size=6).map(tuple)
LIFE = st.sampled_from([0, 999, 1000, 1001, TOP])
NUMBER = st.integers(0, 40) | st.just(TOP)
COUNT = st.sampled_from([0, 1, 300, COUNT_TOP])
MILLISECONDS = st.sampled_from([0, 1, 300, 60_000])
GUIDANCE = st.builds(Guidance, st.integers(0, 9) | st.just(TOP), LIST, LIST, LIST, st.booleans())
AGE = st.sampled_from([0, 1, 300, AGE_S_MAX])
CHANGE = st.builds(Change, POSITION, POSITION_OR_NONE, st.integers(0, 2), LIFE, COUNT, AGE, st.booleans())
CHANGES = st.lists(CHANGE, max_size=5).map(tuple)
TERMS = st.just(Terms("10.0.0.0/24", 2, 2, "ip", "complete", "lan"))
WORDS = st.one_of(
    st.builds(Propose, LIFE, NUMBER, TERMS, st.sampled_from(Wish)),
    st.builds(Accept, LIFE, NUMBER, GUIDANCE),
    st.builds(
        Refuse, LIFE, NUMBER, st.sampled_from(No), st.just(""), st.sampled_from([0, 1, 1000]), LIST, POSITION_OR_NONE
    ),
    st.builds(Advice, LIFE, NUMBER, st.booleans(), POSITION_OR_NONE, LIST, POSITION_OR_NONE),
    st.builds(Back, LIFE, POSITION),
    st.builds(Beat, LIFE, LIFE, NUMBER, MILLISECONDS, NUMBER, CHANGES, LIST, st.booleans()),
    st.builds(Echo, LIFE, NUMBER, st.none() | GUIDANCE),
    st.builds(Stranger, LIFE, NUMBER),
    st.builds(Guide, LIFE, GUIDANCE),
    st.builds(Goodbye, LIFE, st.sampled_from(Why), LIST),
)
PAUSE_S = st.sampled_from([0.0, 0.0, 0.1, 0.5, 3.0, 70.0])


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(NEIGHBOURS), WORDS, PAUSE_S), min_size=3, max_size=25))
def test_false_messages_break_nothing(words: list[tuple[int, Message, float]]) -> None:
    world = SmallWorld.dense(7, 2, "10.0.0.0/24")
    for guest in (60, 90):
        world.start(guest, known=(TARGET,))
    world.run(20)
    for position in set(world.nodes) - {TARGET}:
        world.vanish(position)
    node = world.nodes[TARGET]
    targets: list[int] = []
    world.lossy = lambda _source, target, _message: targets.append(target) is None
    node.context._number = 1  # so a low number in a message may be that of an own question or beat
    for source, message, pause_s in words:
        world.tell(source, TARGET, message)
        world.run(pause_s)
        assert all(1 <= target <= SIZE for target in targets), targets
        assert node.uplink.leader is None or node.uplink.leader.position < TARGET
        assert len(node.downlink.slots.taken) <= 2 + 2
        assert node.deadline > world.now - 1e-9
    assert not world.dropped, "the generated messages must be well-formed"


HOME_OUTSIDE = Change(300, 7, 1, 1, 0, 0)
GUEST_OUTSIDE = Change(600, 6, 2, 1, 0, 0)


def test_positions_outside_the_network_get_no_message() -> None:
    """6 and 7 report a guest 600 and its home 300, which a network of 254 addresses lacks."""
    world = SmallWorld.dense(7, 2, "10.0.0.0/24")
    world.run(20)
    targets: list[int] = []
    world.lossy = lambda _source, target, _message: targets.append(target) is None
    for number, (source, change) in enumerate([(7, HOME_OUTSIDE), (6, GUEST_OUTSIDE)]):
        world.tell(source, TARGET, Beat(1000, 1000, 10**6 + number, 300, 1, (change,)))
    assert set(targets) <= set(range(1, SIZE + 1))


def test_a_root_outside_the_network_is_not_asked() -> None:
    """A guest asks its root for a better place now and then; its leader names the root."""
    world = SmallWorld.empty(2, "10.0.0.0/24")
    world.start_all((1, 60), known=(1,))
    world.run(20)
    world.tell(1, 60, Guide(1000, Guidance(99, (600, 1), (), (), adrift=False)))
    targets: list[int] = []
    world.lossy = lambda _source, target, _message: targets.append(target) is None
    world.run(1.5)
    world.lossy = lambda _source, target, _message: targets.append(target) is not None
    world.run(60)
    assert set(targets) <= set(range(1, SIZE + 1))
