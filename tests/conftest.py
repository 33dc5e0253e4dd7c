"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import limiters
import pytest
import scheduling
import skips
from hypothesis import settings

if TYPE_CHECKING:
    from tests.api.served_ledger import FakeLedger


def pytest_configure(config: pytest.Config) -> None:
    """The worker that computes steps back. A process in the background ignores SIGINT, and so do its children; but
    Ctrl-C is tested, too."""
    worker = getattr(config, "workerinput", None)
    in_groups = getattr(config.option, "loadgroup", False)  # of a worker; pytest-xdist
    if worker and in_groups and scheduling.has_what_computes(worker["workerid"], worker["workercount"]):
        scheduling.step_back()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# As in campaigns: with Python's own threshold a fifteenth of the processor time goes into looking for garbage.
gc.set_threshold(50_000, *gc.get_threshold()[1:])

# The same examples on every machine, and none fails because others keep the machine busy.
settings.register_profile("subord", derandomize=True, deadline=None)
settings.load_profile("subord")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run the tests marked `long`")
    parser.addoption(
        "--quick", action="store_true", help="the first tier: without real programs, and what takes long"
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Where CI is set, no program that can be installed is missing, nor rights: the tests fail instead of being
    skipped."""
    outcome = yield
    report = outcome.get_result()
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    demand = skips.demand(reason)
    if os.environ.get("CI") and demand:
        report.outcome, report.longrepr = "failed", f"{reason}; {demand}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which tests were skipped, and the command that brings what they miss."""
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])]
    lines = list(skips.summary(reasons))
    if lines:
        terminalreporter.section("skipped tests")
    for line in lines:
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Ends everything where groups would be ignored: pytest 9.2 does so with pytest-xdist 3.8 (its issue 1386)."""
    if node.config.getoption("dist") == "loadgroup" and not all("@" in each for each in ids):
        pytest.exit(
            "These versions of pytest and pytest-xdist ignore --dist loadgroup, and labs would run beside each "
            "other. No test was run. Take the versions of constraints.txt: ./dev setup",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling | None:
    return scheduling.Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Generator[None, Any, None]:
    """Leaves nearly no garbage, and much that stays: to look for it, then and later, takes a third of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the groups are read, and before -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is not of the tier is deselected, and pytest counts it in its last line.

    Of several workers each takes a group at a time (scheduling.py).
    """
    if config.getoption("--quick") and config.getoption("--all"):
        raise pytest.UsageError("--quick or --all, not both")
    left_out = {"long", "slow", "lab", *FOLDERS} if config.getoption("--quick") else {"long"}
    kept, deselected = [], []
    for item in items:
        if item.path.parent.name in FOLDERS:
            item.add_marker(item.path.parent.name)
        marks = {mark.name: mark for mark in reversed(list(item.iter_markers()))}  # of a name the nearest
        if not left_out.isdisjoint(marks) and not config.getoption("--all"):
            deselected.append(item)
            continue
        group = scheduling.group_of(item, marks)
        item.add_marker(pytest.mark.xdist_group(group))
        kept.append((scheduling.order_of(group), "lab" not in marks, item))
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for *_, item in sorted(kept, key=lambda each: each[:2])]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    scheduling.give_way(item.path)


FOLDERS = ("deploy", "browser")
"""Folders of tests/ whose tests are marked with the name of the folder."""


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """Without what an earlier test has left: limits of threads, and the way in which programs start. fork(2) copies
    the page tables of hundreds of MiB, so all starts in a worker would take thirty times as long."""
    uses_vfork = subprocess._USE_VFORK  # type: ignore[attr-defined]
    yield
    subprocess._USE_VFORK = uses_vfork  # type: ignore[attr-defined]
    limiters.renew()


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """The URL of a server of PostgreSQL of the tests of one file."""
    import postgresql_server

    with postgresql_server.running() as url:
        yield url


@pytest.fixture
def ledger() -> FakeLedger:
    """What writers give to the daemon of `socket`."""
    from tests.api.served_ledger import FakeLedger

    return FakeLedger()


@pytest.fixture
def socket(ledger: FakeLedger) -> Iterator[str]:
    """The control socket of a daemon with the ledger."""
    from tests.api.served_ledger import served

    with served(ledger) as path:
        yield path
