"""Random lives of small clusters: safety after every event, liveness once the faults stop (protocol section 8).

The oracle is written here in plain words and knows nothing of slots.py, candidates.py or numbering.py: a home is
(n - 2) // p + 1, because the levels are filled from the left with p seats behind every seat.

Safety, after every event:

- S1  a node's leader has a lower position, and walking from leader to leader ends.
- S2  a leader's count of its subtree is the number of different live rows, each node once. If L lists x and x names
      somebody else (or is dead), then x has said something to L within SILENCE_S, or L itself slept or
      started within it. (For that long two leaders may list the same node: a goodbye can be lost.)
- S3  of those whom L lists at most p have their home at L, and at most g have not.

Liveness, BOUND_S after the last fault: see `assert_healed`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import SmallWorld

from subord.core.events import Event, Received
from subord.core.messages import Message
from subord.core.settings import LAB

NETWORK = "10.0.0.0/25"
SIZE = 126
# A beat comes at most a tenth late; then `attempts` answers are waited for; the first beat is due within one answer.
# When everybody is silent each is given one more silence.
SILENCE_S = 2.1 * LAB.beat_interval_s + (2 * LAB.attempts + 1) * LAB.answer_s + 0.05
# Two roots that know nothing of each other: one walks over all addresses, a few at a time, resting between rounds.
ROUND_S = LAB.walk_candidates_max / LAB.questions_in_flight_max * LAB.answer_s + 1.1 * LAB.search_interval_s_max
WALK_S = ceil(SIZE / LAB.walk_candidates_max) * ROUND_S
# Silence, patience, the hold of a home that was lost often, the walk of two roots, one after the other, and what guests rest before they try their home.
BOUND_S = SILENCE_S + LAB.patience_s + LAB.return_hold_s_max + 2 * WALK_S + 2 * 1.1 * LAB.home_interval_s_max
CALM_S = 60.0

Step = tuple[str, int, float]  # what happens, to whom, and how long to wait after it
LOSSES = st.tuples(st.sampled_from([0.0, 0.05, 0.3]), st.integers(0, 999))  # share of messages, seed
KINDS = ("start", "start", "start", "kill", "crash", "vanish", "leave", "pause", "resume")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 99), st.sampled_from([0.0, 0.01, 0.1, 0.5, 2.0, 5.0])),
    min_size=5,
    max_size=40,
)


class Watched(SmallWorld):
    """A world that is checked after every event."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.spoke_at: dict[tuple[int, int], float] = {}  # (source, target) -> when target heard it
        self.woke_at: dict[int, float] = {}
        self.after_each = lambda _world: self.check(self.last)

    def start(self, position: int, known: tuple[int, ...] = ()) -> None:
        self.woke_at[position] = self.now
        super().start(position, known)

    def resume(self, position: int) -> None:
        self.woke_at[position] = self.now
        super().resume(position)

    def feed(self, position: int, event: Event) -> None:
        if isinstance(event, Received) and event.source is not None and position not in self.paused:
            self.spoke_at[event.source, position] = self.now
        super().feed(position, event)

    def check(self, position: int) -> None:
        """Only the node that handled the event can have changed."""
        if position not in self.nodes:
            return
        self.check_leader(position)
        self.check_list(position)

    def check_leader(self, position: int) -> None:
        seen = [position]
        leaders = self.leaders()
        while leaders.get(seen[-1], 0):
            above = leaders[seen[-1]]
            assert above < seen[-1], f"S1: {seen[-1]} follows {above}"
            assert above not in seen, f"S1: a cycle {seen}"
            seen.append(above)

    def check_list(self, position: int) -> None:
        node = self.nodes[position]
        listed = list(node.leading.slots.taken)
        assert len(set(listed)) == len(listed)
        live = {p for p, (_, claim) in node.roster.rows.items() if not claim.change.missing}
        assert node.roster.live == len(live), f"S2: {position} counts {node.roster.live}, but knows {live}"
        assert all(x > position for x in listed), f"S1: {position} leads {listed}"
        homes = [x for x in listed if home_of(x, self.settings.fanout) == position]
        assert len(homes) <= self.settings.fanout, f"S3: {position} has homes {homes}"
        assert len(listed) - len(homes) <= self.settings.guest_slots, f"S3: {position} leads {listed}"
        leaders = self.leaders()
        for x in listed:
            if leaders.get(x) != position:
                last = max(self.spoke_at.get((x, position), -inf), self.woke_at[position])
                assert self.now - last <= SILENCE_S, f"S2: {position} lists {x}, which follows {leaders.get(x)}"


