"""Which worker takes which group of tests, and when.

Inputs are the items that pytest collects; outputs are their groups, the order of these, and the next group of a
worker. Tests that only compute are for the last workers, which have what processor time the others leave. The others
begin with tests that start daemons and other programs: these mostly wait, but their timers assume a machine that has
time to spare. Invariant: at most one worker has the large labs, and one the installed machines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

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
LOWEST_NICE = 19
COMPUTING_SHARE = 3
"""One of so many workers computes. Of fewer each takes everything: one with little processor time would be half of
them. One for each processor uses what the others leave of all."""
FIRST = (
    "lab",
    "deploy",
    "test_transfer_two_trees.py",
    "test_lab_elastic.py",
    "test_lab_prometheus.py",
    "test_lab_elastic_deaths.py",
    "test_lab_memory.py",
    "test_transfer_two_trees_slurm.py",
    "test_lab_peers.py",
    "test_lab_evaluate.py",
    "test_transfer_two_kinds.py",
    "test_page_live.py",
    "test_agent_machines_processes.py",
    "test_lab_metrics.py",
    "test_hung_node.py",
    "test_lab_machines.py",
    "test_batch_real.py",
    "test_prometheus.py",
    "test_lab_keys.py",
    "test_lab_agents.py",
    "test_transfer_real.py",
    "test_lab_exec.py",
    "test_agent_elastic_processes.py",
    "test_lab_arp.py",
    "test_elastic_slurm_real.py",
    "test_lab_accounting.py",
    "test_daemon.py",
    "test_lab_shares.py",
    "test_pins.py",
    "test_lab_files_sets.py",
    "test_page_guarded.py",
    "test_lab_services.py",
    "test_machines_together.py",
    "test_lab_rounds.py",
    "test_page_metrics.py",
    "test_lab_page.py",
    "test_site.py",
    "test_page_overview.py",
    "test_page_problems.py",
    "test_dev.py",
    "test_page_tree.py",
    "test_lab_sites.py",
    "test_agent_transfer.py",
    "test_shares_figures.py",
    # What computes:
    "test_order_campaign.py",
    "test_stock_debian.py",
    "test_scenario.py",
    "test_mutations.py",
    "test_campaign.py",
    "test_shares_tree.py",
    "test_async.py",
    "test_memory_of_members.py",
    "test_sparse_trees.py",
    "test_machines_campaign.py",
    "test_kinds.py",
    "test_moves.py",
)
"""The groups of more than twenty seconds, the longest of each kind first."""


def computes(path: PurePath) -> bool:
    return path.parent.name in COMPUTING or path.name in COMPUTING


def order_of(group: str) -> int:
    name = group.partition(":")[0]
    return FIRST.index(name) if name in FIRST else len(FIRST)


def group_of(item: pytest.Item, marks: Mapping[str, pytest.Mark]) -> str:
    """One worker has the large labs: two at once would take each other's time. Tests of installed machines share a
    package, and those of a stock Debian one root. Of the rest each file goes by itself, or each test."""
    if item.path.name == "test_stock_debian.py":
        return item.path.name
    if item.path.parent.name == "deploy":
        return "deploy"
    if "apart" in marks:
        return f"{item.path.name}:{item.name.replace('[', ':').rstrip(']')}"  # xdist takes a name with ] for none
    lab = marks.get("lab")
    return item.path.name if lab is None or lab.kwargs.get("few") else "lab"


def has_what_computes(worker: str, workers: int) -> bool:
    """Whether the worker, such as `gw5`, is one for tests that compute."""
    first = workers - workers // COMPUTING_SHARE
    return worker in {f"gw{number}" for number in range(first, workers)}


def step_back() -> None:
    """Leave the processors to all others. Where the kernel groups processes by session, a nice value counts among
    those of one session only, so the worker begins one, with its own weight (sched(7))."""
    with suppress(OSError):
        os.setsid()
    os.nice(LOWEST_NICE)
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write(str(LOWEST_NICE))


def give_way(path: PurePath) -> None:
    """What computes gives way to daemons in every worker."""
    if os.geteuid() == 0 and os.nice(0) < LOWEST_NICE:  # another user cannot take the priority back
        os.setpriority(os.PRIO_PROCESS, 0, COMPUTING_NICE if computes(path) else 0)


class Scheduling(LoadGroupScheduling):
    """Gives each worker the next group of its kind; the others have what computes when nothing else is left."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_computing = has_what_computes(node.gateway.id, self.numnodes)
        fitting = (scope for scope, unit in self.workqueue.items() if _computes(unit) == is_computing)
        scope = next(fitting, None)
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
        elif is_computing:  # what is left needs daemons that are not late
            node.shutdown()
            return
        super()._assign_work_unit(node)


def _computes(unit: Mapping[str, bool]) -> bool:
    return computes(PurePath(next(iter(unit)).partition("::")[0]))
