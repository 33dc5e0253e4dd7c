"""The members of the cluster for Prometheus: `/sd` as targets to scrape, `/metrics/members` as metrics.

Output: the whole list each time, including nodes that do not answer, without nodes that left. The labels of targets
are those of the computed place, which never changes, so a node that moves in the tree keeps its series. A node that
does not know the whole list answers 503.

After an error Prometheus keeps the targets of `/sd` (https://prometheus.io/docs/prometheus/latest/http_sd/), for as
long as the error lasts, but ends all series of a page. So the rules count a target only if the page names it, too.
"""

from __future__ import annotations

import msgspec

from subord.api.handlers.members import own, registered
from subord.api.http.server import METRICS_TYPE, Query, Response, document, failure
from subord.api.models.members import MemberDocument, MembersDocument
from subord.api.node_api import NodeApi
from subord.core.members.history import SETTLE_S
from subord.core.members.register import State

PORT_DEFAULT = 9717
WORDS = ("of", "port")
MEMBERS_HEAD = """\
# HELP subord_member_live 1 if the member is up, 0 if down; left out under maintenance; only at `/metrics/members`
# TYPE subord_member_live gauge
"""


class TargetGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One node. All labels begin with `__meta_`; relabelling chooses among them."""

    targets: tuple[str]
    labels: dict[str, str]


async def targets(node: NodeApi, query: Query) -> Response:
    """The targets of this node's subtree; with `?of=cluster` those of the whole tree. `?port=N` sets another port."""
    if unknown := sorted(set(query) - set(WORDS)):
        return failure(400, f"unknown parameter {unknown[0]}; known: {', '.join(WORDS)}")
    port = query.get("port", str(node.web_port or PORT_DEFAULT))
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        return failure(400, "port must be a number from 1 to 65535")
    of = query.get("of", "subtree")
    if of not in {"subtree", "cluster"}:
        return failure(400, "of must be subtree or cluster")
    members = _known(node) if of == "cluster" else _settled(node)
    if isinstance(members, str):
        return failure(503, members)
    return document([_group(node, each, port) for each in members.members])


def _known(node: NodeApi) -> MembersDocument | str:
    """The members of the whole tree, as the register has them; or the reason why this node's register is not whole.

    The root writes a new node into the register, so a register without this node did not come from the root yet.
    """
    view, register = node.snapshot(), node.tracker.membership.register
    record = register.at(view.position)
    if view.place is None or record is None or record.state is not State.UP:
        return f"{node.address} has only just come, and may not know all nodes yet"
    return registered(node)


async def member_metrics(node: NodeApi, _: Query) -> Response:
    """One gauge for each member. Written without the library, which takes ten times as long for many series."""
    found = _known(node)
    if isinstance(found, str):
        return failure(503, found)
    lines = [
        f'subord_member_live{{address="{each.address}"}} {int(each.standing not in {"missing", "gone"})}\n'
        for each in found.members
        if each.maintenance is None
    ]
    return Response("".join([MEMBERS_HEAD, *lines]).encode(), content_type=METRICS_TYPE)


def _settled(node: NodeApi) -> MembersDocument | str:
    """The members of this subtree; or the reason why they are not known yet."""
    view = node.snapshot()
    if view.place is None:
        return f"{node.address} has no place in the tree just now"
    if view.since_s < SETTLE_S:
        return f"{node.address} has only just come to its place, and may not know all below it yet"
    if node.roster().is_root and not node.orders.is_settled:
        return f"{node.address} has only just become root, and may not know all members yet"
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
