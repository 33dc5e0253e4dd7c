"""`subord exec` on real daemons and agents, as an operator types it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab

from .lab_helpers import SUBORD, settled

pytestmark = pytest.mark.lab(few=True)

NODES = 7
WAIT_S_MAX = 30.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        until(lambda: typed(lab, "-a", "-q", "true").returncode == 0, "all nodes run it")
        yield lab


def until(condition: Any, what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.05), what


def typed(lab: Lab, *words: str, at: int = 5) -> subprocess.CompletedProcess[str]:
    return lab.run(at, SUBORD, "exec", *words)


def test_lines_with_the_node(lab: Lab) -> None:
    done = typed(lab, "-a", "--shell", "echo out; echo err >&2; echo $SUBORD_NODE")
    assert done.returncode == 0, done.stderr
    expected = [f"{lab.address(each)}: {word}" for each in lab.positions for word in ("out", lab.address(each))]
    assert sorted(done.stdout.splitlines()) == sorted(expected)
    print(done.stderr, done.stdout)
