"""Two hundred fixed seeds of orders and records during disasters, half of them with reports, half with a blob.

`./dev campaign --services --seeds 10000` is the long form.
"""

from __future__ import annotations

import pytest

from subord.cli import main
from subord.sim import campaign
from subord.sim.draw.aim import Aim
from subord.sim.draw.seed import draw
from subord.sim.services.play import OrderPlay
from subord.sim.violation import Violation

SERVICES = Aim(services=True)
QUICK = 2
PARTS = [range(max(first, QUICK), first + 25) for first in range(0, 200, 25)]


def test_some_seeds_hold() -> None:
    summary = campaign.run(range(QUICK), aim=SERVICES, jobs=1)
    assert summary.failed == [], "\n".join(campaign.report(summary))


@pytest.mark.parametrize(
    "table", ["tags", "report services", "report records", "report bytes", "ledger batch", "blob cache bytes"]
)
def test_the_judge_knows_the_tables_of_all_parts(table: str) -> None:
    play = OrderPlay(draw(1, aim=SERVICES))
    assert play.judge.sizes_max[table] > 0
    play.judge.sizes_max[table] = -1
    with pytest.raises(Violation, match=rf"C4 .*keeps 0 {table}"):
        play.run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1130, 6764, 7095])
def test_seeds_that_failed_hold(seed: int) -> None:
    """1130: 19 comes with four nodes below it 0.3 s before the answer of the root that it comes to.

    6764: an order that was delayed by four seconds arrives after the weather has cleared, and with it a lease; the
    judge counted from the end of the weather on.

    7095: the goodbye of 33 to 18 is lost, and in a wide network 18 gives it up, and the node below it, after
    14.5 s; the judge allowed 10 s, in which a node may be counted twice.
    """
    summary = campaign.run([seed], aim=SERVICES)
    assert summary.failed == [], "\n".join(campaign.report(summary))


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("seeds", PARTS, ids=lambda part: f"{part.start}-{part.stop - 1}")
def test_two_hundred_seeds_hold(seeds: range) -> None:
    """With those above."""
    summary = campaign.run(seeds, aim=SERVICES, jobs=1)
    assert summary.failed == [], "\n".join(campaign.report(summary))


@pytest.mark.slow
def test_a_seed_is_the_same_each_time() -> None:
    plays = [OrderPlay(draw(3, aim=SERVICES)) for _ in range(2)]
    lines: list[list[str]] = [[], []]
    for play, said in zip(plays, lines, strict=True):
        play.trace(said.append)
        play.run()
    assert lines[0] == lines[1]
    assert any("told" in each for each in lines[0])


@pytest.mark.slow
def test_the_command_that_replays_a_seed_plays_orders(capsys: pytest.CaptureFixture[str]) -> None:
    command = campaign.replay(1, aim=SERVICES)
    assert command == "subord simulate --seed 1 --services --trace"
    assert main(command.split()[1:]) == 0
    assert "ask 1: " in capsys.readouterr().out
