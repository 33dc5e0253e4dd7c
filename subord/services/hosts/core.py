"""What a node answers about the table of hosts, what the issuer makes of all answers, and the table itself.

Inputs are the state of the node, and queries; outputs are answers, a HostsDocument, and at `/v1/hosts/table` the
table as this node holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import trio

from subord.api.http.server import Handler, Query, Response
from subord.api.http.server import document as shown
from subord.api.node_api import NodeApi
from subord.services.contract import Service
from subord.services.hosts.telling import answer, document, published


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """By path."""
    return {"/v1/hosts/table": partial(_table, node)}


async def _table(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return shown(published(node))


SERVICE = Service(answer, document, paths=paths)
