"""Members that do not fit: liars, other settings, other releases, and two hosts with one address."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from subord.core.messages import Beat, Change, Terms
from subord.sim.player import Play
from subord.sim.scenario.definition import read
from subord.sim.scenario.lasting import LieName
from subord.sim.world.later_release import LATER
from subord.sim.world.lies import wire_of
from subord.wire.codec import Fault, decode

START = '{ do = "start" }, { do = "pass", s = 20 }'


def played(*steps: str, nodes: int = 7) -> Play:
    more = "".join(f", {{ {step} }}" for step in steps)
    cluster = f'nodes = {nodes}, timing = "lab"'
    play = Play(read(f'title = "t"\ncluster = {{ {cluster} }}\nsteps = [ {START}{more} ]\n'))
    for step in play.script.steps:
        play._do(step)
    return play


@pytest.mark.parametrize("what", get_args(LieName))
def test_a_lie_is_another_message_and_fits_a_datagram(what: LieName) -> None:
    beat = Beat(1000, 1000, 1, 1000, 1, (Change(4, 2, 1, 1000, 1, 5), Change(9, 4, 1, 1000, 1, 5)), rows=2)
    wire = wire_of(what, 4, range(1, 40), Random(1))
    decoded = [decode(wire.encode(beat)) for _ in range(20)]
    assert any(each != beat for each in decoded)
    assert all(isinstance(each, Beat) or each is Fault.MALFORMED for each in decoded)


@pytest.mark.slow
@pytest.mark.parametrize("what", get_args(LieName))
def test_a_liar_is_not_judged_and_all_heals_when_it_has_ended(what: LieName) -> None:
    play = played(f'do = "lie", nodes = "2", what = "{what}"', 'do = "pass", s = 10')
    assert play.world.unjudged == {2}
    play._end_faults()
    assert play.world.wires[2].spoken == (1,)
    play.run()


@pytest.mark.parametrize("other", ["fanout = 3", "guest_slots = 5", 'timing = "lan"'])
def test_other_settings_are_refused(other: str) -> None:
    play = played(f'do = "refit", nodes = "2", {other}', 'do = "pass", s = 30')
    world = play.world
    ours, theirs = Terms.of(play.settings), Terms.of(world.nodes[2].context.settings)
    assert ours != theirs
    assert world.leader_of(2) == 0
    assert all(world.leader_of(p) != 2 for p in world.nodes)
    play._mend()
    world.run(30)
    assert (world.leader_of(2), world.leader_of(4)) == (1, 2)


def test_a_release_counts_at_the_next_start() -> None:
    play = played('do = "release", nodes = "2,4"')
    assert play.world.wires[2].spoken == (1,)
    later = played('do = "release", nodes = "2,4"', 'do = "restart", nodes = "2,4"', 'do = "pass", s = 30')
    world = later.world
    assert world.wires[2].spoken == (1, LATER)
    assert world.peer_versions[4].version_for(2) == LATER
    assert world.peer_versions[1].version_for(2) == 1


def test_two_hosts_with_one_address_both_send_and_one_is_left_at_the_end() -> None:
    play = played('do = "twin", nodes = "2"', 'do = "pass", s = 20')
    world, twin = play.world, play._strangers.twins._nodes[2]
    assert twin is not world.nodes[2]
    assert twin.context.heard_at > 20, "some datagrams arrive there"
    play._end_faults()
    assert not play._strangers.twins._nodes
    world.run(60)
    assert world.leader_of(2) == 1
