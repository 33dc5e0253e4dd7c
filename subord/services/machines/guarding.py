"""Whether the agent of a server does what it is told: the last check, by what is really there.

Inputs are the order, what the agent has heard before (on its disk), and the server as its virtual machines are at
this moment; output is the reason why not, or "". The agent holds a lock from this check until what is started counts
as started. Invariants: no start takes more than the server has, whatever the deciding node believed; a machine that
is not ours, or is always on, is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from subord.services.machines.model import Capacity, Machine, Need, Server, State, lack, room_of
from subord.services.machines.orders import Fence, Order
from subord.services.machines.plan import WAIT_S_MAX

LASTS_S_MAX: Final = WAIT_S_MAX + 600
"""Of an order: the longest order_s, and a clock that was set back. So none is kept for ever."""


class Heard(NamedTuple):
    """`fence`: the highest of any question or order. `numbers`: of the last order for each machine, with its fence;
    an entry can go when every order of that time has expired."""

    fence: Fence = Fence(0, 0)
    numbers: Mapping[str, tuple[Fence, int]] = {}


def may_obey(order: Order, heard: Heard, now: float) -> str:
    """Why this order is not obeyed at all; "": it is for now, and was not obeyed before."""
    if order.fence < heard.fence:
        return (
            f"it comes from life {order.fence.life} of plan {order.fence.version}, and this server obeys life "
            f"{heard.fence.life} of plan {heard.fence.version}; nothing was done"
        )
    if now > order.expires:
        return f"it came {now - order.expires:.0f} s too late; nothing was done"
    if not order.expires - now <= LASTS_S_MAX:  # not a number, too
        return (
            f"it would last {order.expires - now:.0f} s, and {LASTS_S_MAX} s are the most; nothing was done: compare "
            "the clocks of the nodes"
        )
    last = heard.numbers.get(order.action.machine)
    if last is not None and (order.fence, order.number) <= last:
        return "it was obeyed before, or a later one was; nothing was done again"
    return ""


def obeyed(order: Order, heard: Heard) -> Heard:
    """To be on the disk before the action begins."""
    numbers = {**heard.numbers, order.action.machine: (order.fence, order.number)}
    return Heard(max(heard.fence, order.fence), numbers)


def may_start(server: Server, machine: Machine) -> str:
    """`machine`: as it is there, or as it arrives from another server."""
    if reason := _not_ours(machine):
        return reason
    if machine.given_to:
        return f"{machine.name} was given to the server {machine.given_to}; it is not started here"
    if machine.came_from:
        return f"{machine.name} comes from the server {machine.came_from}, which may have it; it is not started here"
    if machine.doing is not None:
        return f"{machine.name} is just {machine.doing}; nothing was done"
    if machine.state != State.OFF:
        return f"{machine.name} is {machine.state}, not off; nothing was done"
    return may_add(server, machine.need)


def may_add(server: Server, need: Need) -> str:
    """Whether a machine with this need may come on at all."""
    if server.is_drained:
        return f"the server {server.name} is drained; nothing was started"
    lacks = lack(room_of(server), need)
    return f"{lacks} on the server {server.name}; nothing was started" if lacks else ""


def may_clone(server: Server, machine: Machine, image_mb: int, store_free_mb: int) -> str:
    """`machine`: as it will be. That no image or machine of this name exists is checked by the store too, which
    makes an image only once."""
    if reason := _not_ours(machine):
        return reason
    if any(each.name == machine.name for each in server.machines):
        return f"there is a machine {machine.name} already; nothing was cloned"
    if image_mb > store_free_mb:
        return f"{store_free_mb} of {image_mb} MiB are free in the store of images; nothing was cloned"
    return may_add(server, machine.need)


def may_stop(machine: Machine) -> str:
    if reason := _not_ours(machine):
        return reason
    if machine.doing is not None:
        return f"{machine.name} is just {machine.doing}; nothing was done"
    return "" if machine.state == State.ON else f"{machine.name} is {machine.state}, not on; nothing was done"


def may_delete(machine: Machine) -> str:
    if reason := _not_ours(machine):
        return reason
    return "" if machine.is_still else f"{machine.name} is not off here; nothing was deleted"


def may_give(machine: Machine, target: str) -> str:
    """Whether the machine leaves this server. A machine that was given may be given again to the same server only,
    in case it has not arrived."""
    if reason := _not_ours(machine):
        return reason
    if machine.given_to:
        same = machine.given_to == target
        return "" if same else f"{machine.name} was given to the server {machine.given_to} before; nothing was done"
    return "" if machine.is_still else f"{machine.name} is not off here; nothing was moved"


def may_forget(machine: Machine) -> str:
    if not machine.given_to:
        return f"{machine.name} is here, and not given away; nothing was forgotten"
    is_off = machine.state == State.OFF
    return "" if is_off else f"{machine.name} is {machine.state} here, by hand; nothing was forgotten: stop it"


def excess_of(server: Server) -> Capacity:
    """How far a server is overbooked, for alerts: 0 where it is not."""
    return Capacity(*(max(0, -left) for left in room_of(server)))


def _not_ours(machine: Machine) -> str:
    if not machine.type:
        return f"{machine.name} is not a machine of this service; nothing was done"
    return f"{machine.name} is always on; nothing was done" if machine.always_on else ""
