"""Makes what rides on the edges of a daemon: orders with their services, agent and receipts, the ledger, blobs,
sets of files, shares, elastic growth, tables of hosts, virtual machines, and transfer queues.

Inputs are the running node and its configuration; output is drivers of runtime/ that know all registered services.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import trio

from subord.api.node_api import NodeApi
from subord.config.classes import entries_of
from subord.config.kinds import kinds_of
from subord.config.schema import Config
from subord.core.carriage.documents import REVOKED
from subord.core.identity import receipts
from subord.core.node import Node
from subord.runtime.blobs.holds import BlobHolds
from subord.runtime.blobs.keeper import BlobKeeper
from subord.runtime.elastic.keeper import ElasticKeeper
from subord.runtime.hosts.keeper import HostsKeeper
from subord.runtime.ledger.keeper import LedgerKeeper
from subord.runtime.machines.keeper import MachinesKeeper
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.driver import OrderDriver
from subord.runtime.shares.keeper import SharesKeeper
from subord.runtime.transfer.keeper import TransferKeeper
from subord.services.files.sets.handing import Handing
from subord.services.serving import effects, publish_all, readings
from subord.services.shares.bank import Bank
from subord.services.shares.dividing import Dividing
from subord.services.shares.past.keeping import keep_forever


class Carriage(NamedTuple):
    """What rides on the edges of one daemon."""

    orders: OrderDriver
    ledger: LedgerKeeper
    blobs: BlobKeeper
    holds: BlobHolds
    sets: Handing
    shares: SharesKeeper
    elastic: ElasticKeeper
    hosts: HostsKeeper
    machines: MachinesKeeper
    transfer: TransferKeeper

    def start(self, api: NodeApi, nursery: trio.Nursery) -> None:
        """Run all of it, publish the reports of the services, and keep what shares were decided."""
        for each in self:
            nursery.start_soon(each.run)
        nursery.start_soon(keep_forever, api)
        publish_all(api, nursery)


def carriage_of(api: NodeApi, node: Node, config: Config) -> Carriage:
    """The carriage of a daemon, with all registered services and the agent of its node."""
    directory, network, membership = config.node.state_directory, config.cluster.network, api.tracker.membership
    ledger = LedgerKeeper(config.ledger, directory, network, api.counters)
    classes = dict.fromkeys(entry.name for entry in entries_of(config.shares.classes))
    blobs = BlobKeeper(directory, config.blobs.cache_bytes_max, network.address_text_of)
    agent = Agent(config.agent.socket, api.counters, lambda: membership.documents.by_name.get(REVOKED))
    read, act = readings(api), effects()
    shares = SharesKeeper(Dividing(Bank()), tuple(classes), agent, api.tracker, api.counters)
    orders = OrderDriver(node, api.counters, read, membership, (ledger, blobs, shares), agent=agent, effects=act)
    orders.receipt = partial(receipts.signed, api.identity.signer, api.gate.cluster, node.context.position)
    holds, sets = BlobHolds(blobs, node.context.position), Handing(api, agent)
    kinds = tuple(kinds_of(config.elastic.kinds))
    elastic = ElasticKeeper(agent, api.tracker, api.counters, config.elastic.batch, kinds)
    hosts = HostsKeeper(config.elastic.hosts_file, agent, api.tracker, api.counters)
    machines = MachinesKeeper(agent, api.tracker, api.counters, config.machines.uri, config.machines.batch)
    transfer = TransferKeeper(agent, api.tracker, api.counters, config.transfer)
    return Carriage(orders, ledger, blobs, holds, sets, shares, elastic, hosts, machines, transfer)
