"""Slurm behind the interface of adapter.py.

Inputs are commands of Slurm on a node with its slurm.conf; outputs are records and outcomes. A node that is not in
slurm.conf is created as FUTURE, and serves when a slurmd is started there with `-Z`. Invariants: a node is neither
deleted nor taken out while a job is there; a node of slurm.conf is never deleted, because slurmctld 22.05 ends at the
next reconfiguration after that; of a node that Slurm has started and ended (State=CLOUD) only the address is changed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from subord.services.batch.faults import AnswerError, NoAnswerError, Pattern, failed, garbled
from subord.services.batch.records import (
    Done,
    Fault,
    Finished,
    History,
    Host,
    NewHost,
    Outcome,
    Queue,
    Refused,
    Unavailable,
)
from subord.services.batch.running import Commands
from subord.services.batch.settling import Step, known, settle, wrong_host, wrong_name
from subord.services.batch.slurm import history, queue
from subord.services.batch.slurm.hosts import REMOVED, Node, hosts_in, node_in
from subord.services.batch.slurm.hosts import WORDS as HOSTS_WORDS

RELEASES: Final = "Slurm 22.05"
ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Times as numbers, and the tasks of an array in full."""
HISTORY_BYTES_MAX: Final = 8 << 20
NO_ACCOUNTING: Final = re.compile(r"accounting storage is disabled", re.IGNORECASE)
NO_NODE: Final = re.compile(r"not found|Invalid node name", re.IGNORECASE)
JOB_AGE: Final = re.compile(r"^MinJobAge\s*=\s*(\d+)", re.MULTILINE)
JOB_AGE_S: Final = 300.0
REASON_CHARS_MAX: Final = 100
CLOUD: Final = (
    "{node} has State=CLOUD in slurm.conf, so Slurm has it started and ended; nothing was changed: `scontrol update "
    "State=DRAIN` and `State=RESUME` are for persons"
)
DRAIN: Final = "drain it, and remove it when they have ended"
WAIT: Final = "remove it when they have ended"
POWERED_DOWN: Final = "Slurm has powered {node} down, or does not have it; nothing was changed: sinfo lists its nodes"
_MIB: Final = 1 << 20
SEE_CONTROLLER: Final = "see that slurmctld runs on the host of SlurmctldHost, and that this node reaches it"
PATTERNS: Final = (
    Pattern(
        re.compile(r"Unable to contact slurm controller|Connection refused|Connection timed out|Socket timed out"),
        Fault.SILENT,
        SEE_CONTROLLER,
    ),
    Pattern(
        re.compile(r"Invalid user id|permission denied|Access/permission", re.IGNORECASE),
        Fault.RIGHTS,
        "run as root, or as SlurmUser",
    ),
    Pattern(
        re.compile(r"munge|authentication|credential", re.IGNORECASE),
        Fault.RIGHTS,
        "see that munged runs here with the key of the cluster",
    ),
    Pattern(
        re.compile(r"configuration source|slurm\.conf|resolve_ctls_from_dns", re.IGNORECASE),
        Fault.SILENT,
        "set SLURM_CONF to the slurm.conf of the cluster, which this node must be able to read",
    ),
    Pattern(
        re.compile(r"MaxNodeCount|No room|Invalid.*node count|Dynamic", re.IGNORECASE),
        Fault.FAILED,
        "set MaxNodeCount in slurm.conf above the number of nodes, and restart slurmctld",
    ),
)
Parsed = TypeVar("Parsed")


