"""What the document of transfer queues says: which node has the queue, who the other cluster is, and the limits.

An operator signs it; the body is JSON. Each cluster has its own: it binds what its jobs may do elsewhere, and what
jobs of the other cluster may do here. Input is the body; output is the plan, or PlanError with a sentence that says
what is wrong. Invariant: a plan that can be read can be followed: no table has two answers, and no wait is without an
end.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.services.transfer.jobs import LOGIN, ClusterName
from subord.services.transfer.places import place_of

BODY_MAX: Final = 8 * 1024
"""As of every document (core/carriage/documents.py)."""
ADDRESSES_MAX, CERTIFICATES_MAX, QUEUES_MAX, TABLE_MAX, VALUES_MAX = 16, 8, 32, 256, 64
CERTIFICATE_MAX: Final = 2048
POLL_S_MIN: Final = 5
"""Otherwise the other cell is overloaded by requests for its state, as the text says."""
POLL_S_MAX, LEASE_S_MAX, PERMIT_S_MAX, SLOTS_MAX = 300, 3600, 86_400, 100_000
REMOTE: Final = "remote"
SENSED: Final = "otherjobs"
UID_MIN, UID_MAX = 1000, 2**32 - 2
"""Below the first there are root and accounts of the system."""
FILES_BYTES_MAX: Final = 1 << 30
"""A blob has at most twice as many, so an archive with the names of all files has room."""
FILES_MAX, FILES_DEFAULT = 100_000, 10_000
_Directory = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_.@+-]{1,64}){0,16}\Z")]
_Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.@*][A-Za-z0-9_.@*-]{0,127}\Z")]
_NoWord = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9_.@*][A-Za-z0-9_.@*-]{0,127})?\Z")]
_Request = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.:/-]{0,63}\Z")]
_NoRequest = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z][A-Za-z0-9_.:/-]{0,63})?\Z")]
_Value = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x20,=]{0,255}\Z")]
_Login = Annotated[str, msgspec.Meta(pattern=rf"^{LOGIN}\Z")]
_Address = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9.:\[\]-]{3,255}\Z")]
_Certificate = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9+/]+={0,2}\Z", max_length=CERTIFICATE_MAX)]


class PlanError(ValueError):
    """The document cannot be followed. The text says what is wrong, and that nothing has changed."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A plan without what is new can be read by nodes of an earlier release."""


class Peer(_Strict, frozen=True, kw_only=True):
    """The other cluster. `name`: how it calls itself. `addresses`: of its nodes with a port, tried in this order.
    `certificates`: those that its transfer host may show, one line each, as `subord transfer key` prints it there."""

    name: ClusterName
    addresses: Annotated[tuple[_Address, ...], msgspec.Meta(min_length=1, max_length=ADDRESSES_MAX)]
    certificates: Annotated[tuple[_Certificate, ...], msgspec.Meta(min_length=1, max_length=CERTIFICATES_MAX)]


class User(_Strict, frozen=True, kw_only=True):
    """A user of the other cluster, and as which user of this one jobs of that user run here."""

    theirs: _Login
    ours: _Login


class Request(_Strict, frozen=True, kw_only=True):
    """What a request of this cluster is called in the other one. `to`: "": it is left out there. `values`: pairs of
    one here and one there; others are passed as they are, unless `is_closed`: then jobs with others stay here."""

    name: _Request
    to: _NoRequest = ""
    values: Annotated[tuple[tuple[_Value, _Value], ...], msgspec.Meta(max_length=VALUES_MAX)] = ()
    is_closed: bool = False


class Parallel(_Strict, frozen=True, kw_only=True):
    """What a parallel environment of this cluster is called in the other one."""

    name: _Word
    to: _Word


class TransferQueue(_Strict, frozen=True, kw_only=True):
    """A queue of this cluster whose jobs run in the other one. `queue`: there, "": any. `requests`: which its jobs
    get in addition, in words of the other cluster, such as the kind of machine that this queue stands for.
    `brings_files`: its jobs take their working directory along, and their results come back into it."""

    name: _Word
    queue: _NoWord = ""
    requests: Annotated[tuple[tuple[_Request, _Value], ...], msgspec.Meta(max_length=VALUES_MAX)] = ()
    brings_files: bool = False


