"""What the agent of a node tells its daemon about virtual machines of a batch queue.

The agent of a server tells a ServerState after each change there, and at least once a minute; that of the queue's
node tells a State after each round, and that of every node tells one when it gets a plan. A node may be both. The
daemon keeps the last of each. Times are seconds since 1970 by the clock of the node; memory and disk are in MiB.
Invariant: what is decoded is within its bounds, so `subord machines` can show it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.runtime.orders.told import Told

NONE: Final = "none"
OFF: Final = "off"
STARTING: Final = "starting"
OTHER_NODE: Final = "other node"
SERVES: Final = "serves"
NO_AGENT: Final = "no agent"
REFUSED: Final = "refused"
FAILED: Final = "failed"
MANAGES: Final = "manages"
WORDS: Final = (FAILED, REFUSED, NO_AGENT, STARTING, MANAGES, SERVES, OTHER_NODE, OFF, NONE)
"""Those that need an operator first."""
SENTENCES: Final = {
    NONE: "no machines are managed: no plan was published",
    OFF: "the plan is ended, and machines stay as they are",
    STARTING: "the agent has not said yet how the node takes part",
    OTHER_NODE: "the node has no machines, and another node has the queue",
    SERVES: "the node starts and stops machines as the queue's node says",
    NO_AGENT: "there is no agent on the node, or it cannot be reached: start subord-agent.socket",
    REFUSED: "the agent refuses the plan",
    FAILED: "the agent cannot follow the plan; no machine is started or stopped",
    MANAGES: "the node decides which machines are on",
}
STATES: Final = ("on", "off", "paused", "unknown")
"""As in services/machines/model.py."""
DOING: Final = ("", "starting", "cloning", "stopping", "deleting", "moving")
"""As in services/machines/model.py; `moving`: it was given to another server, or arrives from one."""
ACTIONS: Final = ("open", "close", "start", "clone", "stop", "delete", "forget", "stay")
"""As in services/machines/orders.py, in small letters."""
GIVEN: Final = "given"
DONE: Final = "done"
LOST: Final = "lost"
RESULTS: Final = (GIVEN, DONE, LOST, REFUSED)
"""Of an action: it is under way, its effect was seen, no effect was seen in time, or its server has refused it."""
TRIAL: Final = "trial"
"""In place of a result: the plan is a trial, and nothing is done."""

TEXT_CHARS_MAX: Final = 400
NAME_CHARS_MAX: Final = 128
NOTES_MAX: Final = 40
POOLS_MAX: Final = 16
MACHINES_MAX: Final = 256
"""Of one server; those with a fault, and those that are on, come first."""
ACTIONS_MAX: Final = 200
JOBS_MAX: Final = 1_000
SERVERS_MAX: Final = 500
"""In one State; those that are overbooked or do not answer come first."""
KINDS_MAX: Final = 64
QUEUES_MAX: Final = 256

COUNT_MAX: Final = 1 << 50
"""Of numbers and times."""

_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Signed = Annotated[int, msgspec.Meta(ge=-COUNT_MAX, le=COUNT_MAX)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Notes = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=NOTES_MAX)]


class Amount(msgspec.Struct, frozen=True, array_like=True):
    """Of cores, MiB of memory and of disk, and slots for machines. The same four as Capacity of the model."""

    cores: _Signed = 0
    memory: _Signed = 0
    disk: _Signed = 0
    slots: _Signed = 0


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of a server. `type` "": it is not ours. `state`: of STATES, `doing`: of DOING. `peer`: the server to
    which it goes, or from which it comes. `since`: of its state; 0: not known. `fault`: why the last change of it
    failed; "": it did not."""

    name: _Name
    type: _Name = ""
    state: _Name = "off"
    doing: _Name = ""
    peer: _Name = ""
    cores: _Count = 0
    memory: _Count = 0
    disk: _Count = 0
    since: _Seconds = 0.0
    fault: _Text = ""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A storage pool of a server, in MiB."""

    name: _Name
    capacity: _Count = 0
    free: _Count = 0
    is_active: bool = True


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """What is on a server. `name`: which other servers and the queue's node have for it. `at`: when the machines were
    last listed; 0: never. `fault`: why libvirt does not answer; "": it does, and then `at` is not old. `have`: less
    the reserve; `used`: by all machines that are counted, ours or not. `version`, `life`: the fence that it obeys.
    `started`, `refused`: since the agent has started: orders of the queue's node that were carried out, and that
    were not; `refusal`: why the last one was not. `left_out`: of the machines."""

    name: _Name
    uri: _Text = ""
    at: _Seconds = 0.0
    fault: _Text = ""
    have: Amount = Amount()
    used: Amount = Amount()
    mhz: _Count = 0
    is_drained: bool = False
    version: _Count = 0
    life: _Count = 0
    obeyed: _Count = 0
    refused: _Count = 0
    refusal: _Text = ""
    pools: Annotated[tuple[Pool, ...], msgspec.Meta(max_length=POOLS_MAX)] = ()
    machines: Annotated[tuple[MachineState, ...], msgspec.Meta(max_length=MACHINES_MAX)] = ()
    left_out: _Count = 0


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What a round has decided. `kind`: of ACTIONS. `source`: the server that gives the machine to `server`. `job`:
    for which; "": for none. `result`: of RESULTS, or TRIAL; `reason`: why it was refused or lost."""

    at: _Seconds
    kind: _Name
    machine: _Name
    server: _Name = ""
    source: _Name = ""
    job: _Name = ""
    why: _Text = ""
    result: _Name = GIVEN
    reason: _Text = ""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits, in the order of the scheduler. `why`: what it gets, or why it gets nothing. `is_unmet`: it
    gets nothing now, or not all that it wants."""

    id: _Name
    queue: _Name = ""
    type: _Name = ""
    slots: _Count = 1
    tasks: _Count = 1
    why: _Text = ""
    is_unmet: bool = False


class KindCount(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Machines of one type, of one server or of all. `type` "": those that are not ours. `open`: jobs may start
    there; `busy`: at least one job is there; `coming`: they start, or are cloned; `left_alone`: paused, or in a
    state that is not known."""

    type: _Name
    on: _Count = 0
    off: _Count = 0
    open: _Count = 0
    busy: _Count = 0
    coming: _Count = 0
    left_alone: _Count = 0
    cores: _Count = 0
    """Of those that are on."""
    memory: _Count = 0


class SeenServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as the queue's node sees it. `fault`: why it counts as not reachable, or why its libvirt does not
    answer; "": it is reachable. `excess`: how far it is overbooked; 0 where it is not."""

    name: _Name
    address: _Name = ""
    asked_at: _Seconds = 0.0
    fault: _Text = ""
    have: Amount = Amount()
    used: Amount = Amount()
    excess: Amount = Amount()
    mhz: _Count = 0
    is_drained: bool = False
    kinds: Annotated[tuple[KindCount, ...], msgspec.Meta(max_length=KINDS_MAX + 1)] = ()


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Since the process that decides has begun. `refused`: by servers, `lost`: without an effect in time, `expired`:
    not done because its time was over. `messages`, `message_bytes`: to and from servers."""

    rounds: _Count = 0
    opened: _Count = 0
    closed: _Count = 0
    started: _Count = 0
    moved: _Count = 0
    cloned: _Count = 0
    stopped: _Count = 0
    deleted: _Count = 0
    refused: _Count = 0
    lost: _Count = 0
    expired: _Count = 0
    messages: _Count = 0
    message_bytes: _Count = 0


class State(Told, frozen=True, kw_only=True):
    """`word`: of WORDS. `version`: of the plan. The rest is of the queue's node. `life`: of the process that decides.
    `round`: its number. `at`: of the last round that has decided, or has seen that it may not; `next_at`: of the next
    one. `hindrance`: why nothing is decided now; `fault`: why the batch system does not answer. `is_unread`: it has
    not answered this process yet, so jobs are not known, nor which machines are up, open and busy. `queues`: all that
    the batch system has; None: not known. `lacking`: types whose template is on no server that answers. `waiting`,
    `running`: jobs of the queues of the plan; `unmet`: those that wait and get nothing now. `store`: MiB that images
    of our machines take, `store_most`: may take. `headroom`: what is to stay free, `free`: what is. `kinds`, `have`,
    `used`: of all servers. `servers_all`, `unreachable`, `overbooked`, `drained`: numbers of servers. `decide_s`,
    `ask_s`, `order_s`: how long the last round took to decide, to ask all servers, and to give its orders. The
    numbers of what has no room end in `_left_out`."""

    is_trial: bool = False
    batch: _Text = ""
    life: _Count = 0
    round: _Count = 0
    at: _Seconds = 0.0
    next_at: _Seconds = 0.0
    hindrance: _Text = ""
    fault: _Text = ""
    is_unread: bool = False
    queues: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=QUEUES_MAX)] | None = None
    lacking: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=KINDS_MAX)] = ()
    notes: _Notes = ()
    notes_left_out: _Count = 0
    waiting: _Count = 0
    running: _Count = 0
    unmet: _Count = 0
    jobs: Annotated[tuple[JobState, ...], msgspec.Meta(max_length=JOBS_MAX)] = ()
    jobs_left_out: _Count = 0
    actions: Annotated[tuple[Action, ...], msgspec.Meta(max_length=ACTIONS_MAX)] = ()
    """The newest ones first: all that are under way, and then others."""
    actions_left_out: _Count = 0
    pending: _Count = 0
    store: _Count = 0
    store_most: _Count = 0
    headroom: Amount = Amount()
    free: Amount = Amount()
    have: Amount = Amount()
    used: Amount = Amount()
    kinds: Annotated[tuple[KindCount, ...], msgspec.Meta(max_length=KINDS_MAX + 1)] = ()
    servers_all: _Count = 0
    unreachable: _Count = 0
    overbooked: _Count = 0
    drained: _Count = 0
    servers: Annotated[tuple[SeenServer, ...], msgspec.Meta(max_length=SERVERS_MAX)] = ()
    servers_left_out: _Count = 0
    totals: Totals = Totals()
    decide_s: _Seconds = 0.0
    ask_s: _Seconds = 0.0
    order_s: _Seconds = 0.0
