"""Seeds of loads and faults on simulated servers, and faults of the service that they find.

Ten thousand of them: `PYTHONPATH=. .venv/bin/python tests/machines/campaign.py --seeds 10000`.
"""

from __future__ import annotations

import pytest
from loops import over

from subord.services.machines.model import Machine, State
from tests.machines.campaign import LARGE_EVERY, Stage, main, play
from tests.machines.faults import FAULTS, try_out
from tests.machines.world import BrokenError
from tests.mutations import PACKAGE, Mutation, mutated

SEEDS = 100
CAUGHT_SOON = {
    "paused-is-free": 30,
    "pending-is-forgotten": 0,
    "pending-takes-no-room": 0,
    "coming-is-not-counted": 0,
    "busy-is-idle": 0,
    "always-on-is-ours": 0,
    "windows-without-end": 0,
    "last-come-first-served": 10,
    "given-starts": 5,
    "overbooked-is-left": 10,
}
"""The seed from which on some are tried."""


@pytest.mark.slow
def test_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", str(SEEDS)]) == 0, capsys.readouterr().out
    counts = capsys.readouterr().out
    assert all(each in counts for each in ("agent", "process", "sleep", "hand-lower", "hand-foreign", "starts"))


@pytest.mark.slow
def test_a_hundred_servers() -> None:
    verdict = play(LARGE_EVERY - 1)
    assert verdict.broken == "", verdict.text
    assert verdict.counts["starts"] > 10


def test_equal_seeds_are_equal() -> None:
    assert play(3) == play(3)


@pytest.mark.slow
def test_a_process_that_slept_counts_on_no_server_with_an_old_answer() -> None:
    """It starts other machines for the jobs, as when the agent there is dead (5894: asleep from 86 to 105 s)."""
    verdict = play(5894)
    assert verdict.broken == "", verdict.text


def test_twice_leaves_out_only_what_had_begun_before_a_decision_without_the_server() -> None:
    stage = Stage(0)
    world, watch = stage.world, stage.watch
    kind = next(each for each in world.plan.types if each.slots == 1)
    world.now = 300
    for name, began in {"a": 250, "b": 250, "c": 281}.items():
        machine = Machine(name, kind.need, State.ON, kind.name)
        world.add("s000", machine)
        world.fresh[name] = (began, "s000")
    world.demand[kind.name].append(1)
    watch.unheard["s000"] = 280
    watch.check_twice(kind.name)
    world.fresh["b"] = (281, "s000")
    with pytest.raises(BrokenError, match="twice: 2 unused machines"):
        watch.check_twice(kind.name)


@over("fault", FAULTS)
def test_every_fault_fits_and_compiles(fault: Mutation) -> None:
    source = mutated(fault)
    assert source != (PACKAGE / fault.file).read_text(encoding="utf-8")
    compile(source, fault.file, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT_SOON)
def test_a_fault_is_caught(name: str) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    caught = try_out(fault, CAUGHT_SOON[name], 40)
    assert caught.seed is not None
    assert "Error:" not in caught.text, "a broken invariant, and not an accident"


@pytest.mark.long
@pytest.mark.parametrize("name", [each.name for each in FAULTS])
def test_each_fault_is_caught_within_500_seeds(name: str) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    assert try_out(fault, 0, 500).seed is not None