class Plan(_Strict, frozen=True, kw_only=True):
    """`host`: the position of the node that has the transfer queues; 0: no job crosses. `cluster`: how this cluster
    calls itself. `queues`: (): no job leaves.

    Of jobs that come here: `slots_max`: how many there may be, whatever they do, each with at most so many slots;
    0: none comes. `idle_pending_max`: this cluster is idle, and jobs come, while so many or fewer wait. `users`: who
    runs as whom; `same_users`: others as the user of the same name; `uid_min`: none as a user whose number here is
    less. `project`: which they get.
    Of jobs that leave: `requests`, `parallels`: what they become; `passes_others`: what has no line there is passed
    as it is, otherwise such a job stays here. `opt_out`: the request that keeps a job here. `permit_s`: a job that is
    in a transfer queue for so long without a permit goes back, and may be sent again.
    To stop one direction, `slots_max` is 0 there, or `queues` is () here: what is under way goes on.
    `files_directory`: here, below which jobs that come with files have their working directories; "": none comes.
    `files_bytes_max`, `files_max`: what a job may bring along, and take back, in each direction.
    `lease_s`: how long a permit of ours holds. `poll_s`: how often this cell is asked. `sensor`: the name of what the
    load sensor tells. `is_high_throughput`: for many short jobs: there is no test whether a cluster is idle, only
    `slots_max`."""

    host: Annotated[int, msgspec.Meta(ge=0)]
    cluster: ClusterName = "here"
    peer: Peer | None = None
    queues: Annotated[tuple[TransferQueue, ...], msgspec.Meta(max_length=QUEUES_MAX)] = ()
    slots_max: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0
    idle_pending_max: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 4
    lease_s: Annotated[int, msgspec.Meta(ge=5, le=LEASE_S_MAX)] = 30
    poll_s: Annotated[int, msgspec.Meta(ge=POLL_S_MIN, le=POLL_S_MAX)] = POLL_S_MIN
    permit_s: Annotated[int, msgspec.Meta(ge=10, le=PERMIT_S_MAX)] = 60
    users: Annotated[tuple[User, ...], msgspec.Meta(max_length=TABLE_MAX)] = ()
    same_users: bool = True
    uid_min: Annotated[int, msgspec.Meta(ge=1, le=UID_MAX)] = UID_MIN
    requests: Annotated[tuple[Request, ...], msgspec.Meta(max_length=TABLE_MAX)] = ()
    parallels: Annotated[tuple[Parallel, ...], msgspec.Meta(max_length=TABLE_MAX)] = ()
    passes_others: bool = True
    project: _NoWord = ""
    opt_out: _Request = REMOTE
    sensor: _Request = SENSED
    is_high_throughput: bool = False
    files_directory: _Directory = ""
    files_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=FILES_BYTES_MAX)] = FILES_BYTES_MAX
    files_max: Annotated[int, msgspec.Meta(ge=1, le=FILES_MAX)] = FILES_DEFAULT

    @property
    def is_off(self) -> bool:
        return self.host == 0 or self.peer is None

    @property
    def peer_name(self) -> str:
        return "" if self.is_off or self.peer is None else self.peer.name

    @property
    def takes_bytes_max(self) -> int:
        """What a job that comes may bring along; 0: nothing."""
        return self.files_bytes_max if self.files_directory else 0

    @property
    def idle(self) -> int | None:
        """None: it is not tested."""
        return None if self.is_high_throughput else self.idle_pending_max

    def queue(self, name: str) -> TransferQueue | None:
        """Of a queue instance `name@host` as well."""
        return next((each for each in self.queues if each.name == name.partition("@")[0]), None)


_decoder = msgspec.json.Decoder(Plan)


def encode_plan(plan: Plan) -> bytes:
    """The body of the document."""
    return msgspec.json.encode(plan)


def decode_plan(body: bytes) -> Plan:
    """Raises PlanError."""
    if len(body) > BODY_MAX:
        raise PlanError(f"the plan has {len(body)} of at most {BODY_MAX} bytes; nothing was changed: shorten it")
    try:
        plan = _decoder.decode(body)
    except UNREADABLE as error:
        raise PlanError(f"the plan cannot be read: {error}; nothing was changed: correct it") from None
    wrong = next(faults(plan), "")
    if wrong:
        raise PlanError(f"{wrong}; nothing was changed: correct the plan")
    return plan


def faults(plan: Plan) -> Iterator[str]:
    """What keeps it from being followed."""
    if plan.host and plan.peer is None:
        yield "the plan names a transfer host, but no peer"
    if plan.peer is not None and plan.peer.name == plan.cluster:
        yield f"this cluster and its peer are both called {plan.cluster}"
    if plan.peer is not None:
        yield from (f"the address {each} is not HOST:PORT" for each in plan.peer.addresses if place_of(each) is None)
        yield from (f"{each[:24]}... is no certificate" for each in plan.peer.certificates if not _is_der(each))
    if plan.lease_s < 2 * plan.poll_s:
        yield f"a lease of {plan.lease_s} s is over before a permit is used: it has to be at least 2 polls"
    for what, names in (
        ("queue", [each.name for each in plan.queues]),
        ("user", [each.theirs for each in plan.users]),
        ("request", [each.name for each in plan.requests]),
        ("parallel environment", [each.name for each in plan.parallels]),
        *((f"value of {each.name}", [value for value, _ in each.values]) for each in plan.requests),
    ):
        yield from (f"the {what} {each} stands there twice" for each in _twice(names))
    if any(each.ours == "root" for each in plan.users):
        yield "a job of the other cluster would run as root"
    if any(each.name == plan.opt_out for each in plan.requests):
        yield f"{plan.opt_out} is the request that keeps a job here, and cannot be mapped"


def _is_der(text: str) -> bool:
    """Whether it may be a certificate: base64 of one sequence whose length has two bytes."""
    try:
        der = base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return der[:2] == b"\x30\x82" and int.from_bytes(der[2:4], "big") + 4 == len(der)


def _twice(names: Iterable[str]) -> Iterator[str]:
    before = set[str]()
    for each in names:
        if each in before:
            yield each
        before.add(each)