def home_of(position: int, fanout: int) -> int:
    return (position - 2) // fanout + 1 if position > 1 else 0


def live_through(world: Watched, positions: list[int], steps: list[Step]) -> None:
    for kind, index, wait_s in steps:
        position = positions[index % len(positions)]
        alive, paused = position in world.nodes, position in world.paused
        possible = {"start": not alive, "resume": paused, "pause": alive and not paused}
        if possible.get(kind, alive):
            getattr(world, kind)(position)
        world.run(wait_s)


def stop_faults(world: Watched) -> None:
    world.lossy = lambda _source, _target, _message: False
    for position in list(world.paused):
        world.resume(position)
    world.run(2.5)  # those who were leaving are gone


def losing(share: float, seed: int) -> Callable[[int, int, Message], bool]:
    chance = Random(seed)
    return lambda _source, _target, _message: chance.random() < share


def assert_healed(world: Watched) -> None:
    """L1 one root, the lowest; L3 its roster is exactly the living; L2 who has a living home is there."""
    if not world.nodes:
        return
    world.run(BOUND_S)
    leaders = world.leaders()
    assert [p for p, leader in leaders.items() if not leader] == [min(leaders)], f"L1: {leaders}"
    rows = world.nodes[min(leaders)].roster.rows
    assert {p for p, (_, claim) in rows.items() if not claim.change.missing} == set(leaders), "L3"
    homes = {p: home_of(p, world.settings.fanout) for p in leaders}
    away = {p: leaders[p] for p, home in homes.items() if home in leaders and leaders[p] != home}
    assert away == {}, f"L2: {away}"


WORLDS = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(WORLDS, max_examples=100)
@given(
    st.lists(st.integers(1, SIZE), min_size=2, max_size=12, unique=True),
    st.tuples(st.integers(2, 4), st.integers(1, 4)),
    STEPS,
    LOSSES,
)
def test_random_positions(
    positions: list[int], slots: tuple[int, int], steps: list[Step], losses: tuple[float, int]
) -> None:
    fanout, guest_slots = slots
    share, seed = losses
    world = Watched.empty(fanout, NETWORK, seed=seed, guest_slots=guest_slots, timing_name="lab")
    world.lossy = losing(share, seed)
    world.start_all(positions)
    live_through(world, positions, steps)
    stop_faults(world)
    assert_healed(world)


@settings(WORLDS, max_examples=100)
@given(st.integers(3, 16), st.integers(2, 4), STEPS, LOSSES)
def test_dense_positions(size: int, fanout: int, steps: list[Step], losses: tuple[float, int]) -> None:
    """When everybody is back the tree is exactly the computed one, and nobody moves any more (L4)."""
    positions = list(range(1, size + 1))
    share, seed = losses
    world = Watched.empty(fanout, NETWORK, seed=seed, timing_name="lab")
    world.lossy = losing(share, seed)
    world.start_all(positions)
    live_through(world, positions, steps)
    stop_faults(world)
    for position in positions:
        if position not in world.nodes:
            world.start(position)
    assert_healed(world)
    assert world.leaders() == {p: home_of(p, fanout) for p in positions}
    before = world.moves()
    world.run(CALM_S)
    assert world.moves() == before, "L4"
