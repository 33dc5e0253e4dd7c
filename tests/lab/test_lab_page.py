"""The page of real daemons in a real browser: all nodes with their colours, then without one that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chromium import MISSING, programs

from .lab_helpers import netlab

pytestmark = [pytest.mark.lab(few=True), pytest.mark.browser]

PROGRAM = Path(__file__).parents[1] / "helpers" / "live_page.py"
METRIC = "node_load1"
STABLE_S_MAX = 120.0
ELEMENTS_MAX = 3000


@pytest.mark.parametrize("nodes", [12, pytest.param(500, marks=pytest.mark.long)])
def test_the_page_of_real_nodes(nodes: int, tmp_path: Path) -> None:
    if programs() is None:
        pytest.skip(MISSING)
    with netlab("lab").Lab(nodes, 8) as lab:
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        url = f"http://{address(lab, 1)}:9717/"
        words = [sys.executable, str(PROGRAM), url, str(nodes), METRIC, str(tmp_path / "page.png")]
        with subprocess.Popen(
            netlab("processes.enter").command_in(lab.options.name, "1", words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as page:
            whole = line_of(page)
            assert whole["header"]["nodes"] == str(nodes)
            assert sum(whole["steps"].values()) == nodes
            assert whole["elements"] <= ELEMENTS_MAX
            victim = nodes - 3
            lab.kill(victim)
            page.stdin.write(address(lab, victim) + "\n")
            page.stdin.flush()
            found = line_of(page)
            assert found["steps"]["no value"] == 1
            assert found["complaints"] == []
            assert page.wait(60.0) == 0


def address(lab: Any, position: int) -> str:
    found: str = netlab("processes.enter").find_node(lab.client.ask("info"), str(position))["address"]
    return found


def line_of(page: subprocess.Popen[str]) -> dict[str, Any]:
    """What the program says next; it ends when something does not come."""
    assert page.stdout is not None
    text = page.stdout.readline()
    assert text, f"the page program has ended with {page.wait(60.0)}"
    found: dict[str, Any] = json.loads(text)
    return found
