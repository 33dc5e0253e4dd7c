"""The lab's modules are scripts beside the package, so the tests show Python the way to them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that fails takes no later one with it that has the same lab."""
    report = yield
    if call.when == "call" and report.failed:
        from netlab.lab import Lab

        from .lab_helpers import mend

        for lab in {id(each): each for each in item.funcargs.values() if isinstance(each, Lab)}.values():
            mend(lab)
    return report


@pytest.fixture
def nft():
    """Skips where nftables is not installed; `.ci/run` installs it."""
    from netlab.topology import filters

    if filters.obstacle(rootless=False) == filters.MISSING:
        pytest.skip(filters.MISSING)
