"""The plan that a node holds, for the node itself and for the commands.

Input is the node; outputs are the plan, and its JSON document. Invariant: a plan that this release cannot follow has
a version and the reason, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from hashlib import blake2b
from typing import NamedTuple

from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.core.address.network import Network
from subord.core.carriage.documents import TRANSFER
from subord.services.transfer.plan import Peer, Plan, PlanError, TransferQueue, decode_plan, encode_plan
from subord.services.transfer.telling.documents import PeerDocument, PlanDocument, QueueDocument


class Published(NamedTuple):
    """`plan` None: no operator has published one, or this release cannot follow it."""

    plan: Plan | None
    shown: PlanDocument


def published(node: NodeApi) -> Published:
    """What the node holds."""
    membership, network = node.tracker.membership, node.settings.network
    held = membership.documents.by_name.get(TRANSFER)
    if held is None:
        return Published(None, of_plan(None, network, 0))
    fault = ""
    plan: Plan | None = None
    try:
        plan = decode_plan(held.order.body)
    except PlanError as error:
        fault = str(error)
    if plan is not None and plan.host > network.size:
        fault = f"its host is number {plan.host}, outside the network {network.text}"
        plan = None
    principal, _ = membership.signers.get(TRANSFER, ("", ""))
    shown = of_plan(
        plan,
        network,
        held.version,
        principal=principal or None,
        time=time_text(held.at_ms / 1000),
        conflict=TRANSFER in membership.documents.conflicts,
        fault=fault,
    )
    return Published(plan, shown)


def of_plan(
    plan: Plan | None,
    network: Network,
    version: int,
    *,
    principal: str | None = None,
    time: str | None = None,
    conflict: bool = False,
    fault: str = "",
) -> PlanDocument:
    """None: there is none, or it cannot be followed."""
    found = plan or Plan(host=0)
    return PlanDocument(
        version=version,
        principal=principal,
        time=time,
        off=plan is not None and plan.is_off,
        fault=fault,
        host=None if found.is_off else network.address_text_of(found.host),
        cluster=found.cluster,
        peer=None if found.peer is None else _peer(found.peer),
        queues=tuple(map(_queue, found.queues)),
        slots_max=found.slots_max,
        idle_pending_max=found.idle_pending_max,
        high_throughput=found.is_high_throughput,
        lease_s=found.lease_s,
        poll_s=found.poll_s,
        permit_s=found.permit_s,
        users=len(found.users),
        same_users=found.same_users,
        requests=len(found.requests),
        parallels=len(found.parallels),
        passes_others=found.passes_others,
        project=found.project,
        opt_out=found.opt_out,
        sensor=found.sensor,
        conflict=conflict,
        digest="" if plan is None else blake2b(encode_plan(plan), digest_size=8).hexdigest(),
    )


def _peer(peer: Peer) -> PeerDocument:
    prints = tuple(map(fingerprint, peer.certificates))
    return PeerDocument(name=peer.name, addresses=peer.addresses, fingerprints=prints)


def fingerprint(certificate: str) -> str:
    """SHA-256 of a certificate as plans have it; "": it is none."""
    try:
        return hashlib.sha256(base64.b64decode(certificate, validate=True)).hexdigest()
    except binascii.Error:
        return ""


def _queue(queue: TransferQueue) -> QueueDocument:
    requests = tuple(f"{name}={value}" for name, value in queue.requests)
    return QueueDocument(name=queue.name, queue=queue.queue, requests=requests)