class Slurm:
    """`partition`: whose nodes have slots, "": all nodes have."""

    def __init__(self, commands: Commands, partition: str = "") -> None:
        self._commands = commands
        self._partition = partition

    # -- answers ------------------------------------------------------------------------------------------------

    async def queue(self) -> Queue | Unavailable:
        now = time.time()
        jobs = await self._parsed(queue.jobs_in, *queue.WORDS)
        return jobs if isinstance(jobs, Unavailable) else Queue(tuple(jobs), now)

    async def hosts(self) -> tuple[Host, ...] | Unavailable:
        hosts = await self._parsed(lambda text: hosts_in(text, self._partition), *HOSTS_WORDS)
        return hosts if isinstance(hosts, Unavailable) else tuple(hosts)

    async def history(self, since: float) -> History | Unavailable:
        """Of slurmdbd; without it, what slurmctld has not forgotten yet."""
        words = history.words_for(since, time.time())
        ran = await self._commands.run(*words, bytes_max=HISTORY_BYTES_MAX, keeps_last=True)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return (
                await self._remembered(since) if NO_ACCOUNTING.search(ran.words) else failed("sacct", ran, PATTERNS)
            )
        try:
            found = history.finished_in(ran.text, is_cut=ran.is_cut)
        except AnswerError as error:
            return garbled("sacct", error, RELEASES)
        return _since(found, max(since, found[0].ended) if ran.is_cut and found else since)

    async def _remembered(self, since: float) -> History | Unavailable:
        said = await self._said("scontrol", "show", "config")
        if isinstance(said, Unavailable):
            return said
        age = JOB_AGE.search(said)
        begin = time.time() - (float(age[1]) if age else JOB_AGE_S)
        found = await self._parsed(queue.finished_in, *queue.WORDS)
        return found if isinstance(found, Unavailable) else _since(found, max(since, begin))

    # -- effects ------------------------------------------------------------------------------------------------

    async def drain(self, host: str, reason: str = "") -> Outcome:
        def steps(node: Node) -> Iterable[Step]:
            return () if node.is_drained else (_drain(node.name, f"subord: {reason or 'drained'}"),)

        return await self._changed(host, steps)

    async def undrain(self, host: str) -> Outcome:
        return await self._changed(host, lambda node: (_undrain(node),) if node.is_drained else ())

    async def add(self, host: NewHost) -> Outcome:
        """Created, if it is not in slurm.conf; otherwise what `remove` did is undone. A node with State=CLOUD gets
        its address."""
        if (wrong := wrong_host(host)) is not None:
            return wrong

        async def plan() -> Iterable[Step] | Refused | Unavailable:
            node = await self._node(host.name)
            if node is None:
                return Refused(POWERED_DOWN.format(node=host.name)) if host.is_wanted else (_create(host),)
            if not isinstance(node, Node):
                return node
            return _steps_to_reach(node, host) if node.is_cloud else self._steps_to_add(node, host)

        return await settle(plan, self._commands, PATTERNS)

    async def remove(self, host: str) -> Outcome:
        """Look, drain, look again, and remove. A slurmd that runs there is left to the caller. For a node with
        State=CLOUD this is a look alone: Slurm has powered it down, so it starts no job there."""
        if (wrong := wrong_name(host)) is not None:
            return wrong
        node = await self._node(host)
        if node is None or not isinstance(node, Node):
            return node or await settle(_nothing, self._commands, PATTERNS)
        if node.is_cloud:
            busy = None if node.is_awaited else await self._free(node.name, "nothing was changed", WAIT)
            return busy or Done(is_changed=False)
        free = await self._free(node.name, "nothing was changed")
        if free is not None:
            return free
        if not (node.is_drained or node.is_expected):
            drained = await self.drain(node.name, "being removed")
            if isinstance(drained, Unavailable):
                return drained

        async def plan() -> Iterable[Step] | Refused | Unavailable:
            now = await self._node(host)
            if now is None or not isinstance(now, Node):
                return now or ()
            free = await self._free(now.name, "the host stays drained")
            if free is not None:
                return free
            if now.is_dynamic:
                return (Step(("scontrol", "delete", f"NodeName={now.name}")),)
            return () if now.is_removed else (_drain(now.name, REMOVED),)

        return await settle(plan, self._commands, PATTERNS)

    # -- parts of effects ---------------------------------------------------------------------------------------

    async def _changed(self, host: str, steps: Callable[[Node], Iterable[Step]]) -> Outcome:
        if (wrong := wrong_name(host)) is not None:
            return wrong

        async def plan() -> Iterable[Step] | Refused | Unavailable:
            node = await self._node(host)
            if isinstance(node, Refused | Unavailable):
                return node
            if node is None or node.is_removed:
                return Refused(f"Slurm has no node {host}; nothing was changed: sinfo lists its nodes")
            if node.is_cloud:
                return Refused(CLOUD.format(node=node.name))
            return steps(node)

        return await settle(plan, self._commands, PATTERNS)

    def _steps_to_add(self, node: Node, host: NewHost) -> Iterable[Step] | Refused:
        if node.cpus != host.slots:
            if node.is_expected:  # nothing runs there yet
                return Step(("scontrol", "delete", f"NodeName={node.name}")), _create(host)
            where = "remove it first" if node.is_dynamic else "change slurm.conf"
            return Refused(
                f"{node.name} has {node.cpus} CPUs in Slurm, not {host.slots}; nothing was changed: {where}"
            )
        if self._partition and self._partition not in node.partitions:
            return Refused(
                f"{node.name} is not in the partition {self._partition}; what was done before stays: give the "
                "partition Nodes=ALL in slurm.conf"
            )
        return (_resume(node.name),) if node.is_removed else ()

    async def _free(self, host: str, unchanged: str, then: str = DRAIN) -> Refused | Unavailable | None:
        """Why the host is not to be removed now. `then`: what to do."""
        hosts, jobs = await self.hosts(), await self.queue()
        if isinstance(hosts, Unavailable):
            return hosts
        if isinstance(jobs, Unavailable):
            return jobs
        there = sorted({each.id for each in jobs.jobs for place in each.places if place.host == host})
        busy = sum(each.busy for each in hosts if each.name == host)
        if there or busy:
            which = f"jobs {', '.join(there[:5])}" if there else f"{busy} used CPUs"
            return Refused(f"{host} has {which}; {unchanged}: {then}")
        return None

    async def _node(self, host: str) -> Node | Refused | Unavailable | None:
        """None: Slurm has none."""
        ran = await self._commands.run("scontrol", "--future", "--oneliner", "show", "nodes")
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return failed("scontrol", ran, PATTERNS)
        nodes = {node.name: node for line in ran.text.splitlines() if (node := node_in(line)) is not None}
        name = known(nodes, host)
        return nodes[name] if isinstance(name, str) else name

    # -- readings -----------------------------------------------------------------------------------------------

    async def _said(self, *words: str) -> str | Unavailable:
        ran = await self._commands.run(*words)
        if isinstance(ran, Unavailable) or ran.code == 0:
            return ran if isinstance(ran, Unavailable) else ran.text
        return failed(" ".join(words), ran, PATTERNS)

    async def _parsed(self, parse: Callable[[str], Parsed], *words: str) -> Parsed | Unavailable:
        ran = await self._commands.run(*words)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return failed(words[0], ran, PATTERNS)
        try:
            return parse(ran.text)
        except NoAnswerError as error:
            if ran.errors:
                return failed(words[0], ran, PATTERNS)
            return Unavailable(Fault.SILENT, f"{words[0]} had no answer: {error}: {SEE_CONTROLLER}")
        except AnswerError as error:
            return garbled(words[0], error, RELEASES)


