"""Key rings of all nodes: who has which, and changing them from the root on.

Intuition: a roll call by platoons. Every leader asks its own, adds itself, and reports one sum with the names of
those who differ; so the one at the top hears a handful of reports, however many there are below.

A change is made by the root alone, so that two are never made at once; it travels down the edges as a whole new ring
(runtime/net/streams.py), and the next roll call says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from subord.api.models import nodes
from subord.api.models.fields import AllKeysDocument, CountedRing, KeysDocument, RotatedDocument, SealDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query import aggregate
from subord.core.state.view import Place, Standing
from subord.sealing import rotation
from subord.sealing.keys import Keyring, KeyringError, new_key

NAMED_MAX = 32  # addresses in one report, of each kind
BUDGET_S_MAX = 30.0
NO_KEYS = "nothing is sealed here: there is no cluster.key_file"


async def find(shown: NodeApi, budget_s: float) -> AllKeysDocument:
    """Of the whole cluster, or of the largest part that answers within `budget_s`."""

    async def own(left_s: float) -> KeysDocument:
        return await (coverage if nodes.path(shown) else all_keys)(shown, left_s)

    found = await aggregate.widest(shown, "keys", KeysDocument, budget_s, own)
    fields = msgspec.structs.asdict(found.report)
    return AllKeysDocument(asked=found.asked, complete=found.note is None, note=found.note, **fields)


async def coverage(shown: NodeApi, budget_s: float) -> KeysDocument:
    """Our subtree, within `budget_s`."""
    found = [_of_one(shown.address, nodes.seal(shown))]
    for each in await aggregate.below(shown, "keys", KeysDocument, budget_s):
        silent = KeysDocument(rings=(), silent=(each.address,), silent_nodes=each.nodes)
        found.append(silent if isinstance(each.report, AskFailure) else each.report)
    return fold(found)


async def all_keys(shown: NodeApi, budget_s: float) -> KeysDocument:
    """Of the whole tree, at its root: besides our subtree those who are missing, and may come back."""
    missing = [row.position for row in shown.roster().rows if row.standing is Standing.MISSING]
    away = tuple(map(shown.settings.network.address_text_of, missing))
    return fold([await coverage(shown, budget_s), KeysDocument(rings=(), silent=away, silent_nodes=len(away))])


def _of_one(address: str, own: SealDocument | None) -> KeysDocument:
    if own is None:
        return KeysDocument(rings=(), silent=(address,), silent_nodes=1)
    ring = CountedRing(
        revision=own.revision, keys=own.keys, nodes=1, addresses=(address,), unsaved=0 if own.saved else 1
    )
    return KeysDocument(rings=(ring,), silent=(), silent_nodes=0)


def fold(reports: Iterable[KeysDocument]) -> KeysDocument:
    """One report of many, the newest ring first."""
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
    silent_nodes += sum(ring.nodes for ring in ranked[NAMED_MAX:])  # of whom nobody could be told apart
    return KeysDocument(rings=tuple(ranked[:NAMED_MAX]), silent=tuple(silent[:NAMED_MAX]), silent_nodes=silent_nodes)


def _sum(one: CountedRing, other: CountedRing) -> CountedRing:
    return CountedRing(
        revision=one.revision,
        keys=one.keys,
        nodes=one.nodes + other.nodes,
        addresses=(one.addresses + other.addresses)[:NAMED_MAX],
        unsaved=one.unsaved + other.unsaved,
    )


async def rotate(shown: NodeApi, words: tuple[str, ...], budget_s: float) -> RotatedDocument:
    """`install`, `use KEY`, `remove KEY` or `remove KEY force`; only the root does it."""
    if shown.keeping is None:
        return RotatedDocument(error=NO_KEYS)
    if shown.snapshot().place is not Place.ROOT:
        return RotatedDocument(error=f"{shown.address} is not the root any more: try again", passing=True)
    before = shown.keeping.ring
    try:
        if words[:1] == ("remove",) and words[2:] != ("force",):
            await _check_nobody_needs_it(shown, before, budget_s)
        if shown.keeping.ring is not before:
            return RotatedDocument(error="the key ring was changed meanwhile: try again", passing=True)
        ring, name = _changed(before, words)
    except KeyringError as error:
        return RotatedDocument(error=str(error))
    shown.keeping.take(ring)
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


async def _check_nobody_needs_it(shown: NodeApi, ring: Keyring, budget_s: float) -> None:
    """Raises KeyringError: who may still depend on the old ring is named."""
    found = await all_keys(shown, min(budget_s, BUDGET_S_MAX))
    behind = [each for each in found.rings if each.revision != ring.revision]
    behind += [each for each in found.rings if each.revision == ring.revision and each is not found.rings[0]]
    names = [address for each in behind for address in each.addresses] + list(found.silent)
    count = sum(each.nodes for each in behind) + found.silent_nodes
    if count:
        some = ", ".join(names[:8]) + (", ..." if count > len(names[:8]) else "")
        raise KeyringError(f"{count} of the nodes have not answered that they have the newest ring: {some}")
