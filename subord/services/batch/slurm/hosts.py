"""`sinfo --json`: the nodes, and `scontrol show node`: also one that has not come yet.

Input is text; outputs are hosts as one partition sees them, and what is known of one node. A node of slurm.conf that
`remove` has taken out keeps its record in Slurm, with REMOVED as the reason: it is not listed. A node with
State=CLOUD that is powered down is in neither answer, unless slurm.conf has PrivateData=cloud.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from subord.services.batch.records import Host, HostState, Wanted
from subord.services.batch.slurm.answers import NodeAnswer, NodesAnswer, read

WORDS: Final = ("sinfo", "--json", "--all")
REMOVED: Final = "subord: removed"
_UP: Final = frozenset({"idle", "mixed", "allocated"})
_AWAY: Final = frozenset({"NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"})
_BAD: Final = frozenset({"INVALID_REG", "FAIL"})
_CLOUD: Final = "CLOUD"
_DOWN: Final = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
_COMING: Final = frozenset({"POWERING_UP", "POWER_UP"})
_NO_LOAD: Final = (1 << 32) - 2
"""Of a node that has not reported yet."""
_MIB: Final = 1 << 20


class Node(NamedTuple):
    """One node, in the words of scontrol."""

    name: str
    cpus: int
    flags: frozenset[str]
    """With its state."""
    reason: str
    partitions: tuple[str, ...]
    address: str = ""
    hostname: str = ""

    @property
    def is_cloud(self) -> bool:
        """Slurm has it started and ended."""
        return _CLOUD in self.flags

    @property
    def is_awaited(self) -> bool:
        """No job runs there before it has come."""
        return self.is_cloud and bool(self.flags & _COMING)

    @property
    def is_dynamic(self) -> bool:
        """It is not in slurm.conf."""
        return "DYNAMIC_NORM" in self.flags

    @property
    def is_expected(self) -> bool:
        """It has been created, and no slurmd has come."""
        return "FUTURE" in self.flags

    @property
    def is_drained(self) -> bool:
        return "DRAIN" in self.flags

    @property
    def is_removed(self) -> bool:
        return self.is_drained and self.reason.startswith(REMOVED)


def hosts_in(text: str, partition: str) -> list[Host]:
    """Raises AnswerError."""
    hosts = (_host(each, partition) for each in read(text, NodesAnswer).nodes)
    return [each for each in hosts if not (each.is_drained and each.reason.startswith(REMOVED))]


def _host(answer: NodeAnswer, partition: str) -> Host:
    is_in = not partition or partition in answer.partitions
    memory, load = answer.real_memory, answer.cpu_load
    return Host(
        name=answer.name,
        slots=answer.cpus if is_in else 0,
        used=answer.alloc_cpus if is_in else 0,
        busy=max(answer.alloc_cpus, 1 if "COMPLETING" in answer.state_flags else 0),
        state=_state(answer.state, frozenset(answer.state_flags)),
        is_drained="DRAIN" in answer.state_flags,
        word="+".join((answer.state.upper(), *answer.state_flags)),
        load=None if load is None or not 0 <= load < _NO_LOAD else load / 100,
        cpus=answer.cpus,
        memory=None if memory is None else memory * _MIB,
        reason=answer.reason or "",
        wanted=wanted_of(answer.state, frozenset(answer.state_flags)),
    )


def _state(state: str, flags: frozenset[str]) -> HostState:
    if state == "error" or flags & _BAD:
        return HostState.ERROR
    return HostState.UP if state in _UP and not flags & _AWAY else HostState.DOWN


def wanted_of(state: str, flags: frozenset[str]) -> Wanted:
    """Slurm starts no job on a node that is down, so one that was set down while it was awaited is not wanted."""
    if _CLOUD not in flags:
        return Wanted.NOTHING
    if flags & _DOWN:
        return Wanted.END
    if flags & _COMING:
        return Wanted.END if state == "down" else Wanted.START
    return Wanted.STAY


def node_in(text: str) -> Node | None:
    """The line of `scontrol --oneliner show node`; None: it has none. The reason, which may have spaces and equals
    signs, comes last."""
    found = re.search(r"^NodeName=(\S+) .*?$", text, re.MULTILINE)
    if found is None:
        return None
    line, _, reason = found[0].partition(" Reason=")
    fields = dict(re.findall(r"(\S+?)=(\S*)", line))
    flags = frozenset(re.sub(r"[*~#!%$@^-]+(?=\+|$)", "", fields.get("State", "")).split("+"))
    partitions = tuple(filter(None, fields.get("Partitions", "").split(",")))
    cpus = fields.get("CPUTot", "0")
    return Node(
        found[1],
        int(cpus) if cpus.isdigit() else 0,
        flags,
        reason.partition(" [")[0],
        partitions,
        fields.get("NodeAddr", ""),
        fields.get("NodeHostName", ""),
    )
