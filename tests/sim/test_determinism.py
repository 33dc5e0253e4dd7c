"""The same seed gives the same run, line by line, in a process with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

pytestmark = pytest.mark.slow

SEEDS = (3, 7, 118)  # some hundred lines and more each
HASH_SEEDS = ("0", "1", "4242")


@cache
def trace(seed: int, hash_seed: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "subord", "simulate", "--seed", str(seed), "--trace"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_one_trace_in_every_process(seed: int) -> None:
    first, *others = (trace(seed, each) for each in HASH_SEEDS)
    assert first.count("\n") > 100
    assert all(other == first for other in others)


def test_hashes_do_differ_between_these_processes() -> None:
    """Else the test above would prove nothing."""
    program = (
        "from subord.core.view import Place; print(hash('subord'), hash(Place.ROOT), list({'a', 'b', 'c', 'd'}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": each},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for each in HASH_SEEDS
    }
    assert len(outputs) == len(HASH_SEEDS)


def test_other_seeds_give_other_traces() -> None:
    assert len({trace(seed, "0") for seed in SEEDS}) == len(SEEDS)
