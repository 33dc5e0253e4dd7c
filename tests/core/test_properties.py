"""Every scenario heals: random scenarios of small clusters, shrunk to the shortest one that does not.

The checkers are those of the simulator (subord.sim.checkers.safety, subord.sim.checkers.liveness). A campaign of
seeds draws larger clusters and more faults; here Hypothesis looks for the smallest failing scenario, and prints it
as a file for `subord simulate`.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from subord.sim.player import Play
from subord.sim.scenario import definition, written
from subord.sim.scenario.definition import Cluster, Scenario, Step, folded

SIZE = 126
PAUSES_S = (0.01, 0.1, 0.5, 2.0, 5.0)


def steps(positions: list[int]) -> st.SearchStrategy[list[Step]]:
    """Faults of `positions`, and time that passes."""
    one = st.sampled_from(positions).map(str)
    return st.lists(
        st.one_of(
            st.builds(definition.Start, nodes=one),
            st.builds(definition.Kill, nodes=one),
            st.builds(definition.Vanish, nodes=one),
            st.builds(definition.Leave, nodes=one),
            st.builds(definition.Reuse, nodes=one),
            st.builds(definition.Pause, nodes=one),
            st.builds(definition.Resume, nodes=one),
            st.builds(definition.Restart, nodes=one, down_s=st.sampled_from((0.0, 0.1, 0.5))),
            st.builds(definition.Cut, nodes=one),
            st.builds(definition.Block, source=one, target=one),
            st.builds(definition.Mend),
            st.builds(definition.Weather, loss=st.sampled_from((0.05, 0.3)), jitter_s=st.sampled_from((0.0, 0.1))),
            st.builds(definition.Pass, s=st.sampled_from(PAUSES_S)),
        ),
        min_size=4,
        max_size=40,
    )


@st.composite
def scenarios(draw: st.DrawFn, *, dense: bool) -> Scenario:
    """A cluster of up to 16 nodes, and up to 40 steps after its start."""
    if dense:
        positions = list(range(1, draw(st.integers(3, 16)) + 1))
    else:
        positions = sorted(draw(st.lists(st.integers(1, SIZE), min_size=2, max_size=12, unique=True)))
    cluster = Cluster(
        positions=folded(positions),
        network="10.0.0.0/25",
        fanout=draw(st.integers(2, 4)),
        guest_slots=draw(st.integers(1, 4)),
        timing="lab",
        disk=draw(st.booleans()),
    )
    told = (definition.Start(), *draw(steps(positions)))
    return Scenario(title="drawn", seed=draw(st.integers(0, 999)), cluster=cluster, steps=told)


WORLDS = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.slow
@settings(WORLDS, max_examples=100)
@given(scenarios(dense=False))
def test_random_positions(script: Scenario) -> None:
    note(written.write(script))
    Play(script).run()


@pytest.mark.slow
@settings(WORLDS, max_examples=50)
@given(scenarios(dense=True))
def test_dense_positions(script: Scenario) -> None:
    note(written.write(script))
    Play(script).run()
