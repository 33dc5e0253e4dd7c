"""The plan that a node holds, for the node itself and for the commands.

Input is the node; outputs are the plan, and its JSON document. Invariant: a plan that this release cannot read has a
version, and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.core.address.network import Network
from subord.core.carriage.documents import ELASTIC
from subord.services.elastic.plan import Plan, decode_plan
from subord.services.elastic.telling.documents import MountDocument, OptionsDocument, PlanDocument, UserDocument


class Published(NamedTuple):
    """`plan` None: no operator has published one, or this release cannot read it."""

    plan: Plan | None
    shown: PlanDocument


def published(node: NodeApi) -> Published:
    """What the node holds."""
    membership, network = node.tracker.membership, node.settings.network
    held = membership.documents.by_name.get(ELASTIC)
    if held is None:
        return Published(None, of_plan(None, network, 0, None, None))
    found = decode_plan(held.order.body)
    if found is not None and found.manager > network.size:
        found = None
    principal, _ = membership.signers.get(ELASTIC, ("", ""))
    at = time_text(held.at_ms / 1000)
    is_disputed = ELASTIC in membership.documents.conflicts
    shown = of_plan(found, network, held.version, principal or None, at, conflict=is_disputed)
    return Published(found, shown)


def of_plan(
    plan: Plan | None,
    network: Network,
    version: int,
    principal: str | None,
    time: str | None,
    *,
    conflict: bool = False,
) -> PlanDocument:
    """None: there is none, or it cannot be read."""
    found = plan or Plan(manager=0)
    options = found.options
    return PlanDocument(
        version=version,
        principal=principal,
        time=time,
        off=plan is not None and plan.is_off,
        manager=None if found.is_off else network.address_text_of(found.manager),
        options=None if options is None else OptionsDocument(**msgspec.structs.asdict(options)),
        prefix=found.prefix,
        former=found.former,
        kinds=found.kinds,
        users=tuple(UserDocument(**msgspec.structs.asdict(each)) for each in found.users),
        mounts=tuple(MountDocument(**msgspec.structs.asdict(each)) for each in found.mounts),
        hosts=found.has_hosts,
        trial=found.is_trial,
        conflict=conflict,
    )
