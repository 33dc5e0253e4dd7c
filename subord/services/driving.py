"""Makes what rides on the edges of a daemon: orders with their services, agent and receipts, the ledger, blobs, and
sets of files.

Inputs are the running node and its configuration; output is drivers of runtime/ that know all registered services.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import trio

from subord.api.node_api import NodeApi
from subord.config.schema import Config
from subord.core.carriage.documents import REVOKED
from subord.core.identity import receipts
from subord.core.node import Node
from subord.runtime.blobs.holds import BlobHolds
from subord.runtime.blobs.keeper import BlobKeeper
from subord.runtime.ledger.keeper import LedgerKeeper
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.driver import OrderDriver
from subord.services.files.sets.handing import Handing
from subord.services.serving import effects, publish_all, readings


class Carriage(NamedTuple):
    """What rides on the edges of one daemon."""

    orders: OrderDriver
    ledger: LedgerKeeper
    blobs: BlobKeeper
    holds: BlobHolds
    sets: Handing

    def start(self, api: NodeApi, nursery: trio.Nursery) -> None:
        """Run all of it, and publish the reports of the services."""
        for each in self:
            nursery.start_soon(each.run)
        publish_all(api, nursery)


def carriage_of(api: NodeApi, node: Node, config: Config) -> Carriage:
    """The carriage of a daemon, with all registered services and the agent of its node."""
    directory, network, membership = config.node.state_directory, config.cluster.network, api.tracker.membership
    ledger = LedgerKeeper(config.ledger, directory, network, api.counters)
    blobs = BlobKeeper(directory, config.blobs.cache_bytes_max, network.address_text_of)
    agent = Agent(config.agent.socket, api.counters, lambda: membership.documents.by_name.get(REVOKED))
    read, act = readings(api), effects()
    orders = OrderDriver(node, api.counters, read, membership, (ledger, blobs), agent=agent, effects=act)
    orders.receipt = partial(receipts.signed, api.identity.signer, api.gate.cluster, node.context.position)
    return Carriage(orders, ledger, blobs, BlobHolds(blobs, node.context.position), Handing(api, agent))
