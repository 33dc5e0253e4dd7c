"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import limiters
import pytest
import skips
from hypothesis import settings

if TYPE_CHECKING:
    from tests.api.served_ledger import FakeLedger


def pytest_configure() -> None:
    """A process in the background ignores SIGINT, and so do its children; but Ctrl-C is tested, too."""
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

    Of several workers each takes a group at a time, in the order of FIRST.
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
        group = group_of(item, marks)
        item.add_marker(pytest.mark.xdist_group(group))
        kept.append((order_of(group), "lab" not in marks, item))
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for *_, item in sorted(kept, key=lambda each: each[:2])]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What only computes gives way to real daemons, whose timers are those of a machine with time to spare."""
    if os.geteuid() == 0:  # another user cannot take the priority back
        computes = item.path.parent.name in COMPUTING or item.path.name in COMPUTING
        os.setpriority(os.PRIO_PROCESS, 0, COMPUTING_NICE if computes else 0)


COMPUTING = (
    "core",
    "sim",
    "fuzz",
    "transcripts",
    "test_async.py",
    "test_machines_campaign.py",
    "test_mutations.py",
    "test_mutants.py",
    "test_shares_tree.py",
    "test_stock_debian.py",
    "test_tidy.py",
    "test_wire.py",
)
"""Folders and files of tests that start no daemon, or wait for it with patience."""
COMPUTING_NICE = 10
FOLDERS = ("deploy", "browser")
"""Folders of tests/ whose tests are marked with the name of the folder."""
FIRST = (
    "lab",
    "deploy",
    "test_lab_elastic.py",
    "test_order_campaign.py",
    "test_shares_tree.py",
    "test_lab_elastic_deaths.py",
    "test_stock_debian.py",
    "test_transfer_real.py",
    "test_transfer_two_trees.py",
    "test_lab_prometheus.py",
    "test_scenario.py",
    "test_lab_memory.py",
    "test_async.py",
    "test_lab_exec.py",
    "test_batch_real.py",
    "test_lab_machines.py",
    "test_agent_elastic_processes.py",
    "test_agent_machines_processes.py",
    "test_mutations.py",
    "test_elastic_slurm_real.py",
    "test_lab_peers.py",
    "test_lab_metrics.py",
    "test_lab_evaluate.py",
    "test_daemon.py",
    "test_campaign.py",
    "test_lab_identities.py",
    "test_lab_reports.py",
    "test_lab_accounting.py",
    "test_memory_of_members.py",
    "test_page_live.py",
    "test_lab_files.py",
    "test_lab_arp.py",
    "test_lab_keys.py",
    "test_sparse_trees.py",
    "test_lab_page.py",
    "test_machines_campaign.py",
    "test_agent_machines_commands.py",
    "test_machines_together.py",
    "test_lab_hosts.py",
    "test_hung_node.py",
    "test_kinds.py",
    "test_account_gridengine.py",
    "test_lab_rounds.py",
    "test_lab_agents.py",
    "test_prometheus.py",
    "test_lab_services.py",
    "test_site.py",
    "test_lab_sites.py",
    "test_lab_files_sets.py",
    "test_verification.py",
    "test_pins.py",
    "test_lab_life.py",
    "test_moves.py",
    "test_lab_nodes.py",
    "test_lab_wide.py",
    "test_sites.py",
    "test_account_epilogs.py",
    "test_agent_transfer.py",
    "test_account_input.py",
    "test_transfer_driver.py",
    "test_transfer_files_disks.py",
)
"""The groups of ten seconds and more. Those that wait for real daemons take turns with those that compute, the
longest of each kind first: where all wait the processors are idle, and where all compute the labs are late."""


def order_of(group: str) -> int:
    name = group.partition(":")[0]
    return FIRST.index(name) if name in FIRST else len(FIRST)


def group_of(item: pytest.Item, marks: Mapping[str, pytest.Mark]) -> str:
    """One worker has the large labs: two at once would take each other's time. Tests of installed machines share a
    package, and those of a stock Debian one root. Of the rest each file goes by itself, or each case."""
    if item.path.name == "test_stock_debian.py":
        return item.path.name
    if item.path.parent.name == "deploy":
        return "deploy"
    if "apart" in marks:
        return f"{item.path.name}:{item.callspec.id}"  # type: ignore[attr-defined]
    lab = marks.get("lab")
    return item.path.name if lab is None or lab.kwargs.get("few") else "lab"


@pytest.fixture(autouse=True)
def _limits_of_threads() -> Iterator[None]:
    """Without what an earlier test has left."""
    yield
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
