"""The documents of `subord transfer`, field by field. Times are of the clock of the node that tells them."""

from __future__ import annotations

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Addresses, Count, Document, Sentence, Time
from subord.services.answers import StateDocument


class PeerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The other cluster. `fingerprints`: SHA-256 of its certificates."""

    name: str
    addresses: tuple[str, ...]
    fingerprints: tuple[str, ...]


class QueueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer queue of this cluster. `queue`: in the other one, empty: any. `requests`: `NAME=VALUE`, in words of
    the other cluster."""

    name: str
    queue: str
    requests: tuple[str, ...]


class PlanDocument(Document, frozen=True, kw_only=True):
    """The plan as the asked node holds it. `version` 0: no operator has published one. `off`: no job crosses; then
    `host` is null, and all else is as in no plan. `fault`: why this release cannot follow it. `users`,
    `requests`, `parallels`: how many lines the tables have. `principal`: the operator, as the file of the asked node
    names the key; null: not known. `conflict`: another document had the same version; this one counts. `digest`: of
    what the operator has signed."""

    version: Count
    principal: str | None
    time: Time | None
    off: bool
    fault: Sentence
    host: Address | None
    cluster: str
    peer: PeerDocument | None
    queues: tuple[QueueDocument, ...]
    slots_max: Count
    idle_pending_max: Count
    high_throughput: bool
    lease_s: Count
    poll_s: Count
    permit_s: Count
    users: Count
    same_users: bool
    requests: Count
    parallels: Count
    passes_others: bool
    project: str
    opt_out: str
    sensor: str
    conflict: bool
    digest: str


class PublishedDocument(PlanDocument, frozen=True, kw_only=True):
    """What is published, or would be. `batch`: of the transfer host; null: not known. `warnings`: what a person
    should look at."""

    batch: str | None
    warnings: tuple[Sentence, ...]


class LinkDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`up`: there is a connection. `fault`: why the last message has no answer. `listening_fault`: why the other
    cluster cannot ask. `key_fault`: why a key of ours that has changed is not in use. `answered_s`, `asked_s`:
    since the last answer, and the last message of the other cluster; null: there was none. `messages`, `bytes`,
    `refusals`, `failures`: by kind or cause, since the agent has the plan. `refused_last`: the address of the
    last stranger, and the cause; `refused_s`: since then, null: there was none."""

    up: bool
    fault: Sentence
    listening_fault: Sentence
    key_fault: Sentence
    answered_s: float | None
    asked_s: float | None
    messages: dict[str, int]
    bytes: dict[str, int]
    refusals: dict[str, int]
    failures: dict[str, int]
    refused_last: str
    refused_s: float | None


class FilesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Files of jobs on the transfer host. `jobs_waiting`: those whose files are packed and were not fetched yet, with
    `files_waiting` and `bytes_waiting` together; `results_waiting`: jobs that have ended, and whose results are to
    come. `spool_bytes`: of archives; `spool_free_bytes`: for which there is room; null: not known. `directories`:
    here, of jobs that came. `sent`, `received`: bytes since the agent has the plan. `failures`: by cause. `fault`:
    the last of them, `fault_s`: its age; null: there was none."""

    jobs_waiting: Count
    files_waiting: Count
    bytes_waiting: Count
    results_waiting: Count
    spool_bytes: Count | None
    spool_free_bytes: Count | None
    directories: Count
    sent: Count
    received: Count
    failures: dict[str, int]
    fault: Sentence
    fault_s: float | None


class HostDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the transfer host sees. `text`: its state as a sentence, `detail`: why. `poll_age_s`: of the last look at
    the batch system, null: none has succeeded; `fault`: why the last one failed. `sensor_fault`: why the batch
    system does not hear how many jobs wait there. `unit_fault`: what the unit of the agent lacks. `peer_pending`:
    jobs that wait in the other cluster, null: not known; `offer`: how many more it takes. `pending`: jobs that wait
    here; `room`: how many more may come. `permits_given`, `permits_held`: of both directions, not used yet.
    `starters`: methods that wait. `leaving`, `coming`: jobs by state. `left`, `taken`: what came of jobs since the
    agent has the plan. `full`: jobs that were refused since there was no room for their records. `forged`: jobs here
    that have the mark of a job of the other cluster, and another user. `looks`, `calls_failed`: of the batch
    system."""

    address: Address
    state: str
    text: Sentence
    detail: Sentence
    version: Count
    batch: str
    cluster: str
    peer: str
    poll: Time | None
    poll_age_s: float | None
    fault: Sentence
    sensor_fault: Sentence
    unit_fault: Sentence
    link: LinkDocument
    peer_pending: Count | None
    offer: Count
    pending: Count | None
    room: Count
    slots_max: Count
    idle_pending_max: Count | None
    permits_given: Count
    permits_held: Count
    starters: Count
    leaving: dict[str, int]
    coming: dict[str, int]
    left: dict[str, int]
    taken: dict[str, int]
    full: Count
    forged: Count
    looks: Count
    calls_failed: Count
    files: FilesDocument


class BatchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with `transfer.batch` in their configuration, which may be the transfer host."""

    batch: str
    nodes: Count
    addresses: Addresses


class JobDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A job that crosses. `way`: `leaves` this cluster, or `comes` from the other one. `job`, `task`: at home, 0: it
    is no task of an array. `user`: empty: not known any more. `state`: of the exchange. `id`: in the batch system of
    the other cluster, of a job that comes in that of this one. `being`: as it was seen there. `since`: when it was
    started in the transfer queue, by the clock of its home. `end`: `status N`, `signal N` or empty. `host`, `wall_s`,
    `cpu_s`, `memory_bytes`: of the accounting where it has run, null: not known. `over`: it does not cross any
    more."""

    way: str
    job: str
    task: Count
    user: str
    state: str
    id: str
    being: str
    wanted: str
    since: Time | None
    since_s: float | None
    reason: Sentence
    end: str
    host: str
    wall_s: float | None
    cpu_s: float | None
    memory_bytes: int | None
    over: bool


class TransferDocument(CoverageDocument, frozen=True, kw_only=True):
    """`host` null: the transfer host has not answered or has told nothing, or no job crosses. `states`: those that
    need an operator first. `batches`: of those that have answered. `jobs`: only if they were asked for; `left_out`:
    further ones. `unread`: nodes whose answers cannot be read."""

    plan: PlanDocument
    host: HostDocument | None
    states: tuple[StateDocument, ...]
    batches: tuple[BatchDocument, ...]
    jobs: tuple[JobDocument, ...]
    left_out: Count
    unread: Count


class SiteDocument(Document, frozen=True, kw_only=True):
    """What the asked node has in its configuration for `subord transfer setup` and `key`."""

    address: Address
    batch: str
    batch_environment: tuple[str, ...]
    key: str
    listen: str
    socket: str


class KeyDocument(Document, frozen=True, kw_only=True):
    """Of `subord transfer key`. `certificate`: for `peer.certificates` of the plan of the other cluster.
    `fingerprint`: SHA-256 of it. `made`: it was not there before."""

    path: str
    certificate: str
    fingerprint: str
    made: bool


class SetupDocument(Document, frozen=True, kw_only=True):
    """Of `subord transfer setup`. `applied`: the batch system was told; `changed`: it was not as wanted before.
    `text`: what is to be given to which command, empty if it was applied."""

    applied: bool
    changed: bool
    queues: tuple[str, ...]
    text: str
