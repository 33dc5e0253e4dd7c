"""`true` on all nodes of a lab: by `subord exec`, by clush and pdsh over ssh, and by a query of Serf.

Each is a class with `settings`, `start()`, which raises LabError, and `run()`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments import start_up
from netlab.lab import Lab
from netlab.peers import serf
from netlab.peers.programs import NodePrograms, version_of
from netlab.services import ready, ssh
from netlab.services.console import SUBORD, Console
from subord import __version__

PEERS: dict[str, Sequence[str]] = {
    "clush": ("clush", "sshd"),
    "pdsh": ("pdsh", "sshd"),
    "serf": ("serf",),
}
"""Name -> the programs that it needs."""
ENDED = re.compile(r"^(\d+) of \d+ ended in ", re.MULTILINE)
RESPONSE = "Response from "
CONVERGED_S_MAX = 60.0
QUERY_S_MAX = 30.0


class Taken(NamedTuple):
    """How long one command took, and on how many nodes it has ended well."""

    took_s: float
    ended: int


class Subord:
    """`subord exec`; its first command starts the agents. Those that are timed come to a cluster at rest: before, no
    stream along an edge is open, and each command pays for streams of its own."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._console = Console(lab, lab.positions[-2])
        self.settings = f"subord {__version__}: subord exec -n -a -- true, fan-out {lab.options.fanout}"
        self.first_s: float | None = None

    def start(self) -> None:
        ready.raise_tree(self._lab)
        self.first_s = ready.start_agents(self._lab, self._console)
        start_up.await_rest(self._lab)

    def run(self) -> Taken:
        done = self._console.run(SUBORD, "exec", "-n", "-a", "--", "true")
        found = ENDED.search(done.err)
        return Taken(done.took_s, int(found[1]) if found else 0)


class OverSsh:
    """clush or pdsh."""

    def __init__(self, lab: Lab, name: str, programs: NodePrograms) -> None:
        self.ssh = ssh.Ssh(lab, programs)
        self._name = name
        self.settings = f"{ssh.version(name)}: {ssh.SETTINGS}"

    def start(self) -> None:
        self.ssh.start()

    def run(self) -> Taken:
        done = self.ssh.console.run(*self.ssh.execute(self._name, "true"))
        words = set(re.findall(r"[\d.]+\d", done.err)) if done.code else set()
        return Taken(done.took_s, len(set(self.ssh.addresses) - words))


class SerfQuery:
    """A query whose handler prints an empty line: an agent answers with the output, and not without any. The command
    itself ends with the time of the query."""

    def __init__(self, lab: Lab, programs: NodePrograms) -> None:
        version = version_of(serf.PROGRAM, "version")
        self._serf = serf.Serf(lab, programs, version, handler="query:run=echo")
        self.settings = f"{self._serf.settings}; serf query -no-ack run, until the last response"
        self._console = Console(lab, lab.positions[-2])
        self._nodes = len(lab.positions)

    def start(self) -> None:
        self._serf.start()
        if not wait_until(self._serf.converged_at, CONVERGED_S_MAX, 0.05):
            raise LabError(f"Serf did not converge within {CONVERGED_S_MAX:g} s.")

    def run(self) -> Taken:
        command = self._console.begin(serf.PROGRAM, "query", "-no-ack", f"-timeout={QUERY_S_MAX:g}s", "run")
        last_s = 0.0
        count = 0

        def look() -> None:
            nonlocal last_s, count
            now = command.printed().count(RESPONSE)
            if now != count:
                count, last_s = now, command.lasted_s
            if count == self._nodes:
                command.interrupt()

        command.done(QUERY_S_MAX + 10.0, look)
        return Taken(last_s, count)


System = Subord | OverSsh | SerfQuery


def system_of(name: str, lab: Lab, programs: NodePrograms) -> System:
    if name == "subord":
        return Subord(lab)
    return SerfQuery(lab, programs) if name == "serf" else OverSsh(lab, name, programs)
