"""`/sd`: whom Prometheus should ask, in the form of its HTTP service discovery.

Intuition: the address list for the census. Everybody who lives here is on it, also those who do not open the door
just now: that nobody opens is what the census wants to know. Who moved away is not.

The contract (https://prometheus.io/docs/prometheus/latest/http_sd/): the whole list each time, in JSON. Labels are of
the computed place, which never changes, so that a node that moves in the tree stays the same series. Whoever does not
know the list, or has not had time to, says 503: after an error Prometheus goes on with the list that it has, and half
a list would be taken for a whole one.
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
    """One node. All labels begin with `__meta_`: what is wanted of them is chosen by relabelling."""

    targets: tuple[str]
    labels: dict[str, str]


async def targets(shown: NodeApi, cluster: Cluster, query: Query) -> Response:
    """Of this node's subtree; with `?of=cluster` of the whole tree. `?port=N` gives another port than ours."""
    if unknown := sorted(set(query) - set(WORDS)):
        return failure(400, f"{unknown[0]} is not known here, but {' and '.join(WORDS)} are")
    port = query.get("port", str(shown.web_port or PORT_DEFAULT))
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        return failure(400, "port must be a number from 1 to 65535")
    of = query.get("of", "subtree")
    if of not in {"subtree", "cluster"}:
        return failure(400, "of must be subtree or cluster")
    members = await cluster.settled() if of == "cluster" else _settled(shown)
    if isinstance(members, str):
        return failure(503, members)
    return Response(msgspec.json.encode([_group(shown, each, port) for each in members.members]))


def _settled(shown: NodeApi) -> MembersDocument | str:
    """Those below us; or why they are not known: who has just come to its place does not know them yet."""
    view = shown.snapshot()
    if view.place is None:
        return f"{shown.address} has no place in the tree just now"
    if view.since_s < SETTLE_S:
        return f"{shown.address} has only just come to its place, and may not know all below it yet"
    return own(shown)


def _group(shown: NodeApi, member: MemberDocument, port: str) -> TargetGroup:
    host = f"[{member.address}]" if ":" in member.address else member.address
    level, offset = shown.settings.numbering.level_and_offset(member.position)
    return TargetGroup(
        targets=(f"{host}:{port}",),
        labels={
            "__meta_subord_address": member.address,
            "__meta_subord_position": str(member.position),
            "__meta_subord_level": str(level),
            "__meta_subord_offset": str(offset),
        },
    )
