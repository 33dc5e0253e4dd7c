"""A lab of real daemons and agents where some nodes have hosts (host.py), with what tests do there.

ROOT and HEAD are nodes from the beginning: the root of the tree, and the node that has the queue. Hosts are made by a
process beside the lab (supplier.py). An operator with a key of its own signs what the queue's node orders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from netlab.common.waiting import wait_until
from netlab.elastic import files, gridengine, host, supplier
from netlab.elastic.gridengine import GridEngine
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.launch import SCRIPT
from netlab.services.console import SUBORD
from subord.services.batch.adapter import Adapter, adapter_of

ROOT, HEAD = 1, 2
NAMES: Final = {ROOT: "root", HEAD: "head"}
USER, UID, GROUP, GID = "ann", 6001, "chemists", 6100
HOME: Final = f"{host.SHARED}/ann"
"""Whose jobs are run."""
PLACED_S_MAX: Final = 30.0
COMMAND_S_MAX: Final = 60.0


def check_hosts(rootless: bool, packages: list[str]) -> None:
    """`packages`: that have to be installed. Raises LabError: hosts cannot run jobs here."""
    if rootless or os.geteuid():
        raise LabError("Jobs run as other users: run it as root, without --rootless. Nothing was done.")
    if packages:
        raise LabError(f"Programs are missing: apt-get install {' '.join(packages)}. Nothing was done.")


class HostedLab(ABC):
    """As long as the `with` block."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.engine = GridEngine(self.run_on_head)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.lab)
            self.path = self.lab.directory.path
            self._begin(stack)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @abstractmethod
    def _begin(self, stack: ExitStack) -> None:
        """Files, hosts and daemons. What has to end with the lab goes onto the stack."""

    # -- acting ---------------------------------------------------------------------------------------------------

    def ask(self, do: str, **fields: Any) -> Any:
        """Of the supplier. Raises LabError."""
        return supplier.ask(self.path, do, **fields)

    def run(self, name: str, *words: str, user: str = "root", given: str = "") -> str:
        """A command on a host: its output. Raises LabError."""
        become = ["setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", "--"] if user == USER else []
        values = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/", "TZ": "UTC"}
        environment = [f"{key}={value}" for key, value in (values | gridengine.ENVIRONMENT).items()]
        done = subprocess.run(
            [*self._way_to(name), *become, "env", "-i", *environment, *words],
            input=given,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=COMMAND_S_MAX,
            check=False,
        )
        if done.returncode:
            raise LabError(f"{' '.join(words)} at {name}: {done.stdout}{done.stderr}")
        return done.stdout

    def _way_to(self, name: str) -> list[str]:
        """The words before a command that runs on a host. Raises LabError."""
        return ["nsenter", "--target", str(self.ask("pid", name=name)), "--net", "--mount", "--uts", "--pid", "--"]

    def way_to_queue(self) -> str:
        """For a terminal of root: what stands before a command of Grid Engine. Raises LabError."""
        values = [f"{key}={value}" for key, value in gridengine.ENVIRONMENT.items()]
        return " ".join([*self._way_to(NAMES[HEAD]), "env", "-C", "/", *values])

    def run_on_head(self, *words: str, user: str = "root", given: str = "") -> str:
        return self.run(NAMES[HEAD], *words, user=user, given=given)

    def subord(self, *words: str, position: int = HEAD) -> subprocess.CompletedProcess[str]:
        """A command of the operator of the lab, at a node."""
        return subprocess.run(
            [SUBORD, *words],
            env={**self.lab.environment, "SUBORD_SOCKET": str(self.lab.control_socket(position))},
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )

    def adapter(self, queue: str = "") -> Adapter:
        """Its commands run on the host of the queue."""
        enter = ("nsenter", "--target", str(self.ask("pid", name=NAMES[HEAD])), "--all", "--")
        return adapter_of("gridengine", queue, gridengine.ENVIRONMENT, enter)

    def await_that(
        self, condition: Callable[[], object], what: str, seconds: float, facts: Callable[[], str] = str
    ) -> None:
        """Raises LabError, with facts."""
        if not wait_until(condition, seconds, gridengine.LOOK_S):
            raise LabError(f"It never happened within {seconds:g} s that {what}. {facts()}")

    def await_placed(self, positions: Iterable[int], seconds: float = PLACED_S_MAX) -> None:
        wanted = {self.lab.address(each) for each in positions}

        def are_placed(cluster: Any) -> bool:
            return wanted <= {node.address for node in cluster.live() if node.place is not None}

        self.lab.wait(are_placed, seconds)

    # -- files ----------------------------------------------------------------------------------------------------

    def _write_key(self, operator: str, namespaces: str, allowed: Mapping[str, str]) -> Path:
        """With which the queue's node signs. `allowed`: which services as which user."""
        key = self.path / files.KEY
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", operator, "-f", str(key)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        with self.lab.directory.operators.open("a") as operators:
            operators.write(f'{operator} namespaces="{namespaces}" {Path(f"{key}.pub").read_text()}')
        with self.lab.directory.policy.open("a") as policy:
            for service, user in allowed.items():
                principals = json.dumps([operator])
                policy.write(
                    f'\n[[allow]]\nprincipals = {principals}\nservices = ["{service}"]\nusers = ["{user}"]\n'
                )
        return key

    def _share(self) -> Path:
        """What all hosts have at host.SHARED, with the home of the user."""
        shared = self.path / files.SHARED
        home = shared / Path(HOME).relative_to(host.SHARED)
        home.mkdir(mode=0o755, parents=True)
        os.chown(home, UID, GID)
        return shared

    def _etc(self, names: Mapping[str, str]) -> dict[str, str]:
        """An administrator has made the user, and named hosts. `names`: with their addresses."""
        named = "".join(f"{address} {name}\n" for name, address in names.items())
        users, groups = (Path("/etc", name).read_text() for name in ("passwd", "group"))
        return {
            "hosts": f"{host.HOSTS}{named}",
            "passwd": f"{users}{USER}:x:{UID}:{GID}::{HOME}:/bin/sh\n",
            "group": f"{groups}{GROUP}:x:{GID}:\n",
        }

    # -- the supplier ---------------------------------------------------------------------------------------------

    def _start_supplier(self, stack: ExitStack, stock: Iterable[int], agent: str, module: str) -> None:
        """All hosts end with it."""
        (self.path / files.BILL).touch()
        order = {"lab": self.lab.options.name, "stock": list(stock), "agent": agent, "supplier": module}
        words = [sys.executable, str(SCRIPT), "supply", json.dumps(order)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != supplier.READY.encode():
            process.kill()
            process.wait()
            raise LabError(f"The supplier did not begin: {(self.path / files.LOG).read_text()}")
        stack.callback(process.wait, COMMAND_S_MAX)
        stack.callback(process.stdout.close)
        stack.callback(process.stdin.close)
