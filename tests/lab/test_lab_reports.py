"""Reports of real daemons: any node shows the fold of all, before and after deaths, and never of more nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab

from subord.client.daemon import ask

pytestmark = pytest.mark.lab(few=True)

DAEMON = Path(__file__).with_name("reporting_daemon.py")
NODES = 15
SUM = NODES * (NODES + 1) // 2
WHOLE_S_MAX = 60.0
INTERVALS_MAX = 2  # rounds of all levels follow each other, so a fold is hardly older than one


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(nodes=NODES, fanout=2, timing="lab", daemon=str(DAEMON)) as lab:
        lab.start_all()
        lab.wait_stable(WHOLE_S_MAX)
        yield lab


def load(lab: Lab, position: int) -> dict[str, Any]:
    """What a node says of all. It never counts more nodes than it asks."""
    found: dict[str, Any] = ask(str(lab.control_socket(position)), "/v1/load?budget=3", 10.0)
    assert found["told"] + sum(each["count"] for each in found["missing"]) == found["asked"] <= NODES
    assert found["nodes"] <= NODES
    return found


ALL = (NODES, NODES, SUM, True, f"1-{NODES}")


def all_of(found: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(found[name] for name in ("asked", "told", "sum", "complete", "positions"))


def missing(lab: Lab, position: int) -> tuple[int, dict[str, list[str]]]:
    """How many nodes are asked, and which do not tell, by cause."""
    found = load(lab, position)
    return found["asked"], {each["cause"]: each["addresses"] for each in found["missing"]}


def is_whole(lab: Lab, position: int, alive: set[int]) -> bool:
    found = load(lab, position)
    return bool(found["told"] == found["nodes"] == len(alive)) and bool(found["sum"] == sum(alive))


def test_every_node_shows_the_fold_of_all_and_names_the_dead(lab: Lab) -> None:
    alive = set(range(1, NODES + 1))
    assert wait_until(lambda: is_whole(lab, 9, alive), WHOLE_S_MAX, 0.1)
    for position in (1, 6, NODES):
        assert wait_until(lambda at=position: all_of(load(lab, at)) == ALL, WHOLE_S_MAX, 0.1), load(lab, position)
        assert wait_until(lambda at=position: load(lab, at)["oldest_ms"] <= INTERVALS_MAX * 1000, WHOLE_S_MAX, 0.1)
    for dead in (13, 2):  # a leaf, and a leader
        lab.kill(dead)
        alive.discard(dead)
        assert wait_until(lambda: is_whole(lab, 7, alive), WHOLE_S_MAX, 0.1)
    expected = {"down": ["10.0.0.2", "10.0.0.13"]}  # at first they may be silent, or not be members of the new root
    assert wait_until(lambda: missing(lab, 7) == (NODES, expected), WHOLE_S_MAX, 0.1), missing(lab, 7)
