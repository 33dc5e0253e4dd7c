"""The documents of `subord elastic`, field by field. Times are of the clock of the node that tells them."""

from __future__ import annotations

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Addresses, Count, Document, Sentence, Time
from subord.services.answers import StateDocument


class OptionsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the text by their names. `idle_min` null: nodes go by the minute of their paid hour. `lasts_s`
    null: nodes are added however soon the queue is empty. `decides`: `subord`, or `slurm` with its power saving."""

    max_nodes: Count
    min_nodes: Count
    add_nodes_per_iter: Count
    interval_s: Count
    job_wait_time_s: Count
    kill_after_min: Count
    stabilization_time_s: Count
    lookback_window_min: Count
    kill_cluster: bool
    idle_min: Count | None
    lasts_s: Count | None
    queue: str
    decides: str


class UserDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A user with its group that each added node gets."""

    name: str
    uid: Count
    group: str
    gid: Count
    home: str
    shell: str


class MountDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`source`: a directory of the queue's node. `target`: where an added node mounts it."""

    source: str
    target: str
    read_only: bool


class PlanDocument(Document, frozen=True, kw_only=True):
    """The plan as the asked node holds it. `version` 0: no operator has published one. `off`: this version says that
    the cluster is not elastic; then `manager` is null, and the rest stays for the next plan. `manager`: the queue's
    node. `former`: prefixes of plans before, whose nodes may still serve. `options` null: there are none, or this
    release cannot read the plan. `kinds` empty: all of the queue's node. `hosts`: names are spread in hosts tables.
    `trial`: it is decided, and nothing is done. `principal`: the operator, as the file of the asked node names the
    key; null: not known. `conflict`: another document had the same version; this one counts."""

    version: Count
    principal: str | None
    time: Time | None
    off: bool
    manager: Address | None
    options: OptionsDocument | None
    prefix: str
    former: tuple[str, ...]
    kinds: tuple[str, ...]
    users: tuple[UserDocument, ...]
    mounts: tuple[MountDocument, ...]
    hosts: bool
    trial: bool
    conflict: bool


class ChangedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: an option of `subord elastic set`, or `manager`. `before` null: there was no plan."""

    name: str
    before: str | None
    now: str


class SetDocument(PlanDocument, frozen=True, kw_only=True):
    """What is published, or would be. `changed`: against the plan before, as texts. `batch`: the batch system of the
    queue's node; null: not known, because the node was not asked or has not answered."""

    changed: tuple[ChangedDocument, ...]
    batch: str | None


class NodeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster. `stage`: a word, "": it was not added by this cluster; `since`: of the stage. `tries`:
    of the work of the stage that have failed, `fault`: why the last one did. `minute`: of the paid hour; null: the
    cluster does not pay for it. `idle_since` null: it is not idle."""

    name: str
    address: str
    master: bool
    stage: str
    since: Time | None
    since_s: float | None
    tries: Count
    fault: Sentence
    slots: Count
    used: Count
    jobs: Count
    kind: str
    paid_since: Time | None
    minute: Count | None
    idle_since: Time | None
    idle_s: float | None


class GrowthDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the queue's node sees and decides. `text`: its state as a sentence, `detail`: why. `poll_age_s`: of the
    last poll that succeeded, null: none has; `next_poll_s`: until the next one. `fault`: why the last poll failed.
    `why`: sentences about the last decision, `why_left_out`: so many more. `needed`: nodes that the queue needs.
    `oldest_s`: how long the oldest job has waited. `size`: nodes that are there or paid for soon. `changed`: when
    nodes were last added or removed. `blocked_s`: for how long nodes are wanted and none could be added; null: none
    is, or some could. `added`, `removed`, `undone`: nodes since the records began. `left_out`: further nodes, which
    had no room in the answer."""

    address: Address
    state: str
    text: Sentence
    detail: Sentence
    version: Count
    batch: str
    queue: str
    master: str
    trial: bool
    poll: Time | None
    poll_age_s: float | None
    next_poll_s: float | None
    fault: Sentence
    why: tuple[Sentence, ...]
    why_left_out: Count
    needed: Count
    queued: Count
    running: Count
    slots: Count
    free: Count
    oldest_s: float
    size: Count
    min_nodes: Count
    max_nodes: Count
    changed: Time | None
    blocked_s: float | None
    added: Count
    removed: Count
    undone: Count
    nodes: tuple[NodeDocument, ...]
    left_out: Count


class QueueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with a batch system in their configuration, which may have the queue, and their kinds of nodes."""

    batch: str
    kinds: tuple[str, ...]
    nodes: Count
    addresses: Addresses


class ElasticDocument(CoverageDocument, frozen=True, kw_only=True):
    """`growth` null: the queue's node has not answered or has told nothing, or the cluster is not elastic. `states`:
    those that need an operator first. `queues`: of those that have answered. `unread`: nodes whose answers cannot be
    read."""

    plan: PlanDocument
    growth: GrowthDocument | None
    states: tuple[StateDocument, ...]
    queues: tuple[QueueDocument, ...]
    unread: Count


class PollDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What one poll saw. Averages are of jobs that have ended, in seconds; `avg_load` is of the hosts."""

    time: Time
    num_hosts: Count
    running: Count
    queued: Count
    slots: Count
    avg_duration: float
    avg_wait: float
    avg_load: float


class PollingDocument(Document, frozen=True, kw_only=True):
    """Of `subord elastic poll`. `asked`: the agent of this node has been told to look at the queue."""

    asked: bool


class PollsDocument(Document, frozen=True, kw_only=True):
    """The last polls that the asked node has seen, the oldest first; none of a node that does not have the queue.
    `cluster`: cluster.name. `interval_s`: between two polls; null: the node holds no plan."""

    cluster: str
    interval_s: Count | None
    polls: tuple[PollDocument, ...]
