"""The key rings of all nodes: which node has which ring, and changes of the ring.

Each node answers an order with the names of its ring, and equal answers travel as one, however many nodes there are.
A change is a ring that follows from this node's, as an order to be signed (handlers/orders.py); the next question
shows how far it came. Of two changes at once, by two nodes, all nodes come to hold the same one, and show the
conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec
import trio
from msgspec.structs import asdict, replace

from subord.api.http.server import Query
from subord.api.models import nodes
from subord.api.models.fields import AllKeysDocument, CountedRing, KeysDocument, RotatedDocument, SealDocument
from subord.api.node_api import NodeApi
from subord.api.query.older_nodes import OlderQuestion
from subord.api.query.orders import Answered, asked, branch
from subord.core.carriage.engine.causes import LEFT, UNKNOWN
from subord.core.carriage.orders import Order
from subord.core.decoding import UNREADABLE
from subord.core.members.listing import has_ended
from subord.core.members.register import State
from subord.core.view import Position
from subord.sealing import rotation
from subord.sealing.keys import Keyring, KeyringError, new_key

SERVICE: Final = "keys"
OLDER_QUESTION: Final = OlderQuestion("keys", KeysDocument)
NAMED_MAX = 32  # addresses in one report, of each kind
CHECK_S = 3.0  # to ask all nodes for their rings before a key is removed
NO_KEYS = "nothing is sealed here: there is no cluster.key_file"
OLDER = "the daemon is newer than this command: operators sign changes of keys now; use `subord key` of its release"


def refusal(node: NodeApi) -> str:
    """Why no node is asked for its ring; "": it is."""
    return NO_KEYS if node.key_ring is None else ""


async def answer(node: NodeApi, _: bytes) -> bytes:
    """The ring of this node, by names; empty: it has none."""
    await trio.lowlevel.checkpoint()
    own = nodes.seal(node)
    return b"" if own is None else msgspec.msgpack.encode((own.revision, own.keys, own.saved))


async def find(node: NodeApi, budget_s: float) -> AllKeysDocument:
    """The rings of the whole cluster, or of the part that answers within `budget_s`."""
    return document(await asked(node, SERVICE, budget_s, older=OLDER_QUESTION))


def document(answered: Answered) -> AllKeysDocument:
    """What the issuer makes of all answers."""
    note, report, coverage = answered.note, answered.report, None
    if not isinstance(report, KeysDocument):
        report, coverage = fold(_told(answered)), answered.coverage
    fields = {**asdict(report), "asked": answered.asked, "coverage": coverage}
    return AllKeysDocument(complete=note is None, note=note, **fields)


async def of_branch(node: NodeApi, budget_s: float, *, is_whole: bool) -> KeysDocument:
    """The rings of this node's branch, or as a root those of the whole tree, for a node of release 0.2."""
    targets = None if is_whole else branch(node)
    return fold(_told(await asked(node, SERVICE, budget_s, targets=targets, older=OLDER_QUESTION)))


def _told(answered: Answered) -> Iterator[KeysDocument]:
    """The rings of the nodes that told theirs; the others are silent, unless they are known to be away."""
    node, silent = answered.node, list[Position](answered.answer.others)
    address_of = node.settings.network.address_text_of
    for result, positions in answered.answer.groups:
        own = _decoded(result)
        if own is None:
            silent += positions
        else:
            yield _of(own, len(positions), nodes.addresses(node.settings, islice(positions, NAMED_MAX)))
    for cause, positions in answered.answer.missing:
        for position in () if cause in (LEFT, UNKNOWN) else positions:
            older = answered.older.get(position)
            if older is not None and older.seal is not None:
                yield _of(older.seal, 1, (address_of(position),))
            elif not _is_away(node, position):
                silent.append(position)
    addresses = nodes.addresses(node.settings, islice(sorted(silent), NAMED_MAX))
    yield KeysDocument(rings=(), silent=addresses, silent_nodes=len(silent))


