"""The state table: each of its transitions is taken, every other raises an error, and the state has no other way."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from loops import over
from small_world import SmallWorld

from subord.core.address.network import Network
from subord.core.events import Start
from subord.core.messages import Back, Goodbye, Message, Propose, Why
from subord.core.settings import LAN, Settings
from subord.core.state import context, states
from subord.core.state.context import Context
from subord.core.state.states import NEXT, Aim, Phase, State, Trigger, follow
from subord.core.view import Position
from subord.sim.campaign import try_seed
from subord.sim.draw.aim import Aim as Drawing

TABLE = """
new:             begin seeking, at_home home, leave leaving
seeking:         at_home home, as_guest guest, alone root, leave leaving
root:            at_home home, as_guest guest, leave leaving
home:            at_home home, notice leader_leaving, lost orphan, leave leaving
guest:           at_home home, as_guest guest, alone root, notice leader_leaving, lost orphan, leave leaving
leader_leaving:  at_home home, as_guest guest, alone root, lost orphan, leave leaving
orphan:          at_home home, as_guest guest, alone root, leave leaving
leaving:         lost leaving, done gone
gone:
"""
EDGES = {
    (State[name.upper()], Trigger[cue.upper()]): State[then.upper()]
    for name, _, row in (line.partition(":") for line in TABLE.strip().splitlines())
    for cue, then in (edge.split() for edge in row.split(",") if edge.strip())
}
SEEDS = {"ip": range(12), "performance": range(2)}
SMALL = Drawing(nodes=(6, 14))


@over("trigger", Trigger)
@over("state", State)
def test_every_state_and_trigger(state: State, trigger: Trigger) -> None:
    if (state, trigger) in EDGES:
        assert follow(state, trigger) is EDGES[state, trigger]
    else:
        with pytest.raises(KeyError):
            follow(state, trigger)


def test_the_pairs_of_the_table_are_all_that_exist() -> None:
    legal = {(state.phase, state.aim) for state in State}
    assert len(legal) == len(State.__members__) == len(TABLE.split(":")) - 1
    for pair in set(product(Phase, Aim)) - legal:
        with pytest.raises(ValueError, match="is not a valid State"):
            State(pair)


def test_a_state_changes_by_triggers_alone() -> None:
    own = Context(Settings(network=Network.parse("10.0.0.0/24")), 1, 1, Random(1), 0.0)
    with pytest.raises(AttributeError):
        own.state = State.ROOT  # type: ignore[misc]
    with pytest.raises(KeyError):
        own.follow(Trigger.LOST)
    assert own.state is State.NEW
    own.follow(Trigger.BEGIN)
    assert own.state is State.SEEKING


def test_every_state_is_reachable_and_leads_to_the_end() -> None:
    reached, fresh = {State.NEW}, [State.NEW]
    while fresh:
        new = set(NEXT[fresh.pop()].values()) - reached
        reached |= new
        fresh += new
    assert reached == set(State)
    assert all(State.LEAVING in NEXT[state].values() for state in State if state is not State.GONE)


# -- each transition is taken --------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_transition_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """By some seeds; what they seldom do, by one story each."""
    taken: set[tuple[State, Trigger]] = set()

    def noted(state: State, trigger: Trigger) -> State:
        taken.add((state, trigger))
        return states.follow(state, trigger)

    monkeypatch.setattr(context, "follow", noted)
    for mapping, seeds in SEEDS.items():
        for seed in seeds:
            try_seed(seed, mapping, SMALL)  # type: ignore[arg-type]
    for story in (
        called_home_during_the_scan,
        home_again,
        leaving_first,
        leaving_without_leader,
        leaders_leave,
        lost_while_leaving,
        root_leaves,
    ):
        story()
    assert taken == set(EDGES)


def test_a_node_that_is_called_home_during_a_full_scan_ends_the_scan() -> None:
    world = called_home_during_the_scan()
    assert world.leaders() == {1: 0, 2: 1}
    assert world.nodes[2].search.exchanges == 1


def called_home_during_the_scan() -> SmallWorld:
    world = SmallWorld.empty(2, "10.0.0.1-10.0.0.20")
    world.start_all((1,))
    world.run(5)
    world.start_with = Start(full_scan=True)
    world.start_all((2,))
    world.tell(1, 2, Back(incarnation(world, 1), 1))
    world.run(LAN.host_patience_s)
    return world


def home_again() -> None:
    """The home of an orphan says that it is there again before another candidate answers."""
    world = SmallWorld.dense(5, 2)
    world.run(10)
    world.lossy = lambda source, target, _message: 4 in {source, target}
    world.run_until(lambda: world.nodes[4].phase is Phase.ORPHAN, within_s=10)
    world.lossy = lambda source, target, _message: {source, target} in ({1, 4}, {3, 4}, {4, 5})
    world.tell(2, 4, Back(incarnation(world, 2), 2))
    world.run_until(lambda: world.nodes[4].phase is Phase.ATTACHED, within_s=0.5)


def leaving_first() -> None:
    """A node leaves while it scans, or while it waits for its home."""
    for start in (Start(full_scan=True), Start()):
        world = SmallWorld.empty(2, "10.0.0.1-10.0.0.20")
        world.start_with = start
        world.start_all((2,))
        world.leave(2, grace_s=1.0)
        world.run(2)


def leaving_without_leader() -> None:
    world = silent(SmallWorld.dense(3, 2))
    world.run_until(lambda: world.nodes[3].phase is Phase.ORPHAN, within_s=10)
    world.leave(3, grace_s=1.0)


def leaders_leave() -> None:
    """A node leaves while its leader does; another one finds its home back at that moment."""
    world = SmallWorld.dense(7, 2)
    world.run(10)
    world.kill(2)
    world.run(20)
    leader = world.leader_of(5)
    world.lossy = lambda _source, _target, message: isinstance(message, Back)
    world.start(2)
    world.run(1)
    world.lossy = lambda source, target, _message: not {2, 5} >= {source, target}
    for position in (4, 5):
        world.tell(leader, position, Goodbye(incarnation(world, leader), Why.LEAVING))
    world.tell(1, 5, Back(incarnation(world, 1), 2))
    world.leave(4, grace_s=1.0)
    world.run_until(lambda: world.leader_of(5) == 2, within_s=1)


def lost_while_leaving() -> None:
    world = SmallWorld.dense(7, 2)
    world.run(10)
    world.lossy = lambda _source, _target, message: isinstance(message, Propose)
    world.leave(2, grace_s=1.0)
    world.tell(1, 2, Goodbye(incarnation(world, 1), Why.DISPLACED))
    world.run(2)


def root_leaves() -> None:
    world = SmallWorld.dense(3, 2)
    world.run(10)
    world.leave(1, grace_s=1.0)
    world.run(2)


def silent(world: SmallWorld) -> SmallWorld:
    """The world at rest, in which from now on nothing is heard."""

    def everything(_source: Position, _target: Position, _message: Message) -> bool:
        return True

    world.run(10)
    world.lossy = everything
    return world


def incarnation(world: SmallWorld, position: Position) -> int:
    return world.nodes[position].context.incarnation
