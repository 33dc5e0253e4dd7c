"""What the manager needs of the nodes of the cluster, and of the disk.

Nothing is raised for what a node does. A second call, or one after an interruption, ends in the same state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from subord.services.elastic.records import Counters
from subord.services.elastic.stages import Record
from subord.services.elastic.task import Result, Step


class Nodes(Protocol):
    """Addresses are those that the supplier has told. Calls overlap."""

    async def joined(self, address: str) -> str:
        """Whether the daemon and the agent of a node answer now; "": they do, else why not. It does not wait long."""

    async def order(self, address: str, step: Step) -> Result | str:
        """Have an added node carry out a step; the text: why it could not be asked, or has not answered."""

    async def names(self, table: Mapping[str, str], must: Collection[str]) -> str:
        """The hosts tables have these added nodes, addresses by name, and the queue's node, and no others; "": the
        nodes with the addresses `must` and the queue's node have it so, or as in a later call; else why not. Later
        calls count, also while an earlier one waits."""

    async def export(self, addresses: Collection[str]) -> str:
        """The queue's node exports the directories of the plan to these addresses and no others; "": it does, else
        why not. Later calls count, also while an earlier one waits."""

    async def unexport(self, addresses: Collection[str]) -> str:
        """The queue's node exports nothing to others than these addresses, which have what they have; "": it does
        not, else why not. What is wrong with a directory holds up no end of a node. Otherwise as `export`."""


class Store(Protocol):
    """records.py; each call blocks, raises RecordsError, and is made in a thread."""

    def all(self) -> dict[str, Record]: ...

    def counters(self) -> Counters: ...

    def put(self, *records: Record, counters: Counters | None = None) -> None: ...

    def drop(self, *names: str, counters: Counters | None = None) -> None: ...