async def _nothing() -> Iterable[Step]:
    return ()


def _since(found: list[Finished], begin: float) -> History:
    return History(tuple(each for each in found if each.ended >= begin), begin)


def _drain(node: str, reason: str) -> Step:
    text = " ".join(reason.split())[:REASON_CHARS_MAX]
    return Step(("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={text}"))


def _steps_to_reach(node: Node, host: NewHost) -> Iterable[Step]:
    """Slurm keeps the address of the last time that a node was up."""
    if not host.address or (node.address, node.hostname) == (host.address, node.name):
        return ()
    words = ("scontrol", "update", f"NodeName={node.name}", f"NodeAddr={host.address}", f"NodeHostName={node.name}")
    return (Step(words),)


def _resume(node: str) -> Step:
    return Step(("scontrol", "update", f"NodeName={node}", "State=RESUME"))


def _undrain(node: Node) -> Step:
    """State=RESUME would make one that is expected a node that does not answer."""
    if node.is_expected:
        return Step(("scontrol", "update", f"NodeName={node.name}", "State=UNDRAIN"))
    return _resume(node.name)


def _create(host: NewHost) -> Step:
    memory = () if host.memory is None else (f"RealMemory={host.memory // _MIB}",)
    words = ("scontrol", "create", f"NodeName={host.name}", f"CPUs={host.slots}", *memory, "State=FUTURE")
    return Step(words)
