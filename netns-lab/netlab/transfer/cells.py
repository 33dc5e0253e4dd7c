"""Cells of Grid Engine for transfer queues: each has a transfer host, which has the qmaster, too, and remote hosts,
where jobs run.

Inputs are a site and names; outputs are cells whose hosts serve. The transfer host has no queue yet: that is what
`subord transfer setup` makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trio

from netlab.common.waiting import wait_until
from netlab.elastic import gridengine
from netlab.elastic.gridengine import GridEngine
from netlab.errors import LabError
from netlab.transfer import site as sites
from netlab.transfer.site import Site
from subord.services.batch.adapter import Adapter, adapter_of
from subord.services.batch.records import Done, NewHost
from subord.services.transfer.cells.gridengine.settings import Settings

UP_S_MAX: Final = 60.0
missing = gridengine.missing


class Cell:
    """`engine`: jobs and the qmaster."""

    def __init__(self, site: Site, name: str, remotes: int) -> None:
        self.site, self.name = site, name
        self.head = f"{name}-head"
        self.remotes = [f"{name}-run{number}" for number in range(1, remotes + 1)]
        self.engine = GridEngine(self.run)

    @property
    def hosts(self) -> list[str]:
        return [self.head, *self.remotes]

    @property
    def environment(self) -> Mapping[str, str]:
        """Of commands of this cell."""
        return gridengine.ENVIRONMENT

    @property
    def enter(self) -> tuple[str, ...]:
        """The words before a command on the transfer host."""
        return self.site.enter(self.head)

    def run(self, *words: str, user: str = "root", given: str = "") -> str:
        """A command on the transfer host: its output. Raises LabError."""
        return self.run_at(self.head, *words, user=user, given=given)

    def run_at(self, host: str, *words: str, user: str = "root", given: str = "") -> str:
        return self.site.run(host, *words, user=user, given=given, environment=self.environment)

    def adapter(self) -> Adapter:
        return adapter_of("gridengine", "", self.environment, self.enter)

    def begin(self, slots: int) -> None:
        """`slots`: of each remote host."""
        gridengine.make(self.site.shared(self.name), self.head)
        for host in self.hosts:
            self.site.start(host)
        self.engine.begin()
        trio.run(self._add_hosts, slots)
        for host in self.hosts:
            self.start_execd(host)
        if not wait_until(self.is_up, UP_S_MAX, 0.2):
            raise LabError(f"The hosts of {self.name} do not serve: {self.run('qstat', '-f')}{self.run('qhost')}")

    def start_execd(self, host: str) -> None:
        self.run_at(host, gridengine.EXECD)

    def restart_execd(self, host: str) -> None:
        """Its jobs go on."""
        self.run_at(
            host, "sh", "-c", "pid=$(cat /run/execd.pid); kill $pid; while kill -0 $pid 2>&-; do sleep 0.1; done"
        )
        self.start_execd(host)

    def is_up(self) -> bool:
        """Whether the execd of each host has reported."""
        rows = [line.split() for line in self.run("qhost").splitlines()[3:]]
        loads = {row[0].partition(".")[0]: row[-5] for row in rows}
        return all(loads.get(host, "-") != "-" for host in self.hosts)

    def ended_of(self, job: str) -> list[dict[str, str]]:
        """The runs of a job that have ended, as the accounting has them."""
        return [each for each in self.engine.ended() if each["jobnumber"] == job]

    async def _add_hosts(self, slots: int) -> None:
        adapter = self.adapter()
        for host in self.hosts:
            if host == self.head:  # in the queue of the cell it has no slots
                text = f"hostname {host}\n" + "".join(f"{each} NONE\n" for each in _HOST_FIELDS)
                self.run("qconf", "-Ae", "/dev/stdin", given=text)
                continue
            added = await adapter.add(NewHost(host, slots))
            if not isinstance(added, Done):
                raise LabError(f"{host} cannot be in the queue: {added}.")


_HOST_FIELDS: Final = (
    *("load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects", "usage_scaling"),
    "report_variables",
)


def settings(cell: Cell, **changed: Any) -> Settings:
    """For a transfer queue of this cell, whose agent is at `socket_outside`."""
    python = cell.site.python()
    program = ("env", *(f"{name}={value}" for name, value in python.items() if name != "PYTHON"), python["PYTHON"])
    command = (*program, "-P", "-m", "subord", "transfer")
    own = Settings(cell.head, f"{sites.COMMON}/{cell.name}.socket", folder=f"{sites.SHARED}/methods", program=command)
    return own._replace(**changed)


def socket_outside(cell: Cell) -> Path:
    """The socket of the agent of a cell, for a process outside of the site."""
    return cell.site.folder / "common" / f"{cell.name}.socket"


@contextmanager
def running(names: Sequence[str] = ("a", "b"), remotes: int = 1, slots: int = 4) -> Iterator[list[Cell]]:
    """Cells of one site. Raises LabError."""
    with sites.opened() as site:
        cells = [Cell(site, name, remotes) for name in names]
        for cell in cells:
            site.name(cell.name, *cell.hosts)
        with ThreadPoolExecutor() as at_once:
            list(at_once.map(lambda cell: cell.begin(slots), cells))
        yield cells
