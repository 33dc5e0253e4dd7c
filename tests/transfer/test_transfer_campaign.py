"""Seeds of loads and faults on two simulated clusters that exchange jobs, and faults of the core that they find.

Ten thousand of them: `PYTHONPATH=. .venv/bin/python tests/transfer/campaign.py --seeds 10000`.
"""

from __future__ import annotations

import pytest
from loops import over

from subord.services.transfer import away
from subord.services.transfer.exchange import ENTRIES_MAX
from subord.services.transfer.sides import sending
from tests.mutations import PACKAGE, Mutation, mutated
from tests.transfer.campaign import LARGE_EVERY, Stage, main, play
from tests.transfer.faults import FAULTS, try_out
from tests.transfer.world import BrokenError

SEEDS = 100
CAUGHT_SOON = (
    "permits-do-not-count",
    "coming-is-not-counted",
    "vanished-is-gone",
    "accounting-does-not-lag",
    "home-without-a-word",
)


@pytest.mark.slow
def test_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", str(SEEDS)]) == 0, capsys.readouterr().out
    counts = capsys.readouterr().out
    assert all(each in counts for each in ("abroad", "agent behind", "cut", "host", "restored", "silent", "stay"))


@pytest.mark.slow
def test_a_burst_of_a_thousand() -> None:
    verdict = play(LARGE_EVERY - 1)
    assert verdict.broken == "", verdict.text
    assert verdict.counts["abroad"] > 100


def test_equal_seeds_are_equal() -> None:
    assert play(3) == play(3)


@over("entries", [5, 1000])
def test_a_seed_that_fails_leaves_the_bounds_as_they_were(entries: int) -> None:
    stage = Stage(3)
    stage.entries = entries

    def fail() -> None:
        assert [each.ENTRIES_MAX for each in (sending, away)] == [entries, entries]
        raise BrokenError("planned")

    stage.world.after(1, fail)
    with pytest.raises(BrokenError, match="planned"):
        stage.run()
    assert [each.ENTRIES_MAX for each in (sending, away)] == [ENTRIES_MAX, ENTRIES_MAX]


@over("fault", FAULTS)
def test_every_fault_fits_and_compiles(fault: Mutation) -> None:
    source = mutated(fault)
    assert source != (PACKAGE / fault.file).read_text(encoding="utf-8")
    compile(source, fault.file, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT_SOON)
def test_a_fault_is_caught(name: str) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    caught = try_out(fault, 0, 150)
    assert caught.seed is not None
    assert "Error:" not in caught.text, "a broken invariant, and not an accident"


@pytest.mark.long
@pytest.mark.parametrize("name", [each.name for each in FAULTS])
def test_each_fault_is_caught_within_500_seeds(name: str) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    assert try_out(fault, 0, 500).seed is not None
