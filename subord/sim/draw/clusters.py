"""Clusters of special shapes: one guest slot, large fan-outs, IPv6, sealed ones, and sparse ones of up to 1,000
nodes.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import msgspec

from subord.sim.scenario.definition import Cluster, Identities, folded, positions_of

FANOUTS = (128, 256, 512, 1024)
SPARSE_SIZES = ((0.8, 17, 50), (0.98, 51, 150), (1.0, 151, 1000))  # (up to this share of draws, fewest, most)
SIXTEEN = 65_534  # nodes of a /16
IDENTITIES: tuple[tuple[float, Identities, bool], ...] = (
    (0.15, "none", False),
    (0.3, "pinned", True),
    (0.5, "pinned", False),
    (1.0, "strict", False),
)
"""(up to this share of seeds, identities, whether some nodes have none)."""
PINNED_MAX = 150  # nodes: each keeps the pins of all
BARE_SHARES = (0.1, 0.3, 0.7)


def sparse_positions(chance: Random, nodes: tuple[int, int] | None) -> list[int]:
    """Random positions of a /16."""
    share = chance.random()
    fewest, most = nodes or next(bounds for up_to, *bounds in SPARSE_SIZES if share <= up_to)
    return sorted(chance.sample(range(1, SIXTEEN + 1), chance.randint(fewest, most)))


def shaped(chance: Random, cluster: Cluster, kinds: Collection[str]) -> Cluster:
    """The cluster with the shapes of `kinds`."""
    if "one-guest" in kinds:
        cluster = msgspec.structs.replace(cluster, guest_slots=1)
    if "wide" in kinds:
        fanout = chance.choice(FANOUTS)
        cluster = msgspec.structs.replace(cluster, fanout=fanout, guest_slots=chance.choice((1, 2, 8, fanout)))
    if "ipv6" in kinds:
        bits = max(3, (positions_of(cluster)[-1] + 2).bit_length())
        length = chance.choice((128 - bits, 112, 64))
        cluster = msgspec.structs.replace(cluster, network=f"fd00:1:2:3::/{length}")
    if "sparse" in kinds and not (cluster.seeds or cluster.announce):
        seeds = folded(chance.sample(positions_of(cluster), 3))
        cluster = msgspec.structs.replace(cluster, seeds=seeds)
    if "memory" in kinds:
        cluster = msgspec.structs.replace(cluster, register=True, disk=True)
    if "sealed" in kinds or "rotation" in kinds:
        cluster = msgspec.structs.replace(cluster, sealed=True)
    return cluster


def identified(chance: Random, cluster: Cluster) -> Cluster:
    """The cluster with identities: in most seeds of all nodes."""
    share, positions = chance.random(), positions_of(cluster)
    identities, has_bare = next(found for up_to, *found in IDENTITIES if share <= up_to)
    if identities == "pinned" and len(positions) > PINNED_MAX:
        identities, has_bare = "strict", False
    bare = folded(chance.sample(positions, max(1, int(chance.choice(BARE_SHARES) * len(positions)))))
    return msgspec.structs.replace(cluster, identities=identities, bare=bare if has_bare else "")
