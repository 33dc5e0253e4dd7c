"""What the document `elastic/plan` says: which node has the queue, and how the cluster grows and shrinks with it.

An operator signs it; the body is JSON. Input is the body; output is the plan. Invariant: a plan that can be read can
be followed: its options make sense, and no name in it is a word of a command that means something else.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

import msgspec

from subord.core.decoding import UNREADABLE
from subord.services.elastic.options import Options, faults

USERS_MAX, MOUNTS_MAX, KINDS_MAX, FORMER_MAX = 64, 32, 16, 8
_Path = Annotated[str, msgspec.Meta(pattern=r"^/[A-Za-z0-9._/-]*\Z", max_length=200)]
_Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z_][a-z0-9_-]*\Z", max_length=32)]
_Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,39}[a-z-])?\Z")]
"""Without a digit at its end: `node1` and 001 would be the 1001st of `node`."""
_Id = Annotated[int, msgspec.Meta(ge=1, le=65533)]


class User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user of the cluster with its group, which each added node gets (step 4 of the text)."""

    name: _Word
    uid: _Id
    group: _Word
    gid: _Id
    home: _Path
    shell: _Path = "/bin/sh"


class Mount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory of the queue's node, which it exports to each added node, and which that mounts (steps 5, 6)."""

    source: _Path
    target: _Path
    read_only: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`manager`: the position of the node that sees the queue; 0: elastic growth is off. `prefix`: of the names of
    nodes, before their number of at least three digits. `former`: prefixes of plans before, whose nodes may still
    serve. `kinds`: those of the manager's configuration that are added,
    the cheapest first; (): all, as they stand there. `has_hosts`: names are spread in hosts tables; else DNS has
    them. `is_trial`: it is decided and told what would be done, and nothing is done."""

    manager: Annotated[int, msgspec.Meta(ge=0)]
    options: Options | None = None
    prefix: _Prefix = "node"
    former: Annotated[tuple[_Prefix, ...], msgspec.Meta(max_length=FORMER_MAX)] = ()
    kinds: Annotated[tuple[_Word, ...], msgspec.Meta(max_length=KINDS_MAX)] = ()
    users: Annotated[tuple[User, ...], msgspec.Meta(max_length=USERS_MAX)] = ()
    mounts: Annotated[tuple[Mount, ...], msgspec.Meta(max_length=MOUNTS_MAX)] = ()
    has_hosts: bool = True
    is_trial: bool = False

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Of all nodes of this cluster."""
        return (self.prefix, *self.former)

    @property
    def mark(self) -> str:
        """Tells plans apart whose users or mounts differ."""
        return blake2b(msgspec.json.encode((self.users, self.mounts)), digest_size=8).hexdigest()

    @property
    def is_off(self) -> bool:
        return self.manager == 0 or self.options is None


_plan = msgspec.json.Decoder(Plan)


def encode_plan(plan: Plan) -> bytes:
    """The body of the document."""
    return msgspec.json.encode(plan)


def decode_plan(body: bytes) -> Plan | None:
    """None: it is of a later release, or its options make no sense."""
    try:
        found = _plan.decode(body)
    except UNREADABLE:
        return None
    return None if found.options is not None and any(faults(found.options)) else found
