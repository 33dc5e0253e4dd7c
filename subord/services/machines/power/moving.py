"""A cold move between two servers: leave, arrive, forget, settle.

`cold_move` may be called again after a death at any step, by another process too, and goes on where the last one
ended. At no instant can two servers start the machine. Where both servers refuse, nothing has changed.
"""

from __future__ import annotations

from subord.services.machines.power.interface import Power
from subord.services.machines.power.records import Definition, Done, Outcome, Refused, Unavailable


async def cold_move(name: str, here: Power, there: Power) -> Outcome:
    if here.server == there.server:
        return Refused(f"{name} cannot be moved from {here.server} to itself; nothing was changed")
    left = await here.leave(name, there.server)
    if isinstance(left, Refused | Unavailable):
        return left
    changed = False
    if left is not None:
        brought = await _bring(left, here, there)
        if not isinstance(brought, Done):
            return brought
        changed = True
    settled = await there.settle(name, here.server)
    return settled._replace(is_changed=settled.is_changed or changed) if isinstance(settled, Done) else settled


async def _bring(left: Definition, here: Power, there: Power) -> Outcome:
    arrived = await there.arrive(left, here.server)
    if isinstance(arrived, Refused):
        # It did not arrive, so it may be started here again.
        stays = await here.stay(left.name, there.server)
        return arrived if isinstance(stays, Done) else stays
    if isinstance(arrived, Unavailable):
        return arrived
    return await here.forget(left.name, there.server)
