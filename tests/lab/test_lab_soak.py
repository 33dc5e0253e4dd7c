"""A minute of churn on a sparse network, as the long runs do it (netns-lab/netlab/experiments/soak.py)."""

import json

import pytest

from .lab_helpers import run_lab

pytestmark = [pytest.mark.lab, pytest.mark.long]


def test_a_minute_of_churn_is_written_down_with_the_depth_of_the_tree(tmp_path):
    file = tmp_path / "soak.json"
    options = ("--nodes", "20", "--layout", "random", "--seeds", "1", "--minutes", "1", "--json", str(file))
    assert run_lab("soak", *options, timeout=300).returncode == 0
    found = json.loads(file.read_text())
    assert (found["nodes"], found["layout"], found["failure"]) == (20, "random", None)
    assert [sample["minute"] for sample in found["samples"]] == [0, 1]
    assert all(found["depth_optimum"] <= sample["depth"] <= found["depth_optimum"] + 3 for sample in found["samples"])