def _decoded(result: bytes) -> SealDocument | None:
    """None: the node has no ring, or says something else."""
    try:
        revision, keys, saved = msgspec.msgpack.decode(result, type=tuple[int, tuple[str, ...], bool])
        return msgspec.convert({"revision": revision, "keys": keys, "saved": saved}, SealDocument)
    except UNREADABLE:
        return None


def _of(own: SealDocument, count: int, addresses: tuple[str, ...]) -> KeysDocument:
    unsaved = 0 if own.saved else count
    ring = CountedRing(revision=own.revision, keys=own.keys, nodes=count, addresses=addresses, unsaved=unsaved)
    return KeysDocument(rings=(ring,), silent=(), silent_nodes=0)


def _is_away(node: NodeApi, position: Position) -> bool:
    """Whether a node is not expected to answer: it left, or is down, and not only for a moment."""
    record = node.tracker.membership.register.at(position)
    if record is None or record.state is not State.DOWN:
        return has_ended(record)
    return node.tracker.wall_ms - record.since_ms >= node.settings.timing.missing_keep_s * 1000


def fold(reports: Iterable[KeysDocument]) -> KeysDocument:
    """One report made of many, the newest ring first."""
    rings: dict[tuple[int, tuple[str, ...]], CountedRing] = {}
    silent: list[str] = []
    silent_nodes = 0
    for report in reports:
        silent += report.silent
        silent_nodes += report.silent_nodes
        for ring in report.rings:
            name = ring.revision, ring.keys
            rings[name] = _sum(rings[name], ring) if name in rings else ring
    ranked = sorted(rings.values(), key=lambda ring: (-ring.revision, -ring.nodes, ring.keys))
    silent_nodes += sum(ring.nodes for ring in ranked[NAMED_MAX:])  # their rings are not in the report
    return KeysDocument(rings=tuple(ranked[:NAMED_MAX]), silent=tuple(silent[:NAMED_MAX]), silent_nodes=silent_nodes)


def _sum(one: CountedRing, other: CountedRing) -> CountedRing:
    addresses = (one.addresses + other.addresses)[:NAMED_MAX]
    return replace(one, nodes=one.nodes + other.nodes, addresses=addresses, unsaved=one.unsaved + other.unsaved)


def refused() -> RotatedDocument:
    """The answer to a change of keys by a node or a command of an older release, which no operator has signed."""
    return RotatedDocument(error=f"{OLDER}; nothing was changed")


async def ring_order(node: NodeApi, action: str, query: Query) -> tuple[Order, str]:
    """The next ring, by `install`, `use` or `remove` with `?key=K`, and the key that it is about.

    A key is removed only if all nodes have the newest ring, or with `&force=1`. Raises KeyringError.
    """
    assert node.key_ring is not None, "the caller has checked it"
    before = node.key_ring.ring
    if action == "remove" and query.get("force") != "1":
        await _check_all_have(node, before)
        if node.key_ring.ring is not before:
            raise KeyringError("the key ring was changed meanwhile: try again")
    ring, name = _changed(before, action, query.get("key", "")[:32])
    return rotation.ring_order(ring, node.tracker.wall_ms), name


def _changed(ring: Keyring, action: str, name: str) -> tuple[Keyring, str]:
    if action == "install":
        key = new_key()
        return rotation.install(ring, key), key.name
    return (rotation.use if action == "use" else rotation.remove)(ring, name), name


async def _check_all_have(node: NodeApi, ring: Keyring) -> None:
    """Raises KeyringError with the nodes that may still depend on the old ring."""
    found = await find(node, CHECK_S)
    if not found.complete:
        raise KeyringError(f"not all nodes could be asked which ring they have: {found.note}")
    if any(each.revision > ring.revision for each in found.rings):
        raise KeyringError(f"{node.address} does not have the newest key ring yet: try again")
    behind = [each for each in found.rings if each.revision != ring.revision or each is not found.rings[0]]
    names = [address for each in behind for address in each.addresses] + list(found.silent)
    count = sum(each.nodes for each in behind) + found.silent_nodes
    if count:
        some = ", ".join(names[:8]) + (", ..." if count > len(names[:8]) else "")
        raise KeyringError(f"{count} of the nodes have not answered that they have the newest ring: {some}")
