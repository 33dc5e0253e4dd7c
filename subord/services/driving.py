"""Makes the driver of orders of a daemon: its readings, its agent, and the receipts that it signs.

Input is the running node; output is a driver (runtime/orders/driver.py) that knows all registered services.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from subord.api.node_api import NodeApi
from subord.core.carriage.documents import REVOKED
from subord.core.identity import receipts
from subord.core.node import Node
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.driver import Carrier, OrderDriver
from subord.services.serving import effects, readings


def order_driver(api: NodeApi, node: Node, agent_socket: str, parts: Sequence[Carrier]) -> OrderDriver:
    """`agent_socket`: where the agent of this node is, if there is one. `parts`: what else rides on the links."""
    membership = api.tracker.membership
    agent = Agent(agent_socket, api.counters, lambda: membership.documents.by_name.get(REVOKED))
    made = OrderDriver(node, api.counters, readings(api), membership, parts, agent=agent, effects=effects())
    made.receipt = partial(receipts.signed, api.identity.signer, api.gate.cluster, node.context.position)
    return made
