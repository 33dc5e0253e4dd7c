"""The key rings of all nodes: which node has which ring, and changes of the ring.

Every leader asks its subordinates, adds its own ring and reports the sums; the root needs one report for each
subordinate, however many nodes there are. A change is a ring that follows from this node's, as an order to be signed
(handlers/orders.py); the next question shows how far it came. Of two changes at once, by two nodes, all nodes come to
hold the same one, and show the conflict.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict, replace

from subord.api.http.server import Query
from subord.api.models import nodes
from subord.api.models.fields import AllKeysDocument, CountedRing, KeysDocument, RotatedDocument, SealDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query import aggregate
from subord.core.carriage.orders import Order
from subord.core.view import Liveness
from subord.sealing import rotation
from subord.sealing.keys import Keyring, KeyringError, new_key

NAMED_MAX = 32  # addresses in one report, of each kind
CHECK_S = 3.0  # to ask all nodes for their rings before a key is removed
NO_KEYS = "nothing is sealed here: there is no cluster.key_file"
OLDER = "the daemon is newer than this command: operators sign changes of keys now; use `subord key` of its release"


async def find(node: NodeApi, budget_s: float) -> AllKeysDocument:
    """The rings of the whole cluster, or of the largest part that answers within `budget_s`."""

    async def own(left_s: float) -> KeysDocument:
        return await (coverage if nodes.path(node) else all_keys)(node, left_s)

    found = await aggregate.of_tree(node, "keys", KeysDocument, budget_s, own)
    return AllKeysDocument(asked=found.asked, complete=found.complete, note=found.note, **asdict(found.report))


async def coverage(node: NodeApi, budget_s: float) -> KeysDocument:
    """The rings of this node's subtree, within `budget_s`."""
    found = [_of_one(node.address, nodes.seal(node))]
    for each in await aggregate.below(node, "keys", KeysDocument, budget_s):
        silent = KeysDocument(rings=(), silent=(each.address,), silent_nodes=each.nodes)
        found.append(silent if isinstance(each.report, AskFailure) else each.report)
    return fold(found)


async def all_keys(node: NodeApi, budget_s: float) -> KeysDocument:
    """The rings of the whole tree, at its root: missing nodes count as silent, because they may return."""
    missing = (row.position for row in node.roster().rows if row.liveness is Liveness.MISSING)
    away = nodes.addresses(node.settings, missing)
    return fold([await coverage(node, budget_s), KeysDocument(rings=(), silent=away, silent_nodes=len(away))])


def _of_one(address: str, own: SealDocument | None) -> KeysDocument:
    if own is None:
        return KeysDocument(rings=(), silent=(address,), silent_nodes=1)
    unsaved = 0 if own.saved else 1
    ring = CountedRing(revision=own.revision, keys=own.keys, nodes=1, addresses=(address,), unsaved=unsaved)
    return KeysDocument(rings=(ring,), silent=(), silent_nodes=0)


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
