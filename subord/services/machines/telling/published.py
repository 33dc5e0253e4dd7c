"""The plan that a node holds, for the node itself and for the commands.

Input is the node; outputs are the plan, and its JSON document. Invariant: a plan that this release cannot follow has
a version and the reason, and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import asdict

from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.core.address.network import Network
from subord.core.carriage.documents import MACHINES
from subord.services.machines.plan import Plan, PlanError, read
from subord.services.machines.telling.documents import HeadroomDocument, PlanDocument, TypeDocument, WaitsDocument


class Published(NamedTuple):
    """`plan` None: no operator has published one, or this release cannot follow it."""

    plan: Plan | None
    shown: PlanDocument


def published(node: NodeApi) -> Published:
    """What the node holds."""
    membership, network = node.tracker.membership, node.settings.network
    held = membership.documents.by_name.get(MACHINES)
    if held is None:
        return Published(None, of_plan(None, network))
    found, fault = _read(held.order.body, network)
    principal, _ = membership.signers.get(MACHINES, ("", ""))
    shown = of_plan(
        found,
        network,
        held.version,
        principal=principal or None,
        time=time_text(held.at_ms / 1000),
        fault=fault,
        conflict=MACHINES in membership.documents.conflicts,
    )
    return Published(found, shown)


def _read(body: bytes, network: Network) -> tuple[Plan | None, str]:
    """The plan, or why it cannot be followed."""
    try:
        found = read(body)
    except PlanError as error:
        return None, str(error)
    if found.manager > network.size:
        return None, f"the node {found.manager}, which is to have the queue, is outside the network"
    return found, ""


def of_plan(
    plan: Plan | None,
    network: Network,
    version: int = 0,
    *,
    principal: str | None = None,
    time: str | None = None,
    fault: str = "",
    conflict: bool = False,
) -> PlanDocument:
    """None: there is none, or it cannot be followed."""
    found = plan or Plan(manager=0)
    return PlanDocument(
        version=version,
        principal=principal,
        time=time,
        off=plan is not None and plan.is_off,
        manager=None if found.is_off else network.address_text_of(found.manager),
        fault=fault,
        types=tuple(TypeDocument(**asdict(each)) for each in found.types),
        headroom=HeadroomDocument(**asdict(found.headroom)),
        period_s=found.period_s,
        waits=WaitsDocument(**asdict(found.waits)),
        store_mb=found.store_mb,
        moves=found.moves,
        always_on=found.always_on,
        trial=found.is_trial,
        conflict=conflict,
    )
