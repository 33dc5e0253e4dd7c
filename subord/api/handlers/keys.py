"""The key rings of all nodes: which node has which ring, and changes of the ring.

Every leader asks its subordinates, adds its own ring and reports the sums; the root needs one report for each
subordinate, however many nodes there are. Only the root changes the ring, so two changes never happen at once. The
new ring travels down the edges (runtime/net/streams.py); the next question shows how far it came. A key is removed
only when all nodes have the newest ring, unless forced.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict, replace

from subord.api.models import nodes
from subord.api.models.fields import AllKeysDocument, CountedRing, KeysDocument, RotatedDocument, SealDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query import aggregate
from subord.core.view import Liveness, Place
from subord.sealing import rotation
from subord.sealing.keys import Keyring, KeyringError, new_key

NAMED_MAX = 32  # addresses in one report, of each kind
BUDGET_S_MAX = 30.0
NO_KEYS = "nothing is sealed here: there is no cluster.key_file"


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


async def rotate(node: NodeApi, words: tuple[str, ...], budget_s: float) -> RotatedDocument:
    """`install`, `use KEY`, `remove KEY` or `remove KEY force`. Only the root does it."""
    if node.key_ring is None:
        return RotatedDocument(error=NO_KEYS)
    if node.snapshot().place is not Place.ROOT:
        return RotatedDocument(error=f"{node.address} is not the root any more: try again", passing=True)
    before = node.key_ring.ring
    try:
        if words[:1] == ("remove",) and words[2:] != ("force",):
            await _check_all_have(node, before, budget_s)
        if node.key_ring.ring is not before:
            return RotatedDocument(error="the key ring was changed meanwhile: try again", passing=True)
        ring, name = _changed(before, words)
    except KeyringError as error:
        return RotatedDocument(error=str(error))
    node.key_ring.take(ring)
    return RotatedDocument(key=name, revision=ring.revision)


def _changed(ring: Keyring, words: tuple[str, ...]) -> tuple[Keyring, str]:
    match words:
        case ("install",):
            key = new_key()
            return rotation.install(ring, key), key.name
        case ("use", name):
            return rotation.use(ring, name), name
        case ("remove", name, *_):
            return rotation.remove(ring, name), name
    raise KeyringError("a change of keys is install, use KEY or remove KEY")


async def _check_all_have(node: NodeApi, ring: Keyring, budget_s: float) -> None:
    """Raises KeyringError with the nodes that may still depend on the old ring."""
    found = await all_keys(node, min(budget_s, BUDGET_S_MAX))
    behind = [each for each in found.rings if each.revision != ring.revision or each is not found.rings[0]]
    names = [address for each in behind for address in each.addresses] + list(found.silent)
    count = sum(each.nodes for each in behind) + found.silent_nodes
    if count:
        some = ", ".join(names[:8]) + (", ..." if count > len(names[:8]) else "")
        raise KeyringError(f"{count} of the nodes have not answered that they have the newest ring: {some}")
