"""etcd: a few members agree by consensus (Raft); everybody else registers with a lease, and watches all others.

Intuition: a land registry with three or five clerks. Every owner renews an entry every few seconds, and reads all
that is published; who stops renewing is struck out, and all readers see it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.programs import Visitors
from netlab.peers.systems import Knowers, Meters

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
    """Rival: `members` servers on the first nodes, two commands of etcdctl on each of the others."""

    meaning = (
        "converged: every client's watch has shown every other client; known: by all clients; a new leader: all"
        " members that live name the same"
    )

    def __init__(self, lab: Lab, visitors: Visitors, members: int, version: str) -> None:
        self._lab = lab
        self._visitors = visitors
        self._members = lab.positions[:members]
        self._clients = lab.positions[members:]
        self._started: list[float] = []
        self._seen: defaultdict[int, set[int]] = defaultdict(set)  # watcher -> registered clients
        self._struck: defaultdict[int, Knowers] = defaultdict(dict)
        self._verb: dict[int, str] = {}  # of the last PUT or DELETE that a watcher printed
        self._position_of: dict[str, int] = {}  # member by its own name for itself
        self._leader: dict[int, tuple[str, float]] = {}  # of each member, since when
        self._ended: set[int] = set()
        self._converged_at: float | None = None
        self.settings = (
            f"{version}: {members} members, defaults; when they have a leader, each other node starts two etcdctl:"
            f" one keeps a lease of {LEASE_S} s alive, one watches all of them"
        )

    def start(self) -> None:
        for position in self._members:
            self._started.append(time.monotonic())
            self._start_member(position, "new")
        self._await_leader()
        for position in self._clients:
            self._started.append(time.monotonic())
            self._start_client(position)

    def _start_member(self, position: int, state: str) -> None:
        address = self._lab.address(position)
        cluster = ",".join(f"m{p}=http://{self._lab.address(p)}:2380" for p in self._members)
        self._visitors.start(
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
        self._visitors.start(position, "watch", *environment, *watch)
        self._visitors.start(position, "lease", *environment, *register)

    def started_at(self) -> tuple[float, float]:
        return self._started[0], self._started[-1]

    def converged_at(self) -> float | None:
        self._read()
        everybody = set(self._clients)
        if any(self._seen[position] != everybody for position in everybody):
            self._converged_at = None
        elif self._converged_at is None:
            self._converged_at = time.monotonic()
        return self._converged_at

    def victims(self) -> tuple[int, int]:
        return self._clients[len(self._clients) // 2], self._clients[len(self._clients) // 2 - 1]

    def end(self, position: int) -> None:
        self._ended.add(position)
        self._leader.pop(position, None)
        self._visitors.end(position)

    def knowers(self, victim: int) -> Knowers:
        self._read()
        return self._struck[victim]

    def must_know(self, victim: int) -> frozenset[int]:
        return frozenset(self._clients) - self._ended - {victim}

    def leader(self) -> int:
        """Raises LabError when there is none within a minute."""
        return self._await_leader()

    def leader_since(self, other_than: int) -> float | None:
        self._read()
        said = [self._leader.get(p) for p in self._members if p != other_than and p not in self._ended]
        names = {each[0] for each in said if each is not None}
        if None in said or len(names) != 1 or self._position_of.get(*names) in (None, other_than):
            return None
        return max(each[1] for each in said if each is not None)

    def restore(self, position: int) -> None:
        self._ended.discard(position)
        self._start_member(position, "existing")
        self._await_leader()

    def _await_leader(self) -> int:
        until = time.monotonic() + RESTORE_S_MAX
        while time.monotonic() < until:
            self._read()
            names = {self._leader[p][0] for p in self._members if p in self._leader}
            if len(names) == 1 and len(self._leader) == len(self._members) and (name := names.pop()):
                return self._position_of[name]
            time.sleep(LOOK_S)
        raise LabError(
            f"etcd elected no leader within {RESTORE_S_MAX:g} s. Its logs were in the lab, which has ended."
        )

    def meters(self) -> Meters:
        return self._visitors.meters()

    def groups(self) -> dict[str, Iterable[int]]:
        return {"member": self._members, "client": self._clients}

    def _read(self) -> None:
        now = time.monotonic()
        for writer, line in self._visitors.lines("etcd"):
            found = ELECTED.search(line)
            if found is not None:
                self._position_of[found[1]] = writer
                self._leader[writer] = (found[2], now)
        for writer, line in self._visitors.lines("watch"):
            if line in ("PUT", "DELETE"):
                self._verb[writer] = line
            elif line.startswith("/nodes/"):
                self._note(writer, int(line.removeprefix("/nodes/")), now)

    def _note(self, watcher: int, whom: int, now: float) -> None:
        if self._verb.get(watcher) == "PUT":
            self._seen[watcher].add(whom)
            self._struck[whom].pop(watcher, None)
        else:
            self._seen[watcher].discard(whom)
            self._struck[whom].setdefault(watcher, now)
