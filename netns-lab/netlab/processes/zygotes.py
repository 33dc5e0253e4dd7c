"""The zygotes as the controller sees them: one for each release, which daemons run, and how the others ended.

Only the zygote that forked a daemon can signal it, so the release of every daemon is kept.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from netlab.common.helper import await_ready
from netlab.common.json_lines import Lines, Message
from netlab.errors import LabError
from netlab.processes import zygote
from netlab.processes.options import Options
from netlab.processes.releases import PRESENT, PREVIOUS, Release, unpack
from netlab.processes.rundir import RunDirectory

GONE = "A zygote ended by itself, and every daemon with it. Its last words, if any:"
Node = Sequence[object]
"""Address, namespace, position."""


class Zygotes:
    """`old`: addresses whose daemons are of the previous release."""

    def __init__(self, lines: dict[Release, Lines], old: Iterable[str] = ()) -> None:
        self.pids: dict[str, int] = {}
        self.exits: dict[str, int] = {}
        """Exit code of the last run; negative: the signal."""
        self.lines = lines
        self._releases: dict[str, Release] = dict.fromkeys(old, PREVIOUS)

    @property
    def ended(self) -> bool:
        return any(each.ended for each in self.lines.values())

    def release_of(self, address: str) -> Release:
        """That its daemon is of, or will be."""
        return self._releases.get(address, PRESENT)

    def await_ready(self) -> None:
        for each in self.lines.values():
            await_ready(each, "The daemon cannot be imported: {}")

    def prepare(self, positions: Iterable[int]) -> None:
        """Each release reads every configuration: a node may be of either."""
        for release in self.lines:
            self._ask(release, {"prepare": list(positions)})

    def touch(self, addresses: Iterable[str]) -> int:
        wanted = [self.release_of(address) for address in addresses]
        return sum(self._ask(release, {"touch": wanted.count(release)})["mib"] for release in self.lines)

    def assign(self, addresses: Iterable[str], release: Release) -> None:
        """Daemons of these addresses are of this release from their next start on. Raises LabError."""
        if release not in self.lines:
            raise LabError(
                f"This lab has no {release} release: raise it with `--previous FILE`. Nothing was started."
            )
        self._releases.update(dict.fromkeys(addresses, release))

    def start(self, nodes: Iterable[Node]) -> dict[str, int]:
        pids: dict[str, int] = {}
        for each, group in groupby(nodes, key=lambda node: self.release_of(str(node[0]))):
            pids.update(self._ask(each, {"start": list(group)}))
        return pids

    def signal(self, address: str, number: int) -> Message:
        """{address: pid}, or {} if it does not run."""
        return self._ask(self.release_of(address), {"to": address, "signal": number})

    def signal_agent(self, address: str, number: int) -> bool:
        """Whether it runs."""
        found: bool = self._ask(PRESENT, {"agent_of": address, "signal": number})["ran"]
        return found

    def remove_agent(self, address: str) -> None:
        self._ask(PRESENT, {"agent_of": address, "signal": 0})

    def receive(self, each: Lines) -> None:
        """The exits that one of `lines` tells of by now. It does not wait: an answer may have brought them."""
        while not each.ended and select.select([each], [], [], 0)[0]:
            for message in each.receive():
                self._note(message)

    def receive_exits(self) -> None:
        """A client that has read of an exit in the event log may start the node again; then it is known here, too."""
        for each in self.lines.values():
            self.receive(each)

    def _ask(self, release: Release, request: Message) -> Message:
        lines = self.lines[release]
        lines.send(request)
        while not lines.ended:
            done: Message | None = None
            for message in lines.receive():  # all of them: an exit may come in one piece with the answer
                if "done" not in message:
                    self._note(message)
                    continue
                done = message["done"]
                if "start" in request:
                    self.pids.update(done)
            if done is not None:
                return done
        raise LabError(GONE)

    def _note(self, message: Message) -> None:
        if self.pids.get(message["exited"]) == message["pid"]:
            del self.pids[message["exited"]]
        self.exits[message["exited"]] = message["code"]


def start(options: Options, directory: RunDirectory) -> Zygotes:
    lines = {PRESENT: zygote.start(options, directory)}
    if options.previous is not None:
        tree = unpack(Path(options.previous), directory.path)
        lines[PREVIOUS] = zygote.start(options, directory, tree)
    return Zygotes(lines, options.old)
