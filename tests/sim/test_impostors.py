"""Members that speak for others, forge rows or take an address: drawn, played, and judged by S14."""

from __future__ import annotations

import msgspec
import pytest
from loops import over

from subord.core.events import Pinned
from subord.core.messages import Change
from subord.sim.draw.seed import draw
from subord.sim.player import Play
from subord.sim.scenario.definition import ScenarioError, bare_of, positions_of, read
from subord.sim.violation import Violation

START = '{ do = "start" }, { do = "pass", s = 20 }'


def playing(*steps: str, cluster: str = 'identities = "strict"', nodes: int = 7) -> Play:
    more = "".join(f", {{ {step} }}" for step in steps)
    given = f'nodes = {nodes}, timing = "lab", {cluster}'
    play = Play(read(f'title = "t"\ncluster = {{ {given} }}\nsteps = [ {START}{more} ]\n'))
    for step in play.script.steps:
        play._do(step)
    return play


@pytest.mark.slow
@over("cluster", ['identities = "strict"', 'identities = "pinned"', 'identities = "pinned", bare = "3,5"'])
def test_what_a_member_says_in_the_names_of_others_changes_nothing(cluster: str) -> None:
    play = playing('do = "pose", nodes = "2", per_s = 50, for_s = 10', 'do = "pass", s = 11', cluster=cluster)
    assert play._strangers.poses.sent > 100
    assert {p: play.world.leader_of(p) for p in range(1, 8)} == {p: p // 2 for p in range(1, 8)}
    play._end_faults()


@over("cluster", ['identities = "none"', 'identities = "strict", sealed = true'])
def test_where_nothing_could_be_judged_no_member_does_so(cluster: str) -> None:
    play = playing('do = "pose", nodes = "2", per_s = 50, for_s = 1', 'do = "pass", s = 2', cluster=cluster)
    assert not play._strangers.poses.sent


@pytest.mark.slow
@over("cluster", ['identities = "strict"', 'identities = "pinned"'])
def test_a_seized_address_is_refused_until_its_host_is_back(cluster: str) -> None:
    play = playing('do = "seize", nodes = "5"', 'do = "pass", s = 20', cluster=cluster)
    assert play.world.leader_of(5) == 0
    assert not play.world.nodes[1].roster.is_live(5)
    play._end_faults()
    play.world.run(20)
    assert play.world.leader_of(5) == 2
    key = play.world.identities.true_key_of(5)
    assert play.world.nodes[1].roster.rows[5][1].change.key == key


def test_without_identities_no_address_is_seized() -> None:
    play = playing('do = "seize", nodes = "5"', 'do = "pass", s = 5', cluster='identities = "none"')
    assert play.world.leader_of(5) == 2
    assert not play.world.unjudged


@over("cluster", ['identities = "strict"', 'identities = "pinned"'])
def test_a_replaced_host_is_taken_because_the_operator_forgets_the_former_one(cluster: str) -> None:
    play = playing('do = "reuse", nodes = "5"', 'do = "pass", s = 30', cluster=cluster)
    assert play.world.leader_of(5) == 2
    assert len(play.world.identities.hosts[5]) == 2


def test_a_late_datagram_of_a_host_that_was_replaced_pins_its_key_for_a_moment_only() -> None:
    """Seed 2: it arrived after the operator had forgotten the host, and the new host had no place for ever."""
    play = playing('do = "reuse", nodes = "5"', cluster='identities = "pinned"')
    world, former = play.world, play.world.identities.hosts[5][0]
    pins = world.nodes[2].context.identity.pins
    assert pins.see(5, former.key)
    world.nodes[2].context.note(Pinned(5, former.key))
    world.run(20)
    assert pins.key_of(5) == world.identities.true_key_of(5) != former.key


@over("how", ['do = "seize", nodes = "5"', 'do = "twin", nodes = "5"'])
def test_a_late_datagram_of_an_impostor_pins_its_key_for_a_moment_only(how: str) -> None:
    """Seed 762: a stopped node read it after the operator had forgotten the impostor, and all nodes took its key."""
    play = playing(how, 'do = "pass", s = 5', cluster='identities = "pinned"')
    identities = play.world.identities
    (impostor,) = (*identities._seized.values(), *identities._second.values())
    play._end_faults()
    pins = play.world.nodes[2].context.identity.pins
    identities.forget(5)
    assert pins.see(5, impostor.key)
    play.world.nodes[2].context.note(Pinned(5, impostor.key))
    play.world.run(20)
    assert play.world.leader_of(5) == 2
    assert {play.world.nodes[p].context.identity.pins.key_of(5) for p in (1, 2)} <= {b"", identities.true_key_of(5)}


def test_where_pins_are_stamped_by_the_clocks_of_hosts_the_operator_forgets_them_as_well() -> None:
    play = playing(
        'do = "reuse", nodes = "5"', 'do = "pass", s = 30', cluster='identities = "pinned", register = true'
    )
    assert play.world.leader_of(5) == 2


# -- the checker itself ---------------------------------------------------------------------------------------------


def test_a_forged_row_is_found() -> None:
    play = playing()
    node = play.world.nodes[1]
    row = node.roster.rows[6][1].change
    node.roster.state(3, msgspec.structs.replace(row, moves=row.moves + 1), node.context.now)
    with pytest.raises(Violation, match=r"S14 at .* 1 lists .* which 6 has not signed"):
        play.world.run(5)


def test_an_unsigned_row_is_found_in_a_strict_cluster() -> None:
    play = playing()
    node = play.world.nodes[1]
    node.roster.state(3, Change(6, 3, 1, 1 << 50, 0, 0), node.context.now)
    with pytest.raises(Violation, match=r"S14 at .* 1 lists .* which 6 has not signed"):
        play.world.run(5)


@over("end", ["above", "below"])
def test_an_edge_under_a_false_key_is_found(end: str) -> None:
    play = playing()
    node = play.world.nodes[2]
    if end == "above":
        assert node.uplink.leader is not None
        node.uplink.leader.key = b"k" * 32
    else:
        node.downlink.slots.taken[5].key = b"k" * 32
    with pytest.raises(Violation, match=r"S14 at .* 2 has an edge to"):
        play.world.run(5)


# -- what is drawn --------------------------------------------------------------------------------------------------


def test_most_seeds_have_identities_and_some_are_mixed() -> None:
    clusters = [draw(seed).cluster for seed in range(300)]
    assert 0.7 < sum(each.identities != "none" for each in clusters) / 300 < 0.95
    assert sum(each.identities == "strict" for each in clusters) > 100
    mixed = [each for each in clusters if each.bare]
    assert len(mixed) > 20
    assert all(set(bare_of(each)) <= set(positions_of(each)) for each in mixed)


@over("cluster", ['nodes = 5, bare = "1"', 'nodes = 5, identities = "pinned", bare = "6"'])
def test_only_nodes_of_a_cluster_with_identities_can_have_none(cluster: str) -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.bare"):
        read(f'title = "t"\ncluster = {{ {cluster} }}\nsteps = [ {START} ]\n')
