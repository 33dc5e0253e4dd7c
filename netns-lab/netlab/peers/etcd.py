"""etcd: a few members agree by consensus (Raft); each other node keeps a lease alive, and watches all others.

A node whose lease ends is deleted, which all watchers print.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms
from netlab.peers.systems import Costs, Noticed, Sightings

PROGRAM, CLIENT = "etcd", "etcdctl"
LEASE_S = 5  # subord notices a silent death within 4.5 s
RESTORE_S_MAX = 60.0
LOOK_S = 0.05
ELECTED = re.compile(r"raft\.node: (\w+) (?:elected leader|changed leader from \w+ to) (\w+) at term (\d+)")
REGISTER = (  # again, when a busy server lets a request wait for too long
    "until lease=$(etcdctl lease grant {ttl} | cut -d ' ' -f 2) && [ -n \"$lease\" ]"
    " && etcdctl put --lease=$lease /nodes/{position} up > /dev/null; do sleep 0.2; done;"
    " exec etcdctl lease keep-alive $lease"
)


class Etcd:
    """System: `members` servers on the first nodes, two commands of etcdctl on each of the others."""

    meaning = (
        "converged: every client's watch has shown every other client; known: by all clients; a new leader: all"
        " members that live name the same"
    )

    def __init__(self, lab: Lab, programs: NodePrograms, members: int, version: str) -> None:
        self._lab = lab
        self._programs = programs
        self._members = lab.positions[:members]
        self._clients = lab.positions[members:]
        self._sightings = Sightings()  # of the registered clients, by each watcher
        self._verb: dict[int, str] = {}  # of the last PUT or DELETE that a watcher printed
        self._position_of: dict[str, int] = {}  # member by its own name for itself
        self._leader: dict[int, tuple[str, float]] = {}  # of each member, since when
        self._ended: set[int] = set()
        self.settings = (
            f"{version}: {members} members, defaults; when they have a leader, each other node starts two etcdctl:"
            f" one keeps a lease of {LEASE_S} s alive, one watches all of them"
        )

    def start(self) -> None:
        for position in self._members:
            self._start_member(position, "new")
        self.leader()
        for position in self._clients:
            self._start_client(position)

    def _start_member(self, position: int, state: str) -> None:
        address = self._lab.address(position)
        cluster = ",".join(f"m{p}=http://{self._lab.address(p)}:2380" for p in self._members)
        self._programs.start(
            position,
            "etcd",
            PROGRAM,
            f"--name=m{position}",
            f"--data-dir=member-{position}",
            f"--initial-cluster={cluster}",
            f"--initial-cluster-state={state}",
            f"--initial-advertise-peer-urls=http://{address}:2380",
            f"--listen-peer-urls=http://{address}:2380",
            f"--listen-client-urls=http://{address}:2379",
            f"--advertise-client-urls=http://{address}:2379",
            "--logger=zap",
            "--log-outputs=stderr",
        )

    def _start_client(self, position: int) -> None:
        members = ",".join(f"http://{self._lab.address(p)}:2379" for p in self._members)
        environment = ("env", "ETCDCTL_API=3", f"ETCDCTL_ENDPOINTS={members}")
        watch = (CLIENT, "watch", "--prefix", "/nodes/", "--rev=1")
        register = ("sh", "-c", REGISTER.format(ttl=LEASE_S, position=position))
        self._programs.start(position, "watch", *environment, *watch)
        self._programs.start(position, "lease", *environment, *register)

    def started_at(self) -> tuple[float, float]:
        return self._programs.started_at()

    def converged_at(self) -> float | None:
        self._read()
        return self._sightings.complete_at(self._clients)

    def victims(self) -> Sequence[int]:
        return self._clients

    def end(self, position: int) -> None:
        self._ended.add(position)
        self._leader.pop(position, None)
        self._programs.end(position)

    def noticed(self, victim: int) -> Noticed:
        self._read()
        return self._sightings.gone[victim]

    def must_notice(self, victim: int) -> frozenset[int]:
        return frozenset(self._clients) - self._ended - {victim}

    def leader(self) -> int:
        """Raises LabError when there is none within a minute."""
        if not (name := wait_until(self._agreed, RESTORE_S_MAX, LOOK_S)):
            raise LabError(
                f"etcd elected no leader within {RESTORE_S_MAX:g} s. Its logs were in the lab, which has ended."
            )
        return self._position_of[name]

    def leader_since(self, other_than: int) -> float | None:
        self._read()
        named = [self._leader.get(p) for p in self._members if p != other_than and p not in self._ended]
        names = {each[0] for each in named if each is not None}
        if None in named or len(names) != 1 or self._position_of.get(*names) in (None, other_than):
            return None
        return max(each[1] for each in named if each is not None)

    def restore(self, position: int) -> None:
        self._ended.discard(position)
        self._start_member(position, "existing")
        self.leader()

    def _agreed(self) -> str:
        """The leader that all members name; empty when they do not agree."""
        self._read()
        names = {self._leader[p][0] for p in self._members if p in self._leader}
        return names.pop() if len(names) == 1 and len(self._leader) == len(self._members) else ""

    def costs(self) -> Costs:
        return self._programs.costs()

    def groups(self) -> dict[str, Sequence[int]]:
        return {"member": self._members, "client": self._clients}

    def _read(self) -> None:
        now = time.monotonic()
        for writer, line in self._programs.lines("etcd"):
            if (found := ELECTED.search(line)) is not None:
                self._position_of[found[1]] = writer
                self._leader[writer] = (found[2], now)
        for writer, line in self._programs.lines("watch"):
            if line in ("PUT", "DELETE"):
                self._verb[writer] = line
            elif line.startswith("/nodes/"):
                client = int(line.removeprefix("/nodes/"))
                self._sightings.note(writer, client, now, present=self._verb.get(writer) == "PUT")
