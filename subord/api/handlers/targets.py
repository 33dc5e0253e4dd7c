"""`/sd`: the scrape targets for Prometheus, as its HTTP service discovery reads them.

Output: the whole list each time, in JSON (https://prometheus.io/docs/prometheus/latest/http_sd/), including nodes
that do not answer, without nodes that left. The labels are those of the computed place, which never changes, so a
node that moves in the tree keeps its series. A node that does not know the whole list answers 503: after an error
Prometheus keeps its list, whereas it would take half a list for a whole one.
"""

from __future__ import annotations

import msgspec

from subord.api.handlers.members import Cluster, own
from subord.api.http.server import Query, Response, failure
from subord.api.models.fields import MemberDocument, MembersDocument
from subord.api.node_api import NodeApi
from subord.runtime.state.history import SETTLE_S

PORT_DEFAULT = 9717
WORDS = ("of", "port")


class TargetGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One node. All labels begin with `__meta_`; relabelling chooses among them."""

    targets: tuple[str]
    labels: dict[str, str]


async def targets(node: NodeApi, cluster: Cluster, query: Query) -> Response:
    """The targets of this node's subtree; with `?of=cluster` those of the whole tree. `?port=N` sets another port."""
    if unknown := sorted(set(query) - set(WORDS)):
        return failure(400, f"unknown parameter {unknown[0]}; known: {', '.join(WORDS)}")
    port = query.get("port", str(node.web_port or PORT_DEFAULT))
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        return failure(400, "port must be a number from 1 to 65535")
    of = query.get("of", "subtree")
    if of not in {"subtree", "cluster"}:
        return failure(400, "of must be subtree or cluster")
    members = await cluster.settled() if of == "cluster" else _settled(node)
    if isinstance(members, str):
        return failure(503, members)
    return Response(msgspec.json.encode([_group(node, each, port) for each in members.members]))


def _settled(node: NodeApi) -> MembersDocument | str:
    """The members of this subtree; or the reason why they are not known yet."""
    view = node.snapshot()
    if view.place is None:
        return f"{node.address} has no place in the tree just now"
    if view.since_s < SETTLE_S:
        return f"{node.address} has only just come to its place, and may not know all below it yet"
    return own(node)


def _group(node: NodeApi, member: MemberDocument, port: str) -> TargetGroup:
    host = f"[{member.address}]" if ":" in member.address else member.address
    level, offset = node.settings.numbering.level_and_offset(member.position)
    return TargetGroup(
        targets=(f"{host}:{port}",),
        labels={
            "__meta_subord_address": member.address,
            "__meta_subord_position": str(member.position),
            "__meta_subord_level": str(level),
            "__meta_subord_offset": str(offset),
        },
    )
