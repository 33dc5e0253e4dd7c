"""What all tests share."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings


def pytest_configure() -> None:
    """Who is started in the background has SIGINT ignored, and so has what it starts; but Ctrl-C is tested, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# The same examples on every machine, and none fails because others keep the machine busy.
settings.register_profile("subord", derandomize=True, deadline=None)
settings.load_profile("subord")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run the tests marked `long`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --all the long tests are deselected, and pytest counts them in its last line."""
    if config.getoption("--all"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
