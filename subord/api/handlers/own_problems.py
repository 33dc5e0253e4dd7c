"""The problems that a node knows by itself, as its answer to an order.

Input is the state of one node; output is at most RESULT_BYTES_MAX bytes. Many nodes have the same to say, and equal
answers travel as one: so a node does not name itself, the issuer knows which nodes gave the answer, and ages are told
in steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec

from subord import __version__
from subord.api.models import nodes
from subord.api.models.document import Address, Count
from subord.api.node_api import NodeApi
from subord.api.query.hidden_branches import hidden_branches
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.decoding import UNREADABLE
from subord.core.identity.identity import WORDS
from subord.core.view import Snapshot
from subord.runtime.problems import LATELY_S
from subord.runtime.security.peer_identity import CERTIFICATE_REASON, FOREIGN_KEY, NO_IDENTITY

PROBLEMS_MAX: Final = 64
OF_A_KIND_MIN: Final = 4  # of each known kind: one kind leaves room for the others
NAMED_MAX: Final = 512
NAMED_OF_ONE_MAX: Final = 64
"""Addresses of one problem in the answer of one node; the others are counted."""
HEAD_BYTES: Final = 64
"""Of an answer, besides its problems."""
STREAMS_BROKEN_MIN: Final = 3  # of one address: some break whenever a node dies or starts
TEXT_MAX: Final = 200
DIFFERENT_MAX: Final = 8
AGE_S_STEPS: Final = ((10.0, 1.0), (60.0, 10.0))
"""Ages below the first number are told in steps of the second."""
AGE_S_STEP_MAX: Final = 60.0
MEANINGS: Final = {
    "no_key": " (it uses another key)",
    "unsealed": " (it has no key)",
    "row_not_below": " (it reports nodes that cannot stand below it)",
    "row_bad_proof": " (it reports what these nodes have not signed)",
    "rows_of_one": " (it reports too many nodes)",
    "rows_absent": " (it reports nodes of which hardly any answers)",
    "boot_leap": " (it tells this node of an earlier life years ahead of the clock)",
    "stale_boot": " (they are of a former life)",
    "tls_foreign_key": " (its key is not that of this address: another machine, or the node lost its key)",
    "tls_no_identity": " (it shows no identity: an older release, or it cannot save its key)",
    "tls_certificate_altered": " (the certificate of its identity is forged)",
    "tls_certificate_malformed": " (the certificate of its identity cannot be read)",
    "tls_certificate_of_a_user": " (the certificate of its identity is not for hosts: `ssh-keygen -h`)",
    "tls_certificate_other_key": " (it shows the certificate of another key)",
    "tls_certificate_restricted": " (the certificate of its identity has critical options)",
    "tls_certificate_revoked": " (its key or its authority is revoked)",
    "tls_certificate_weak": " (the certificate of its identity is signed with SHA-1)",
    "tls_certificate_missing": " (its identity has no certificate of the site's authority)",
    "tls_certificate_not_valid_now": " (the certificate of its identity has expired, or a clock is wrong)",
    "tls_certificate_other_address": " (the certificate of its identity does not name its address)",
    "tls_certificate_unknown_authority": " (another authority has certified its identity)",
    "bad_tag": " (its address is translated on the way, or forged)",
}
IDENTITY_REASONS: Final = (FOREIGN_KEY, NO_IDENTITY, CERTIFICATE_REASON)  # shown at once
IDENTITY_WORDS: Final = frozenset(WORDS.values())
RUNS: Final = "runs version "
SAME_EVERYWHERE: Final = ("version", "ring")
KINDS: Final = (
    "duplicate",
    "refused",
    "order",
    "conflict",
    "silent",
    "missing",
    "gone",
    "unlisted",
    "disputed",
    "rekeyed",
    "count",
    "seeking",
    "dropped",
    "stream",
    "unsaved",
    "performance",
    "lost",
)
"""Worst first; others come last."""


class Said(msgspec.Struct, frozen=True, array_like=True):
    """A problem as one node tells it. `nodes` 0: it is about the node itself; else about so many others, some of them
    by address. `age_s` -1: it lasts."""

    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z_]+\Z")]
    text: Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
    age_s: Annotated[int, msgspec.Meta(ge=-1)] = -1
    nodes: Count = 0
    addresses: Annotated[tuple[Address, ...], msgspec.Meta(max_length=NAMED_OF_ONE_MAX)] = ()


class SaidOfOne(msgspec.Struct, frozen=True, array_like=True):
    """All that one node says. `more`: problems for which there was no room."""

    problems: tuple[Said, ...]
    more: Count = 0


_decoder = msgspec.msgpack.Decoder(SaidOfOne)


async def answer(node: NodeApi, _: bytes) -> bytes:
    """The result of this node."""
    hidden = await hidden_branches(node)
    view = node.snapshot()
    found = [*_about_others(node, view), *_about_us(node, view)]
    for address, count in hidden.items():
        found.append(_about(node, "count", f"{count} more nodes answer for its branch than it reports", address))
    return encoded(found)


def encoded(found: Iterable[Line]) -> bytes:
    """The problems with their addresses; those for which there is no room are counted."""
    chosen: list[Said] = []
    size, more = HEAD_BYTES, 0
    for each in in_order(_joined(found)):
        size += len(msgspec.msgpack.encode(each))
        if len(chosen) < PROBLEMS_MAX and size <= RESULT_BYTES_MAX:
            chosen.append(each)
        else:
            more += 1
    return msgspec.msgpack.encode(SaidOfOne(tuple(chosen), more))


def decoded(result: bytes) -> SaidOfOne | None:
    """None: no such answer."""
    try:
        return _decoder.decode(result)
    except UNREADABLE:
        return None


Line = tuple[Said, tuple[str, ...]]
"""A problem and the nodes that it is about; none: this node."""


def _joined(found: Iterable[Line]) -> list[Said]:
    """Each problem once, with the nodes that it is about, the latest of several ages."""
    joined: dict[tuple[str, str, bool], tuple[int, dict[str, None]]] = {}
    for said, addresses in found:
        name = said.kind, said.text, bool(addresses)
        age_s, named = joined.get(name, (said.age_s, {}))
        joined[name] = min(age_s, said.age_s), named | dict.fromkeys(addresses)
    return [
        Said(kind, text, age_s, len(named), tuple(named)[:NAMED_OF_ONE_MAX])
        for (kind, text, _), (age_s, named) in joined.items()
    ]


def in_order(found: list[Said]) -> list[Said]:
    """The worst first; but no kind is before all problems of another kind."""
    ranked = sorted(found, key=lambda each: (rank(each.kind), -each.nodes, each.text))
    of_kind: Counter[str] = Counter()
    first, others = list[Said](), list[Said]()
    for each in ranked:
        of_kind[each.kind] += 1
        (first if has_room(each.kind, of_kind[each.kind]) else others).append(each)
    return first + others


def has_room(kind: str, number: int) -> bool:
    """Whether the problem of that number of its kind comes before all others."""
    return kind in SAME_EVERYWHERE or (kind in KINDS and number <= OF_A_KIND_MIN)


def rank(kind: str) -> int:
    if kind in SAME_EVERYWHERE:
        return -1  # never cut off
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def age_step(ago_s: float) -> int:
    """An age, rounded down to its step."""
    step = next((step for below, step in AGE_S_STEPS if ago_s < below), AGE_S_STEP_MAX)
    return int(ago_s // step * step)


def _about(node: NodeApi, kind: str, text: str, address: str, *, ago_s: float | None = None) -> Line:
    """A problem of `address`."""
    said = Said(kind, text[:TEXT_MAX], -1 if ago_s is None else age_step(ago_s))
    return said, (() if address == node.address else (address,))


def _about_others(node: NodeApi, view: Snapshot) -> Iterator[Line]:
    for each in view.refusals:
        if each.ago_s <= LATELY_S:
            # The reason names the other node's setting first, whichever side refuses: it is about the other node. One
            # that the other node gives for an identity is about this node.
            is_about_us = each.by == "them" and each.reason in IDENTITY_WORDS
            address = node.address if is_about_us else each.address
            yield _about(node, "refused", f"refused: {each.reason}", address, ago_s=each.ago_s)
    silent = [edge.position for edge in view.subordinates if edge.silent]
    for address in nodes.addresses(node.settings, silent):
        yield _about(node, "silent", "silent: overdue, and not yet given up", address)


def _about_us(node: NodeApi, view: Snapshot) -> Iterator[Line]:
    for address in nodes.addresses(node.settings, view.disputed):
        yield _about(node, "disputed", f"two subordinates of {node.address} report it in their branches", address)
    for address in nodes.addresses(node.settings, view.rekeyed):
        text = f"other nodes remember another key for it than {node.address} does: forget it if its host was replaced"
        yield _about(node, "rekeyed", text, address)
    for address in nodes.addresses(node.settings, view.unlisted):
        root = nodes.address(node.settings, view.root or view.position)
        yield _about(
            node, "unlisted", f"not listed by the root {root}: a leader above it does not report it", address
        )
    for name in sorted(node.tracker.membership.documents.conflicts)[:DIFFERENT_MAX]:
        text = f"two different orders {name} of one version were given; one of them counts on all nodes"
        yield _about(node, "conflict", text, node.address)
    if view.place is None:
        yield _about(node, "seeking", f"has no place ({view.phase})", node.address)
    for each in node.counters.problems.shown():
        if each.kind == "stream" and each.times < STREAMS_BROKEN_MIN and not each.text.startswith(IDENTITY_REASONS):
            continue
        yield _about(node, each.kind, _in_words(each.kind, each.text), each.address or node.address, ago_s=each.ago_s)
    seal = nodes.seal(node)
    if seal is not None:
        yield _about(node, "ring", f"has key {seal.keys[0]} of revision {seal.revision}", node.address)
        if not seal.saved and seal.revision:
            yield _about(node, "unsaved", "would lose its keys at a restart", node.address)
    yield _about(node, "version", f"{RUNS}{__version__}", node.address)


def _in_words(kind: str, text: str) -> str:
    match kind:
        case "dropped":
            return f"its datagrams are dropped: {text}{MEANINGS.get(text, '')}"
        case "stream":
            return f"no TLS with it: {text}{MEANINGS.get(text, '')}"
        case _:
            return text
