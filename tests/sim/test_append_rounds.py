"""Rounds of an order that appends a line on each node while interior nodes fail; ten rounds a seed.

`./dev campaign --rounds --seeds 100` plays a thousand.
"""

from __future__ import annotations

from typing import Any

import pytest

from subord.cli import main
from subord.core.carriage.engine.interface import Act
from subord.sim import campaign
from subord.sim.draw.aim import Aim
from subord.sim.draw.seed import draw
from subord.sim.services.agents import Agents
from subord.sim.services.orders import Orders
from subord.sim.services.rounds import RoundPlay
from subord.sim.services.truth import LEASED

ROUNDS = Aim(rounds=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        range(2),
        pytest.param(range(2, 8), marks=pytest.mark.slow),
        pytest.param(range(8, 100), marks=pytest.mark.long),
    ],
    ids=["20 rounds", "60 rounds", "the rest of 1,000 rounds"],
)
def test_each_live_target_runs_it_once(seeds: range) -> None:
    summary = campaign.run(seeds, aim=ROUNDS, jobs=1)
    assert summary.failed == [], "\n".join(campaign.report(summary))


def broken(seeds: range) -> set[str]:
    """The invariants that seeds break, in this process."""
    return {campaign.try_seed(seed, aim=ROUNDS).broken for seed in seeds}


@pytest.mark.slow
def test_an_agent_that_forgets_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs a tag again that comes again."""
    act = Agents.act

    def forgetful(agents: Agents, position: int, *given: Any) -> None:
        agents._outcomes.clear()
        act(agents, position, *given)

    monkeypatch.setattr(Agents, "act", forgetful)
    assert "C3" in broken(range(2))


@pytest.mark.slow
def test_a_node_that_runs_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    act = Orders._act

    def idle(orders: Orders, position: int, engine: Any, given: Act) -> None:
        if position % 5 or given.order.service != LEASED:
            act(orders, position, engine, given)

    monkeypatch.setattr(Orders, "_act", idle)
    assert broken(range(2)) == {"C10"}


@pytest.mark.slow
def test_an_outcome_without_a_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    began = "subord.sim.services.lease_judge.LeaseJudge.began"
    monkeypatch.setattr(began, lambda judge, position, tag: judge.alone_s.update({(position, tag): 0.0}))
    assert broken(range(2)) == {"C6"}


@pytest.mark.slow
def test_a_seed_is_the_same_each_time() -> None:
    plays = [RoundPlay(draw(3, aim=ROUNDS)) for _ in range(2)]
    lines: list[list[str]] = [[], []]
    for play, said in zip(plays, lines, strict=True):
        play.trace(said.append)
        play.run()
    assert lines[0] == lines[1]
    faults = {fault for each in lines[0] for fault in ("kill", "restart", "stop", "cut") if f"; {fault} [" in each}
    assert len(faults) > 1


@pytest.mark.slow
def test_the_command_that_replays_a_seed_plays_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    command = campaign.replay(1, aim=ROUNDS)
    assert command == "subord simulate --seed 1 --rounds --trace"
    assert main(command.split()[1:]) == 0
    assert "round 10: " in capsys.readouterr().out
