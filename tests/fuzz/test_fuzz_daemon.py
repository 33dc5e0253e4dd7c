"""A real daemon gets malformed datagrams on its socket, counts each, and keeps its place.

Nothing is sealed here, so that every datagram reaches the decoder; datagrams against the seal are in envelopes.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.measure import resident_mib
from tests.test_daemon import ENVIRONMENT, SHARED, Started, dropped, inside, settled, until

pytestmark = pytest.mark.slow

__all__ = ("inside",)  # a fixture of tests/test_daemon.py
COUNT = 20_000
GROWTH_MIB_MAX = 4.0
FAULTS = ("too_short", "oversized", "not_subord", "unknown_version", "malformed")
SAME = ("incarnation", "phase", "place", "leader", "path", "leader_changes", "subtree_nodes")
SENDER = Path(__file__).with_name("sender.py")


@pytest.fixture(scope="module")
def pair(inside: list[str]) -> Iterator[tuple[Started, Started]]:
    with settled(inside, "cluster.key_file=", "cluster.insecure=true") as pair:
        yield pair


def sent(inside: list[str], target: str, count: int, seed: int) -> dict[str, int]:
    """The datagrams sent to `target`, by fault."""
    command = [*inside, sys.executable, str(SENDER), target, f"{SHARED}.9", str(count), str(seed)]
    ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, int] = json.loads(ran.stdout)
    return result


def counted(daemon: Started) -> dict[str, int]:
    return {fault: dropped(daemon, fault) for fault in FAULTS}


def stand(pair: tuple[Started, Started]) -> list[dict[str, Any]]:
    return [{key: each.show("status")[key] for key in SAME} for each in pair]


def test_a_daemon_counts_malformed_datagrams_and_keeps_its_place(
    inside: list[str], pair: tuple[Started, Started]
) -> None:
    daemon = pair[1]
    warm = sent(inside, f"{SHARED}.2", 2_000, seed=1)
    before, memory_before = stand(pair), resident_mib(daemon.process.pid)
    assert before[1]["leader"] == f"{SHARED}.1"
    assert memory_before > 10, "the process of the daemon"

    again = sent(inside, f"{SHARED}.2", COUNT, seed=2)

    assert set(again) == set(FAULTS)
    assert sum(again.values()) == COUNT
    until(lambda: counted(daemon) == {fault: warm[fault] + again[fault] for fault in FAULTS}, "each is counted once")
    assert stand(pair) == before
    assert counted(pair[0]) == dict.fromkeys(FAULTS, 0), "its leader got none"
    assert resident_mib(daemon.process.pid) - memory_before < GROWTH_MIB_MAX
    assert [line for line in daemon.whole_log.splitlines() if not line.startswith(("INFO ", "WARNING "))] == []
    assert len(daemon.log.splitlines()) < 100, "no line for each"
    assert daemon.process.poll() is None
