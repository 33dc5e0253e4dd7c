"""What the document of machines says: their types, the queues that these serve, and the limits of each wait.

An operator signs it; the body is JSON. Input is the body; output is the plan, or PlanError with a sentence that says
what is wrong. Invariant: a plan that can be read can be followed: a queue has exactly one type, each need fits a
server that could exist, and no wait is without an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.services.machines.model import Capacity, Job, Need, Want

BODY_MAX: Final = 8 * 1024
TYPES_MAX, QUEUES_MAX, NAMES_MAX = 64, 16, 256
CORES_MAX, MIB_MAX, SLOTS_MAX = 1024, 1 << 30, 4096
WAIT_S_MAX: Final = 3600
WINDOW_S_MAX: Final = 7 * 86_400
PERIOD_S_MIN, PERIOD_S_MAX = 1, 300
WANTS_MAX: Final = 10_000
"""Parts of jobs that one iteration looks at."""
_Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,39}\Z")]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
_Mib = Annotated[int, msgspec.Meta(ge=0, le=MIB_MAX)]
_Wait = Annotated[int, msgspec.Meta(ge=1, le=WAIT_S_MAX)]


class PlanError(ValueError):
    """The document cannot be followed. The text says what is wrong, and that nothing has changed."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Type(_Strict, frozen=True, kw_only=True):
    """Machines that are clones of one template. `group`: to which it belongs, for lists. `slots`: jobs of one slot
    that run there at the same time. `window_s`: a machine is open for new jobs for so long; 0: without an end.
    `most`: how many are on at the same time; 0: as many as fit. `image_mb`: of a clone, in the store of images."""

    name: _Word
    template: _Name
    queues: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1, max_length=QUEUES_MAX)]
    cores: Annotated[int, msgspec.Meta(ge=1, le=CORES_MAX)] = 1
    memory_mb: Annotated[int, msgspec.Meta(ge=1, le=MIB_MAX)]
    disk_mb: _Mib = 0
    image_mb: _Mib
    group: Annotated[str, msgspec.Meta(max_length=40)] = ""
    slots: Annotated[int, msgspec.Meta(ge=1, le=SLOTS_MAX)] = 1
    window_s: Annotated[int, msgspec.Meta(ge=0, le=WINDOW_S_MAX)] = 0
    most: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def need(self) -> Need:
        return Need(self.cores, self.memory_mb, self.disk_mb)


class Headroom(_Strict, frozen=True, kw_only=True):
    """What stays free on all servers together, as long as idle machines can be stopped for it."""

    cores: Annotated[int, msgspec.Meta(ge=0)] = 0
    memory_mb: Annotated[int, msgspec.Meta(ge=0)] = 0
    disk_mb: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def capacity(self) -> Capacity:
        return Capacity(self.cores, self.memory_mb, self.disk_mb, 0)


class Waits(_Strict, frozen=True, kw_only=True):
    """Seconds after which something is no longer waited for. `order_s`: until the agent of a server acts; later than
    that it does not. `answer_s`: of a server, which then counts as not reachable. `batch_s`: until the batch system
    has opened or closed a machine. `start_s`, `clone_s`: until a machine is up. `stop_s`, `delete_s`: until it is
    off or gone."""

    order_s: _Wait = 20
    answer_s: _Wait = 45
    batch_s: _Wait = 60
    start_s: _Wait = 300
    clone_s: _Wait = 1800
    stop_s: _Wait = 180
    delete_s: _Wait = 300


class Plan(_Strict, frozen=True, kw_only=True):
    """`manager`: the position of the node that has the queue; 0: no machine is started or stopped. `store_mb`: what
    images of our machines may take. `moves`: a machine that is off is moved to the fastest server before it starts.
    `always_on`: names of machines and computers that are never closed or stopped. `is_trial`: it is decided and told
    what would be done, and nothing is done."""

    manager: Annotated[int, msgspec.Meta(ge=0)]
    types: Annotated[tuple[Type, ...], msgspec.Meta(max_length=TYPES_MAX)] = ()
    headroom: Headroom = Headroom()
    period_s: Annotated[int, msgspec.Meta(ge=PERIOD_S_MIN, le=PERIOD_S_MAX)] = 30
    waits: Waits = Waits()
    store_mb: _Mib = 0
    moves: bool = True
    always_on: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=NAMES_MAX)] = ()
    is_trial: bool = False

    @property
    def is_off(self) -> bool:
        return self.manager == 0 or not self.types

    def by_name(self) -> dict[str, Type]:
        return {each.name: each for each in self.types}

    def by_queue(self) -> dict[str, Type]:
        return {queue: each for each in self.types for queue in each.queues}


_decoder = msgspec.json.Decoder(Plan)


def read(body: bytes) -> Plan:
    """Raises PlanError."""
    if len(body) > BODY_MAX:
        raise PlanError(f"the plan has {len(body)} bytes, and {BODY_MAX} are the most; nothing has changed")
    try:
        plan = _decoder.decode(body)
    except UNREADABLE as error:
        raise PlanError(f"the plan cannot be read: {error}; nothing has changed") from error
    found = list(faults(plan))
    if found:
        raise PlanError(f"{'; '.join(found)}; nothing has changed")
    return plan


def encode(plan: Plan) -> bytes:
    return msgspec.json.encode(plan)


def faults(plan: Plan) -> Iterator[str]:
    """What makes no sense, each as a sentence without a full stop."""
    names, queues = set[str](), dict[str, str]()
    for each in plan.types:
        if each.name in names:
            yield f"there are two types {each.name}: a name stands for one type"
        names.add(each.name)
        for queue in each.queues:
            if queues.setdefault(queue, each.name) != each.name:
                yield f"the queue {queue} has two types, {queues[queue]} and {each.name}: leave it to one of them"
        if len(set(each.queues)) != len(each.queues):
            yield f"the type {each.name} names a queue twice"
        if each.image_mb > plan.store_mb:
            yield (
                f"an image of the type {each.name} has {each.image_mb} MiB, and the store of images {plan.store_mb}: "
                "no machine of it could be cloned"
            )
    waits, period_s = plan.waits, plan.period_s
    if waits.answer_s <= period_s:
        yield f"answer_s ({waits.answer_s}) is not above period_s ({period_s}): no server would ever be reachable"
    if waits.batch_s <= waits.order_s:
        yield f"batch_s ({waits.batch_s}) is not above order_s ({waits.order_s}): a machine could be opened too late"
    if waits.clone_s < waits.start_s:
        yield f"clone_s ({waits.clone_s}) is below start_s ({waits.start_s}): a clone is copied, and then starts"


def typeless(job: Job) -> str:
    """Why a job of a queue that the plan does not name gets nothing."""
    return f"the queue {job.queue} has no type of machines in the plan"


def wants_of(jobs: Iterator[Job] | tuple[Job, ...], types: Mapping[str, Type]) -> tuple[list[Want], dict[str, str]]:
    """What jobs want in their order, by the types of their queues, and why others want nothing. A job with more
    slots than a machine of its type wants several machines."""
    wants, whys = list[Want](), dict[str, str]()
    for job in jobs:
        found = types.get(job.queue)
        if found is None:
            whys[job.id] = typeless(job)
            continue
        for _ in range(min(job.tasks, WANTS_MAX - len(wants))):
            left = max(1, job.slots)
            while left > 0 and len(wants) < WANTS_MAX:
                wants.append(Want(job.id, found.name, min(left, found.slots)))
                left -= found.slots
        if len(wants) >= WANTS_MAX:
            whys.setdefault(job.id, f"one iteration looks at {WANTS_MAX} parts of jobs, and others come first")
    return wants, whys
