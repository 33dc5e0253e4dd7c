"""Which actions of earlier iterations are still waited for.

Inputs are the pending actions and what is seen now; output is those that are still under way. An order expires, so
an answer of the server from later than that shows whether it was obeyed; nothing is waited for without an end.
Invariant: an action that may still begin, or has begun and is not seen yet, stays pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from subord.services.machines.model import Doing, Machine, Server, State
from subord.services.machines.orders import Action, Clone, Close, Delete, Open, Pending, Start, Stay, Stop
from subord.services.machines.plan import Waits


class Waited(NamedTuple):
    """`notes`: what came to nothing, in words. `lost`: the same."""

    pending: tuple[Pending, ...]
    notes: tuple[str, ...] = ()
    lost: tuple[Pending, ...] = ()


def pending_of(actions: Iterable[Action], waits: Waits, now: float) -> list[Pending]:
    """`actions`: those that are ordered now."""
    return [Pending(each, now, now + _wait_of(each, waits)) for each in actions]


def still(pending: Iterable[Pending], servers: Iterable[Server], waits: Waits, now: float) -> Waited:
    known = {each.name: each for each in servers}
    places: dict[str, dict[str, Machine]] = {}
    for server in known.values():
        for machine in server.machines:
            places.setdefault(machine.name, {})[server.name] = machine
    left, notes, lost = list[Pending](), list[str](), list[Pending]()
    for each in pending:
        if _is_seen(each.action, places.get(each.action.machine, {})):
            continue
        if now > each.until or _is_lost(each, known, waits, now):
            kind = type(each.action).__name__.lower()
            notes.append(f"{kind} {each.action.machine}: no effect is seen after {now - each.given_at:.0f} s")
            lost.append(each)
        else:
            left.append(each)
    return Waited(tuple(left), tuple(notes), tuple(lost))


def _wait_of(action: Action, waits: Waits) -> int:
    match action:
        case Open() | Close():
            return waits.batch_s
        case Start():
            return waits.start_s
        case Clone():
            return waits.clone_s
        case Stop():
            return waits.stop_s
        case Delete():
            return waits.delete_s
    return waits.answer_s


def _is_seen(action: Action, places: Mapping[str, Machine]) -> bool:
    """`places`: the machine of the action by server. From then on its server reports what it does."""
    if isinstance(action, Open):
        return all(each.is_open or not each.is_running for each in places.values())
    if isinstance(action, Close):
        return not any(each.is_open for each in places.values())
    there = places.get(action.server)
    if there is None:
        return not isinstance(action, Start | Clone)
    return not there.given_to and _is_begun(action, there)


def _is_begun(action: Action, there: Machine) -> bool:
    match action:
        case Start() | Clone():
            return there.state != State.OFF or there.doing in (Doing.STARTING, Doing.CLONING)
        case Stop():
            return there.state == State.OFF or there.doing is Doing.STOPPING
        case Delete():
            return there.doing is Doing.DELETING
    return isinstance(action, Stay)


def _is_lost(pending: Pending, servers: Mapping[str, Server], waits: Waits, now: float) -> bool:
    """The order has expired, and every server that it concerns has answered since without a trace of it. A server
    that does not answer is not waited for."""
    action, expired_at = pending.action, pending.given_at + waits.order_s
    if isinstance(action, Open | Close) or now <= expired_at:
        return False
    names = {action.server, action.source or action.server} if isinstance(action, Start) else {action.server}
    concerned = [servers[each] for each in names if each in servers]
    return all(each.asked_at > expired_at or not each.is_reachable for each in concerned)
