"""500 and 1,000 real daemons, in every start order: one root, all at home. Minutes; `./dev test --all`."""

import json

import pytest

from .lab_helpers import run_lab

pytestmark = [pytest.mark.lab, pytest.mark.long]


def measured(tmp_path, *arguments):
    file = tmp_path / "runs.json"
    done = run_lab("stabilise", *arguments, "--rest", 0, "--json", file, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


@pytest.mark.parametrize("start", ["together", "random", "reverse"])
@pytest.mark.parametrize("fanout", [2, 8])
def test_500(tmp_path, fanout, start):
    for run in measured(tmp_path, "--nodes", 500, "--fanout", fanout, "--start", start, "--repeat", 2):
        assert (run["stable"], run["roots"], run["at_home"]) == (True, 1, 500)


def test_1000(tmp_path):
    (run,) = measured(tmp_path, "--nodes", 1000, "--fanout", 8)
    assert (run["stable"], run["roots"], run["at_home"]) == (True, 1, 1000)
