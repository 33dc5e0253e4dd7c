"""The documents of `subord machines`, field by field. Memory, disk and images are in MiB. Times are of the clock of
the node that tells them."""

from __future__ import annotations

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Addresses, Count, Document, Sentence, Time
from subord.services.answers import StateDocument


class AmountDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`slots`: for machines. What is free may be below 0."""

    cores: int
    memory_mb: int
    disk_mb: int
    slots: int


# -- the plan -------------------------------------------------------------------------------------------------------


class TypeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that are clones of one template, and the queues that they serve. `window_s` 0: a machine stays open
    without an end. `most` 0: as many are on as fit."""

    name: str
    template: str
    queues: tuple[str, ...]
    cores: Count
    memory_mb: Count
    disk_mb: Count
    image_mb: Count
    group: str
    slots: Count
    window_s: Count
    most: Count


class HeadroomDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What stays free on all servers together."""

    cores: Count
    memory_mb: Count
    disk_mb: Count


class WaitsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """After how many seconds something is waited for no longer."""

    order_s: Count
    answer_s: Count
    batch_s: Count
    start_s: Count
    clone_s: Count
    stop_s: Count
    delete_s: Count


class PlanDocument(Document, frozen=True, kw_only=True):
    """The plan as the asked node holds it. `version` 0: no operator has published one. `off`: this version says that
    no machine is started or stopped; then `manager` is null, and the rest stays for the next plan. `manager`: the
    queue's node. `fault`: why this release cannot follow the plan; "": it can. `trial`: it is decided, and nothing is
    done. `principal`: the operator, as the file of the asked node names the key; null: not known. `conflict`: another
    document had the same version; this one counts."""

    version: Count
    principal: str | None
    time: Time | None
    off: bool
    manager: Address | None
    fault: Sentence
    types: tuple[TypeDocument, ...]
    headroom: HeadroomDocument
    period_s: Count
    waits: WaitsDocument
    store_mb: Count
    moves: bool
    always_on: tuple[str, ...]
    trial: bool
    conflict: bool


class ChangedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: a key of the plan, such as `types.alma.memory_mb`. `before` null: it was not there. `now` null: it is
    there no more."""

    name: str
    before: str | None
    now: str | None


class PublishedDocument(PlanDocument, frozen=True, kw_only=True):
    """What is published, or would be. `changed`: against the plan before, as texts. `batch`: the batch system of the
    queue's node; null: not known. `warnings`: what servers lack for it."""

    changed: tuple[ChangedDocument, ...]
    batch: str | None
    warnings: tuple[Sentence, ...]


class CheckDocument(CoverageDocument, frozen=True, kw_only=True):
    """Of `subord machines policy check`. `faults`: for which it cannot be followed; empty: it can. `warnings`: what
    is not as the plan needs it, or is not known. `plan`: as it would be published; null: it cannot be read.
    `servers`: nodes with machines that have told what they have."""

    faults: tuple[Sentence, ...]
    warnings: tuple[Sentence, ...]
    plan: PlanDocument | None
    servers: Count


# -- servers --------------------------------------------------------------------------------------------------------


class MachineDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`ours`: a clone of a type of a plan, which alone is started and stopped. `type` "": not ours. `state`: on, off,
    paused or unknown. `doing`: what the agent of the server does with it, "": nothing. `peer`: where it goes, or
    comes from. `fault`: why its last change failed."""

    name: str
    ours: bool
    type: str
    state: str
    doing: str
    peer: str
    cores: Count
    memory_mb: Count
    disk_mb: Count
    since: Time | None
    since_s: float | None
    fault: Sentence


class PoolDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A storage pool of libvirt."""

    name: str
    capacity_mb: Count
    free_mb: Count
    active: bool


class ServerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A server as its agent has told it. `state`, `text`, `detail`: how the node takes part. `seen_s`: how old the
    list of machines is; null: there is none. `fault`: why libvirt does not answer. `have`: less the reserve; `used`:
    by all machines that count; `excess`: how far it is overbooked, 0 where it is not. `obeys_version`, `obeys_life`:
    the newest question or order of a queue's node that it has heard of. `obeyed`, `refused`: orders since its agent
    has started; `refusal`: why the last one was refused. `left_out`: of the machines."""

    address: Address
    name: str
    state: str
    text: Sentence
    detail: Sentence
    seen: Time | None
    seen_s: float | None
    fault: Sentence
    uri: str
    have: AmountDocument
    used: AmountDocument
    excess: AmountDocument
    mhz: Count
    drained: bool
    obeys_version: Count
    obeys_life: Count
    obeyed: Count
    refused: Count
    refusal: Sentence
    pools: tuple[PoolDocument, ...]
    machines: tuple[MachineDocument, ...]
    left_out: Count


class ListDocument(CoverageDocument, frozen=True, kw_only=True):
    """`servers`: those that have told what they have. `silent`: nodes with machines.uri that have told nothing, with
    the reason. `others`: nodes that are no servers. `unread`: nodes whose answers cannot be read."""

    plan: PlanDocument
    servers: tuple[ServerDocument, ...]
    silent: tuple[StateDocument, ...]
    others: Count
    unread: Count


# -- the queue's node -----------------------------------------------------------------------------------------------


class ActionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`action`: open, close, start, clone, stop, delete, forget or stay. `source`: the server that gives the machine
    to `server` before. `job`: for which, "": for none. `result`: given, done, lost, refused or trial; `reason`: why
    it was refused or lost."""

    time: Time
    age_s: float
    action: str
    machine: str
    server: str
    source: str
    job: str
    why: Sentence
    result: str
    reason: Sentence


class KindDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type. `type` "": those that are not ours. `open`, `busy`: of those that are on. `left_alone`:
    paused, or in a state that is not known. `cores`, `memory_mb`: what those that are on take."""

    type: str
    on: Count
    off: Count
    open: Count
    busy: Count
    coming: Count
    left_alone: Count
    cores: Count
    memory_mb: Count


class SeenServerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A server as the queue's node sees it. `fault`: why no machine starts there; "": it is reachable. `asked_s`: how
    long ago it was asked for its last answer; null: it has not answered."""

    name: str
    address: str
    asked_s: float | None
    fault: Sentence
    have: AmountDocument
    used: AmountDocument
    excess: AmountDocument
    mhz: Count
    drained: bool
    kinds: tuple[KindDocument, ...]


class TotalsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Since the process that decides has begun. `lost`: actions without an effect in time, `expired`: not done
    because their time was over."""

    rounds: Count
    opened: Count
    closed: Count
    started: Count
    moved: Count
    cloned: Count
    stopped: Count
    deleted: Count
    refused: Count
    lost: Count
    expired: Count
    messages: Count
    message_bytes: Count


class RoundDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the queue's node sees and decides. `text`: its state as a sentence, `detail`: why. `life`: of the process
    that decides, and `round` its number; `seen_s`: how old it is, null: there was none; `next_s`: until the next one.
    `hindrance`: why nothing is decided now. `fault`: why the batch system does not answer. `queues_read`: it has
    answered this process; before that jobs are not known, nor which machines are open, busy or coming, and these
    numbers say nothing. `queues`: all that the batch system has; null: not known. `lacking`: types whose template is
    on no server that answers. `notes`: what a person should look at. `waiting`, `running`: jobs in queues of the
    plan; `unmet`: those that wait and get nothing now. `pending`: actions whose effect is not seen yet; `actions`:
    these, and the last others. `store_mb`: what images of machines of the plan take. `headroom`: what is to stay
    free, `free`: what is. `kinds`: of all servers. `servers`: those that need attention first; `servers_all`: how
    many there are. Numbers of what had no room end in `_left_out`."""

    address: Address
    state: str
    text: Sentence
    detail: Sentence
    version: Count
    batch: str
    trial: bool
    life: Count
    round: Count
    seen: Time | None
    seen_s: float | None
    next_s: float | None
    hindrance: Sentence
    fault: Sentence
    queues_read: bool
    queues: tuple[str, ...] | None
    lacking: tuple[str, ...]
    notes: tuple[Sentence, ...]
    notes_left_out: Count
    waiting: Count
    running: Count
    unmet: Count
    pending: Count
    actions: tuple[ActionDocument, ...]
    actions_left_out: Count
    store_mb: Count
    store_most_mb: Count
    headroom: AmountDocument
    free: AmountDocument
    have: AmountDocument
    used: AmountDocument
    kinds: tuple[KindDocument, ...]
    servers_all: Count
    unreachable: Count
    overbooked: Count
    drained: Count
    servers: tuple[SeenServerDocument, ...]
    servers_left_out: Count
    totals: TotalsDocument
    decide_s: float
    ask_s: float
    order_s: float


class QueueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with a batch system in their configuration, which may have the queue."""

    batch: str
    nodes: Count
    addresses: Addresses


class MachinesDocument(CoverageDocument, frozen=True, kw_only=True):
    """`round` null: the queue's node has not answered or has told nothing, or the plan is ended. `states`: those that
    need an operator first. `queues`: nodes with a batch system; `servers`: nodes with machines.uri. `unread`: nodes
    whose answers cannot be read."""

    plan: PlanDocument
    round: RoundDocument | None
    states: tuple[StateDocument, ...]
    queues: tuple[QueueDocument, ...]
    servers: Count
    unread: Count


class WaitingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits. `place`: in the order of the scheduler, from 1. `why`: what it gets, or why it gets nothing.
    `type`: of machines for its queue; "": its queue has none."""

    job: str
    place: Count
    queue: str
    type: str
    slots: Count
    tasks: Count
    why: Sentence


class WhyDocument(CoverageDocument, frozen=True, kw_only=True):
    """`job`: that was asked for. `jobs`: those that wait with this number: an array may be several. `known`: the
    queue's node has told its jobs; `queues_read`: of which it knows, as the batch system has answered. `waiting`:
    jobs that wait, `left_out`: of which it has told no reasons. `actions`: for this job."""

    plan: PlanDocument
    job: str
    known: bool
    queues_read: bool
    seen: Time | None
    seen_s: float | None
    hindrance: Sentence
    fault: Sentence
    waiting: Count
    left_out: Count
    jobs: tuple[WaitingDocument, ...]
    actions: tuple[ActionDocument, ...]
    unread: Count


# -- orders ---------------------------------------------------------------------------------------------------------


class ResultDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Of nodes that have answered a signed order alike. `fault` "": it is done. `changed`: it was not as wanted
    before. `said`: the whole result, in Base64, for the agent of the queue's node."""

    fault: Sentence
    changed: bool
    nodes: Count
    addresses: Addresses
    said: str = ""


class OrderedDocument(CoverageDocument, frozen=True, kw_only=True):
    """What has come of a signed order. `unread`: nodes whose answers are of another release."""

    results: tuple[ResultDocument, ...]
    unread: Count


class WhereDocument(CoverageDocument, frozen=True, kw_only=True):
    """Which nodes are servers, by their positions, such as 1-3,7. `silent`: those that have not answered."""

    servers: str
    silent: str
