"""The lab's modules are scripts beside the package, so the tests show Python the way to them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))


@pytest.fixture
def nft():
    """Skips where nftables is not installed; `.ci/run` installs it."""
    from netlab.topology import filters

    if filters.obstacle(rootless=False) == filters.MISSING:
        pytest.skip(filters.MISSING)
