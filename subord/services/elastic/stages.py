"""The stages of a node that is added or removed, and what follows which. Pure.

The text has seven steps to add a node and four to remove it; each is a stage here, whose work can be done again at
any time. A node has one record, which is written before the work of its stage begins, so after the death of any
process the work of that stage is done again. Invariants: from the first work on there is a record until the last one
is done, so no node is forgotten or paid for twice; a node that cannot be added is removed by the same four stages.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace


class Stage(StrEnum):
    STARTING = "starting"
    """1. The supplier starts a node of this name."""
    JOINING = "joining"
    """2. The daemon of the node comes up, and its agent answers."""
    NAMING = "naming"
    """3. The hosts tables of the nodes have its name."""
    USERS = "users"
    """4. It gets the users and groups of the cluster."""
    EXPORTING = "exporting"
    """5. The queue's node exports its directories to it."""
    MOUNTING = "mounting"
    """6. It mounts them."""
    REGISTERING = "registering"
    """7. The batch system learns of it, and its batch daemon runs."""
    SERVING = "serving"
    """Jobs start there."""
    DRAINING = "draining"
    """1. No job starts there, none runs there, and the batch system forgets it."""
    UNNAMING = "unnaming"
    """2. The hosts tables lose its name."""
    UNEXPORTING = "unexporting"
    """3. The queue's node exports nothing to it."""
    STOPPING = "stopping"
    """4. The supplier ends it. Then its record goes."""


ADDING: Final = tuple(Stage)[:7]
REMOVING: Final = tuple(Stage)[8:]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node. `number`: of its name. `entered_at`: of the stage; `began_at`: of the first stage of the way that
    it is on. `paid_since`: None: the supplier has not started it yet. `tries`, `fault`: of the work of this stage
    that failed. `is_undone`: it is removed because it could not be added. `is_lost`: because it has vanished, or does
    not answer. `reason`: why it is removed, or registered again. `is_wanted`: the batch system has named it, and says
    when it is removed. `prepared`: the mark of the plan whose users and mounts it has."""

    name: str
    number: int
    kind: str
    slots: int
    stage: Stage
    entered_at: float
    began_at: float
    address: str = ""
    paid_since: float | None = None
    tries: int = 0
    fault: str = ""
    is_undone: bool = False
    is_lost: bool = False
    reason: str = ""
    is_wanted: bool = False
    prepared: str = ""

    def not_after(self, now: float) -> Record:
        """With no time that is yet to come."""
        if max(self.entered_at, self.began_at, self.paid_since or 0.0) <= now:
            return self
        return replace(
            self,
            entered_at=min(self.entered_at, now),
            began_at=min(self.began_at, now),
            paid_since=None if self.paid_since is None else min(self.paid_since, now),
        )
