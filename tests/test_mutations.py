"""The mutations of tests/mutations.py fit the core, and the campaign catches some of them.

All of them: `.venv/bin/python tests/mutations.py`, or the long test below.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from loops import over

from tests import mutations
from tests.mutations import MUTATIONS, PACKAGE, Mutation, OutOfDateError, first_failure, mutated, try_out

pytestmark = pytest.mark.slow

SEEDS = 100
FIRST = {
    "those-above-are-listed": 111,
    "those-above-are-taken-in": 41,
    "old-sessions-count": 13,
    "any-node-coordinates": 12,
    "places-are-kept": 10,
    "causes-are-left-out": 5,
    "invented-results-count": 3,
    "results-count-twice": 2,
    "half-blobs-are-whole": 1,
    "noted-tags-are-forgotten": 1,
}
"""The first seed to try, where the seeds before take seconds, and none catches the fault."""
CAUGHT_SOON = {  # within some seeds
    "slots-without-end": "S3",
    "slot-leaks": "S2",
    "roots-never-search": "L1",
    "older-proposals-count": "S4",
    "old-sessions-count": "S4",
    "alternates-without-path": "L3",
    "places-are-kept": "S2",
    "newcomers-too-deep": "S12",
    "silence-extended-once": "S7",
    "cut-survives-sleep": "S7",
    "those-above-are-listed": "S2",
    "those-above-are-taken-in": "S4",
    "homes-are-held-long": "L7",
    "orphans-rest": "L8",
    "guests-stay-deep": "L10",
    "results-count-twice": "C1",
    "causes-are-left-out": "C2",
    "tags-count-in-vain": "C3",
    "noted-tags-are-forgotten": "C3",
    "questions-stay": "C4",
    "invented-results-count": "C6",
    "half-blobs-are-whole": "C12",
    "sinks-that-fail-acknowledge": "C8",
    "the-middle-acknowledges-records": "C8",
    "any-node-coordinates": "C11",
    "hung-nodes-hide-branches": "C11",
}


def named(name: str) -> Mutation:
    return next(each for each in MUTATIONS if each.name == name)


@over("mutation", MUTATIONS)
def test_every_mutation_fits_the_core_and_compiles(mutation: Mutation) -> None:
    source = mutated(mutation)
    assert source != (PACKAGE / mutation.file).read_text(encoding="utf-8")
    compile(source, mutation.file, "exec")


def test_names_are_unique() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("name", CAUGHT_SOON)
def test_a_fault_is_caught(name: str) -> None:
    mutation = named(name)
    first = FIRST.get(name, 0)
    outcome = try_out(mutation, range(first, first + SEEDS))
    assert outcome.broken == CAUGHT_SOON[name], outcome
    control = first_failure([outcome.seed], mutation.mapping, mutation.script, services=mutation.services)
    assert control == (None, "", ""), "the same seed without the fault"


def test_a_missing_text_is_an_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stale = Mutation("stale", "Nothing.", "core/mapping/mapping.py", "no such text", "")
    with pytest.raises(
        OutOfDateError, match=r"stale is out of date: subord/core/mapping/mapping\.py holds .* 0 times"
    ):
        mutated(stale)
    monkeypatch.setattr(mutations, "MUTATIONS", (stale,))
    assert mutations.main([]) == 2
    assert "stale is out of date" in capsys.readouterr().err


def test_an_uncaught_fault_is_an_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = Mutation(
        "harmless",
        "Nothing.",
        "core/mapping/mapping.py",
        "return candidate > 0 and self.rank(candidate) < self.rank(node)",
        "return node > candidate > 0",
    )
    monkeypatch.setattr(mutations, "MUTATIONS", (harmless,))
    assert mutations.main(["--seeds", "2", "--control", "1"]) == 1
    told = capsys.readouterr()
    assert "2 seeds did not catch harmless" in told.err
    assert "harmless                    none            (2)" in told.out


def test_a_failing_control_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the core itself is not attributed to a mutation."""
    faulty = named("slots-without-end")
    shutil.copytree(PACKAGE, tmp_path / "subord")
    (tmp_path / "subord" / faulty.file).write_text(mutated(faulty), encoding="utf-8")
    monkeypatch.setattr(mutations, "PACKAGE", tmp_path / "subord")
    assert mutations.main(["slot-leaks", "--control", "10"]) == 1
    assert "without any fault seed" in capsys.readouterr().err


@pytest.mark.long
def test_every_fault_is_caught() -> None:
    assert mutations.main([]) == 0
