"""Steps of a move at one of its two servers. They take little time, and are done before the order is answered.

Each can be done again: a mark in the machine's definition says how far a move has come
(services/machines/power/changes/moves.py). Inputs are orders and what is there; output is what the queue's node is
told. Invariant: a machine arrives only where it could start now; otherwise it stays where it is.
"""

from __future__ import annotations

from xml.etree.ElementTree import ParseError

from subord.services.machines import guarding
from subord.services.machines.model import Server
from subord.services.machines.orders import Arrive, Forget, Settle, Start, Stay
from subord.services.machines.plan import Plan
from subord.services.machines.power.definitions import for_the_way, parsed
from subord.services.machines.power.interface import Power
from subord.services.machines.power.marks import read_mark
from subord.services.machines.power.records import Definition, Outcome, Refused
from subord.services.machines.power.records import Done as Did
from subord.services.machines.serving.adapter import larger, ours, template_need
from subord.services.machines.task import TEXT_CHARS_MAX, XML_BYTES_MAX, Done

TOO_LARGE = (
    "{name} has so many network addresses that they take {bytes} bytes, and an order has room for {most}; it stays "
    "here, and can start only here: set moves to false in the plan"
)


def refused(reason: str) -> Done:
    """Nothing was done, and nothing is under way."""
    return Done(reason[:TEXT_CHARS_MAX], is_refused=True)


def said(outcome: Outcome) -> Done:
    if isinstance(outcome, Did):
        return Done()
    return Done(outcome.reason[:TEXT_CHARS_MAX], is_refused=isinstance(outcome, Refused))


async def leave(power: Power, server: Server, plan: Plan, action: Start) -> Done:
    """What the other server needs of its definition, if the machine is here."""
    there = next((each for each in server.machines if each.name == action.machine), None)
    if there is not None and (reason := guarding.may_give(ours(there, plan), action.server)):
        return refused(reason)
    found = await power.leave(action.machine, action.server)
    if found is None:
        return Done()
    if not isinstance(found, Definition):
        return said(found)
    xml = for_the_way(parsed(found.xml))
    size = len(xml.encode())
    if size > XML_BYTES_MAX:
        stays = await power.stay(action.machine, action.server)
        text = TOO_LARGE.format(name=action.machine, bytes=size, most=XML_BYTES_MAX)
        return refused(text) if isinstance(stays, Did) else said(stays)
    return Done(id=found.id, xml=xml)


async def arrive(power: Power, server: Server, plan: Plan, action: Arrive) -> Done:
    """It is made from the template of its type here: an order only names what is done."""
    if action.machine in plan.always_on:
        return refused(f"{action.machine} is always on; nothing was defined")
    try:
        mark = read_mark(parsed(action.xml))
    except ParseError as error:
        return refused(f"the definition of {action.machine} is damaged ({error}); nothing was defined")
    kind = plan.by_name().get("" if mark is None else mark.type)
    if kind is None:
        return refused(f"{action.machine} is of no type of the plan of this server; nothing was defined")
    is_here = any(each.name == action.machine for each in server.machines)
    need = larger(kind.need, template_need(kind.template, server))
    if not is_here and (reason := guarding.may_add(server, need)):
        return refused(reason)
    definition = Definition(action.machine, action.id, action.xml)
    return said(await power.arrive(definition, action.source, kind.template))


async def forget(power: Power, server: Server, action: Forget) -> Done:
    there = next((each for each in server.machines if each.name == action.machine), None)
    if there is None:
        return Done()
    if reason := guarding.may_forget(there):
        return refused(reason)
    return said(await power.forget(action.machine, there.given_to))


async def settle(power: Power, action: Settle) -> Done:
    return said(await power.settle(action.machine, action.source))


async def stay(power: Power, action: Stay) -> Done:
    return said(await power.stay(action.machine, action.target))
