"""What the agent of a queue's node tells its daemon about elastic growth.

The agent sends a State after each poll and each change of a stage; the daemon keeps the last one, and the polls.
Times are seconds since 1970. Invariant: what is decoded is within its bounds, so `subord elastic` can show it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.runtime.orders.told import Told

NONE: Final = "none"
OFF: Final = "off"
STARTING: Final = "starting"
OTHER_NODE: Final = "other node"
NO_AGENT: Final = "no agent"
REFUSED: Final = "refused"
FAILED: Final = "failed"
MANAGES: Final = "manages"
WORDS: Final = (FAILED, REFUSED, NO_AGENT, STARTING, MANAGES, OTHER_NODE, OFF, NONE)
SENTENCES: Final = {
    NONE: "no cluster is elastic: no plan was published",
    OFF: "elastic growth is off; nodes stay as they are",
    STARTING: "the agent has not said yet how the node takes part",
    OTHER_NODE: "another node has the queue",
    NO_AGENT: "there is no agent on the node, or it cannot be reached: start subord-agent.socket",
    REFUSED: "the agent refuses the plan",
    FAILED: "the agent cannot manage the cluster; no node is added or removed",
    MANAGES: "the node adds and removes nodes",
}
STAGES: Final = (
    "starting",
    "joining",
    "naming",
    "users",
    "exporting",
    "mounting",
    "registering",
    "serving",
    "draining",
    "unnaming",
    "unexporting",
    "stopping",
)
"""As in services/elastic/stages.py."""
SERVING: Final = "serving"
UNKNOWN: Final = "unknown"
"""In place of a stage: the supplier lists the node, so it is paid for, but there is no record of it."""
TEXT_CHARS_MAX: Final = 400
WHY_MAX: Final = 40
NODES_MAX: Final = 500
"""In one State; those with a fault and those that are added or removed come first."""
POLLS_MAX: Final = 100

_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster. `stage`: of STAGES, or UNKNOWN; "": it is a host of the queue that this cluster has not
    added. `since`: of the stage. `tries`: of the work of the stage that have failed. `fault`: why the last one did.
    `paid_since`: None: it is not paid for by this cluster. `kind`: of node, "" if there is only one."""

    name: _Text
    address: _Text = ""
    stage: _Text = ""
    since: float = 0.0
    tries: int = 0
    fault: _Text = ""
    slots: int = 0
    used: int = 0
    jobs: int = 0
    paid_since: float | None = None
    idle_since: float | None = None
    kind: _Text = ""
    is_master: bool = False


class Poll(msgspec.Struct, frozen=True, array_like=True):
    """The statistics of one poll, in the order of services/elastic/statistics/."""

    time: float
    num_hosts: int
    running: int
    queued: int
    slots: int
    avg_duration: float
    avg_wait: float
    avg_load: float


class State(Told, frozen=True, kw_only=True):
    """`word`: of WORDS. `version`: of the plan. `at`: of the last poll that
    succeeded, 0: none has. `fault`: why the last poll failed, "": it did not. `why`: of the last decision. `needed`:
    nodes that the queue needs. `oldest_s`: how long the oldest job has waited. `size`: nodes that are there or paid
    for soon. `blocked_since`: since when nodes are wanted and none could be added, 0: that is not so. `left_out`: of
    `nodes`. `polls`: those since the last State."""

    is_trial: bool = False
    batch: _Text = ""
    queue: _Text = ""
    master: _Text = ""
    at: float = 0.0
    next_at: float = 0.0
    fault: _Text = ""
    why: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=WHY_MAX)] = ()
    needed: int = 0
    queued: int = 0
    running: int = 0
    slots: int = 0
    free: int = 0
    oldest_s: float = 0.0
    size: int = 0
    min_nodes: int = 0
    max_nodes: int = 0
    changed_at: float = 0.0
    blocked_since: float = 0.0
    added: int = 0
    removed: int = 0
    undone: int = 0
    nodes: Annotated[tuple[NodeState, ...], msgspec.Meta(max_length=NODES_MAX)] = ()
    left_out: int = 0
    polls: Annotated[tuple[Poll, ...], msgspec.Meta(max_length=POLLS_MAX)] = ()
