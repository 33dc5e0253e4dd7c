"""A node with real commands and mounts of its own: users, mounts and exports of this machine stay as they are.

Its /etc is a copy on write, /var/lib/nfs is empty, and everything else is as on this machine. This file is also the
program that carries out one work there: `prepared_node.py FILE` prints the result of the work in FILE.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from subord.config.schema import ElasticConfig
from subord.services.acting import Context
from subord.services.batch.running import Ran
from subord.services.elastic.plan import Plan
from subord.services.elastic.preparing.carrying import carry_out
from subord.services.elastic.preparing.exports import export, unexport
from subord.services.elastic.preparing.machine import LIMIT_S, REAL, run
from subord.services.elastic.task import Result, Step, Task

REPOSITORY = Path(__file__).resolve().parents[2]
MASTER: Final = "10.89.0.1"
APART = ("unshare", "--mount", "--propagation", "private")
WAIT_S_MAX = 60.0
FURNISH = """
set -eu
mount --make-rshared /
mkdir "$1/upper"
mount -t tmpfs none "$1/upper"
mkdir "$1/upper/etc" "$1/upper/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/upper/etc,workdir=$1/upper/work" overlay /etc
if [ -d /var/lib/nfs ]; then mount -t tmpfs none /var/lib/nfs; touch /var/lib/nfs/etab /var/lib/nfs/rmtab; fi
echo ready
exec cat
"""


class Work(msgspec.Struct, kw_only=True):
    """`step`: of an added node; `hosts`: what the queue's node exports to, `ends`: that others end. `as_nfs`: type
    of file system that stands for NFS, which the kernel may lack."""

    step: Step | None = None
    plan: Plan
    config: ElasticConfig = ElasticConfig()
    hosts: tuple[str, ...] | None = None
    ends: bool = False
    as_nfs: str = "nfs"


class Node:
    """`folder` is a directory of the machine; `enter`: words before a command of the node."""

    def __init__(self, folder: Path, first: int) -> None:
        self.folder = folder
        self.enter = ["nsenter", "--target", str(first), "--mount", "--"]

    def run(self, *words: str | Path, check: bool = True) -> str:
        """What it prints."""
        done = subprocess.run(
            [*self.enter, *map(str, words)], capture_output=True, text=True, check=False, timeout=WAIT_S_MAX, cwd="/"
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def carry_out(self, step: Step, plan: Plan, before: Sequence[str] = (), **work: Any) -> Result:
        """`before`: words before the command of the agent."""
        return msgspec.json.decode(self._carried_out(Work(step=step, plan=plan, **work), before), type=Result)

    def export(self, plan: Plan, *hosts: str, ends: bool = False, before: Sequence[str] = ()) -> str:
        found: str = msgspec.json.decode(self._carried_out(Work(plan=plan, hosts=hosts, ends=ends), before))
        return found

    def _carried_out(self, work: Work, before: Sequence[str]) -> str:
        file = self.folder / "work.json"
        file.write_bytes(msgspec.json.encode(work))
        environment = [f"PYTHONPATH={REPOSITORY}", "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        return self.run("env", "-i", *environment, *before, sys.executable, Path(__file__), file)


@contextmanager
def node(folder: Path) -> Iterator[Node]:
    """For root alone."""
    words = [*APART, "sh", "-c", FURNISH, "sh", str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            yield Node(folder, holder.pid)
        finally:
            holder.kill()
            holder.wait()


def main(path: str) -> None:
    work = msgspec.json.decode(Path(path).read_bytes(), type=Work)
    os.umask(0o077)  # as in subord-agent.service
    print(msgspec.json.encode(trio.run(_result_of, work)).decode())


async def _result_of(work: Work) -> Result | str:
    if work.hosts is not None:
        return await (unexport if work.ends else export)(work.config.exports_file, work.hosts, work.plan.mounts)
    assert work.step is not None
    machine = (
        REAL if work.as_nfs == "nfs" else REAL._replace(run=_Substitute(work.as_nfs), nfs=frozenset({work.as_nfs}))
    )
    context = Context("root", "elastic@head", b"", WAIT_S_MAX, node="10.89.0.2")
    return await carry_out(Task(work.step, 1, MASTER), work.plan, work.config, context, machine)


class _Substitute:
    """Mounts another type of file system with the same source, and runs everything else."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def __call__(self, *words: str, limit_s: float = LIMIT_S, environment: Sequence[str] | None = None) -> Ran:
        if words[0] == "mount":
            words = tuple(self._kind if word == "nfs" else word.replace(",retry=0", "") for word in words)
        return await run(*words, limit_s=limit_s, environment=environment)


if __name__ == "__main__":
    main(sys.argv[1])
