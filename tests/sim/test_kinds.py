"""Every kind of fault and of cluster that a seed can draw: its steps, and seeds that pass with it.

A kind whose seeds take minutes is drawn only by name.
"""

from __future__ import annotations

import pytest
from loops import over

from subord.sim import campaign
from subord.sim.draw.aim import Aim
from subord.sim.draw.kinds import BY_NAME, CLUSTERS, KINDS, LARGER, USUAL, kinds_of
from subord.sim.draw.seed import draw
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Scenario, positions_of, read
from subord.sim.scenario.written import write

SEEDS = range(200)
FEW = range(1)


def drawn(kind: str, seeds: range = SEEDS) -> list[Scenario]:
    return [draw(seed, "ip", Aim(kinds=(kind,))) for seed in seeds]


@pytest.mark.slow
@over("kind", KINDS)
def test_a_kind_can_be_drawn_alone_written_and_read(kind: str) -> None:
    for script in drawn(kind, range(30)):
        assert read(write(script)) == script


@pytest.mark.slow
@over("kind", [kind for kind in KINDS if kind not in BY_NAME])
def test_the_core_passes_a_kind(kind: str) -> None:
    summary = campaign.run(FEW, aim=Aim(kinds=(kind,), nodes=(4, 16)))
    assert summary.failed == [], "\n".join(campaign.report(summary))


def test_seeds_draw_every_kind_but_those_that_are_drawn_by_name() -> None:
    found = {kind for seed in range(2000) for kind in kinds_of(seed)}
    assert found == set(KINDS) - set(BY_NAME)
    assert any(kinds_of(seed) == USUAL for seed in range(10))
    assert set(KINDS) == {*USUAL, *LARGER, *CLUSTERS}


def test_many_and_exodus_hit_a_fifth_to_all() -> None:
    shares = set()
    for script in drawn("many"):
        nodes = len(positions_of(script.cluster))
        for step in script.steps:
            if isinstance(step, definition.Kill | definition.Vanish | definition.Reuse | definition.Pause):
                hit = definition.select(step.nodes, script.cluster, among=positions_of(script.cluster))
                shares.add(round(len(hit) / nodes, 1))
    assert {0.2, 1.0} <= shares
    leaves = [step for script in drawn("exodus") for step in script.steps if isinstance(step, definition.Leave)]
    assert any("," in leave.nodes for leave in leaves)


def test_a_rack_is_a_row_of_neighbours() -> None:
    for script in drawn("rack"):
        cast = positions_of(script.cluster)
        for step in script.steps:
            if isinstance(step, definition.Vanish | definition.Kill | definition.Cut):
                hit = definition.select(step.nodes, script.cluster, among=cast)
                at = cast.index(hit[0])
                assert hit == cast[at : at + len(hit)]


def test_power_is_cut_everywhere_and_comes_back() -> None:
    steps = [step for script in drawn("power") for step in script.steps]
    cuts = [at for at, step in enumerate(steps) if isinstance(step, definition.Vanish)]
    assert cuts
    for at in cuts:
        assert steps[at] == definition.Vanish(nodes="all")
        assert isinstance(steps[at + 2], definition.Start)


def test_a_rolling_restart_stops_one_after_the_other() -> None:
    stopped = [
        step.nodes
        for script in drawn("rolling")
        for step in script.steps
        if isinstance(step, definition.Leave | definition.Kill)
    ]
    assert stopped
    assert all(nodes.isdigit() for nodes in stopped)


@pytest.mark.slow
def test_clusters_have_their_shape() -> None:
    assert {script.cluster.guest_slots for script in drawn("one-guest")} == {1}
    assert {script.cluster.fanout for script in drawn("wide")} == {128, 256, 512, 1024}
    assert all(":" in script.cluster.network for script in drawn("ipv6"))
    sizes = [len(positions_of(script.cluster)) for script in drawn("sparse")]
    assert min(sizes) >= 17
    assert 500 < max(sizes) <= 1000


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 8])
def test_a_mass_leave_with_one_guest_slot(seed: int) -> None:
    aim = Aim(fanout=8, guest_slots=1, nodes=(72, 72), kinds=("leave", "kill"))
    assert campaign.run([seed], aim=aim).failed == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [9])
def test_flipped_bits(seed: int) -> None:
    assert campaign.run([seed], aim=Aim(nodes=(3, 14), kinds=("flip",))).failed == []
